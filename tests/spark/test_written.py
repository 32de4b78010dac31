"""What a micro-batch writes to Spark's state store follows what it touches: the bytes that the
store reports, for three kinds of operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg import spark as tws
from thalweg.spark.observed import observed_figures

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

HELD, SMALL = 60_000, 4
"""Rows of the first micro-batch; micro-batches of ten rows after it."""

QUERIES: dict[str, Callable[[tw.Stream], tw.Stream]] = {
    "anti join": lambda events: events.anti_join(events.where("v > 90"), on="k"),
    "clip_by": lambda events: events.clip_by(events.where("v > 90"), on="k"),
    "snapshot": lambda events: events.group_by("k").snapshot().aggregate(n=tw.count()),
}


def write(folder: Path) -> None:
    def file(number: int, rows: int, first: int, span: int) -> None:
        at = np.arange(rows)
        table = pa.table({"ts": first + at * span // rows, "k": at * 7 % 1_000, "v": at % 97})
        pq.write_table(table, folder / f"{number}.parquet")

    folder.mkdir()
    file(0, HELD, 0, 100_000)
    for number in range(1, SMALL + 1):
        file(number, 10, 90_000 + 10 * number, 10)


@pytest.mark.parametrize("name", QUERIES)
def test_ten_rows_write_little_of_what_is_held(name: str, tmp_path: Path) -> None:
    write(tmp_path / "events")
    events = tws.from_files(
        str(tmp_path / "events"),
        time="ts",
        disorder=200_000,
        files_per_batch=1,
    ).set_duration(50)
    running = tws.start(
        QUERIES[name](events),
        to="noop",
        checkpoint=str(tmp_path / "checkpoint"),
        trigger="available now",
        progress=False,
    )
    running.wait()
    entries = map(observed_figures, running.query.recentProgress)
    figures = [entry for entry in entries if entry is not None and entry.read]
    assert [entry.read for entry in figures] == [HELD, *[10] * SMALL]
    assert figures[0].state_rows >= HELD // 2
    for entry in figures[1:]:
        assert entry.written < 0.05 * figures[0].written

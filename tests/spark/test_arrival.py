"""Windows over arrival time on real Spark: a micro-batch that runs again stamps its rows as
before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg import spark as tws
from thalweg.errors import ThalwegError

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

COLUMNS = pa.schema([("ts", pa.int64()), ("k", pa.string())])


def events(folder: Path, *, finish: bool = False) -> tw.Stream:
    return tws.from_files(str(folder), time="ts", format="json", columns=COLUMNS, finish=finish)


def test_a_micro_batch_that_runs_again_stamps_its_rows_as_before(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "1.json").write_text("".join(f'{{"ts": {t}, "k": "{t % 7}"}}\n' for t in range(50)))
    seen: list[set[tuple[int, int]]] = []

    def sink(frame: Any, _: int) -> None:
        seen.append({(row["_start"], row["_arrived"]) for row in frame.collect()})
        if len(seen) == 1:
            raise OSError("the sink is full")

    query = events(folder).stamp_arrivals(every="1 ms")
    settings: dict[str, Any] = {
        "to": sink,
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": "available now",
    }
    with pytest.raises(Exception, match="full"):
        tws.start(query, **settings).wait()
    tws.start(query, **settings).wait()
    assert len(seen[0]) == 50
    assert seen[1] == seen[0]
    assert len({stamp for _, stamp in seen[0]}) == 1


def test_windows_over_arrival_time_hold_what_came_and_close(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "1.json").write_text('{"ts": 900, "k": "a"}\n{"ts": 1, "k": "b"}\n')
    windowed = events(folder, finish=True).sliding("1 h", "30 min", over=tw.arrival())
    query = windowed.aggregate(n=tw.count())
    running = tws.start(
        query,
        checkpoint=str(tmp_path / "checkpoint"),
        trigger="available now",
        consistency="final",
    )
    running.wait()
    table = running.table()
    assert [payload["n"] for _, _, payload in table] == [2, 2]
    assert table[1][0] - table[0][0] == 30 * 60 * 1_000_000


def test_a_frame_that_does_not_stream_has_no_arrival(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "a")], "ts long, k string")
    query = tws.from_spark(frame, time="ts").stamp_arrivals()
    with pytest.raises(ThalwegError, match="all there at once"):
        tws.start(query, checkpoint=str(tmp_path / "checkpoint"))

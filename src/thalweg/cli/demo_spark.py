"""The demo on Spark: the packets arrive as files, one a minute, and a streaming query answers as
they come."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from thalweg import spark as ts
from thalweg.cli.demo import MINUTE, SECOND, Packets, Watch
from thalweg.model.answers import AnswerRow
from thalweg.spark.progress import progress_line
from thalweg.spark.query import FIGURES

__all__ = ["SparkReport", "play_on_spark"]

CUT = 20 * SECOND
"""Files end twenty seconds after the minute: a window has passed, and some of its packets are still
on their way."""


@dataclass(frozen=True)
class SparkReport:
    status: ts.QueryStatus
    rows: Sequence[AnswerRow]
    seconds: float
    start_up: float


def play_on_spark(packets: Packets, watch: Watch, say: Callable[[str], object]) -> SparkReport:
    """Run the query over the files; the story of one answer goes to `watch`, a line for each
    micro-batch to `say`."""
    with tempfile.TemporaryDirectory(prefix="thalweg-demo-") as folder:
        times = _write(packets, Path(folder) / "packets")
        began = time.monotonic()
        ts.session()
        stream = ts.from_files(
            f"{folder}/packets",
            time="time",
            disorder="1 min",
            late="drop",
            files_per_batch=1,
            finish=True,
            name="packets",
        )
        query = (
            stream.group_by("src")
            .hopping("10 min", "1 min")
            .aggregate(packets=tw.count(), bytes=tw.sum_("len"))
        )
        running = ts.start(
            query, checkpoint=f"{folder}/checkpoint", trigger="available now", progress=False
        )
        shown = -1
        first = 0.0
        while True:
            ended = running.wait(0.2)
            for entry in [entry for entry in running.query.recentProgress if entry.batchId > shown]:
                shown = entry.batchId
                first = first or time.monotonic() - began
                _follow(entry, running.table(), watch, times, say)
            if ended:
                break
        return SparkReport(running.status(), running.table(), time.monotonic() - began, first)


def _write(packets: Packets, folder: Path) -> list[int]:
    """Packets as files; when the last packet of each had arrived."""
    folder.mkdir()
    times = []
    for number, (at, rows) in enumerate(packets.cut(MINUTE, first=CUT)):
        table = pa.table(
            {"time": rows.column("_start"), "src": rows.column("src"), "len": rows.column("len")}
        )
        pq.write_table(table, folder / f"{number:04}.parquet")
        times.append(at)
    return times


def _follow(
    entry: Any,
    rows: Sequence[AnswerRow],
    watch: Watch,
    times: list[int],
    say: Callable[[str], object],
) -> None:
    figures = entry.observedMetrics[FIGURES].asDict()
    say(progress_line(entry.batchId, entry.batchDuration / 1000, figures))
    at = times[min(entry.batchId, len(times) - 1)]
    found = [
        row[2]["packets"]
        for row in rows
        if row[0] == watch.start and row[1] == watch.end and row[2]["src"] == watch.src
    ]
    watch.note(at, found[0] if found else None, figures["cti"])

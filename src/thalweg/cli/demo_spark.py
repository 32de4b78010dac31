"""The demo on Spark: the packets arrive as files, one a minute, and a streaming query answers as
they come."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from thalweg import spark as ts
from thalweg.cli.demo_packets import MINUTE, SECOND, Packets
from thalweg.cli.demo_screen import Screen, clock_text
from thalweg.cli.demo_watch import Watch
from thalweg.model.answers import AnswerRow
from thalweg.model.time import INFINITY, MIN_TIME, time_us
from thalweg.shards.reports.query_figures import BatchFigures
from thalweg.spark.observed import observed_figures

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


def play_on_spark(packets: Packets, watch: Watch, shown: Screen) -> SparkReport:
    """Run the query over the files; changes of answers are recorded in `watch` and shown after each
    micro-batch."""
    with tempfile.TemporaryDirectory(prefix="thalweg-demo-") as folder:
        times = _write(packets, Path(folder) / "packets")
        began = time.monotonic()
        ts.session()
        shown.doing("Spark is there; starting the query")
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
        shown.doing("Waiting for the first micro-batch")
        seen = -1
        first = 0.0
        while True:
            ended = running.wait(0.2)
            for entry in [entry for entry in running.query.recentProgress if entry.batchId > seen]:
                seen = entry.batchId
                first = first or time.monotonic() - began
                cti = _follow(entry, running.table(), watch, times)
                shown.show(watch)
                shown.doing(_progress(entry, cti, len(times)))
            if ended:
                break
        return SparkReport(running.status(), running.table(), time.monotonic() - began, first)


def _write(packets: Packets, folder: Path) -> list[int]:
    """Write packets to files; returns the arrival time of the last packet of each file."""
    folder.mkdir()
    times = []
    for number, (at, rows) in enumerate(packets.cut(MINUTE, first=CUT)):
        table = pa.table(
            {
                "time": rows.column("_start").cast(pa.timestamp("us", "UTC")),
                "src": rows.column("src"),
                "len": rows.column("len"),
            }
        )
        pq.write_table(table, folder / f"{number:04}.parquet")
        times.append(at)
    return times


def _follow(entry: Any, rows: Sequence[AnswerRow], watch: Watch, times: list[int]) -> int:
    """Record the answers after a micro-batch; returns the current CTI."""
    cti = (observed_figures(entry) or BatchFigures()).cti
    at = times[min(entry.batchId, len(times) - 1)]
    watched = [
        (time_us(start), time_us(end), row["packets"])
        for start, end, row in rows
        if row["src"] == watch.src
    ]
    watch.look(at, watched, cti)
    return cti


def _progress(entry: Any, cti: int, batches: int) -> str:
    figures = observed_figures(entry) or BatchFigures()
    settled = "nothing is final yet" if cti == MIN_TIME else "all is final"
    if MIN_TIME < cti < INFINITY:
        settled = f"final up to {clock_text(cti)}"
    return (
        f"Micro-batch {min(entry.batchId + 1, batches)} of {batches}: {figures.read:,} "
        f"packets in {entry.batchDuration / 1000:.1f} s, {figures.adjusts:,} answers "
        f"revised; {settled}"
    )

"""A host on Spark whose queries change while rows come at a steady rate.

Files come four a second. The hundredth query is added to 99 that run, then fifty are removed;
answers of all of them are tables in memory. What is reported:

    until it counts   micro-batches from the return of `add` until the new query has taken rows
    longest gap       between two micro-batches that have left, from the first that was begun after
                      the change on, over the median time of a micro-batch: the gap of every output
    tables            how many of the tables are those of the engine in this process over the same
                      rows: of the hundredth from the first window on that it has whole
    state             entries of Spark's state store after the removal over those before it
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from thalweg import spark as ts
from thalweg.model.answers import Answers

__all__ = ["measure_changes"]

FILES_A_SECOND = 4
SPAN = 100
"""Ticks that a file covers."""
KEYS = 100
QUERIES, REMOVED = 100, 50
FEW = 5
"""Micro-batches that each phase has at least."""
COLUMNS = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("value", pa.int64())])


def queries(events: tw.Stream) -> dict[str, tw.Stream]:
    """Counts and sums by key of the same rows, over windows of different lengths."""
    kept = events.where("value > 10")
    return {
        f"q{number}": (
            kept.group_by("key")
            .tumbling(10 * (20 + number))
            .aggregate(n=tw.count(), total=tw.sum_("value"))
        )
        for number in range(QUERIES)
    }


def measure_changes(*, rate: int, seconds: float, memory: str = "3g") -> dict[str, float]:
    """Add the hundredth query after `seconds`, remove fifty after as many more."""
    place = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
    spark = ts.session(spark__driver__memory=memory)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 10_000)
    try:
        return _measure(place, rate, seconds)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@dataclass
class _Feed:
    """Files of rows, written at a steady rate by a thread of its own until it is stopped."""

    place: Path
    rate: int
    files: int = 0
    late: float = 0.0
    """How far behind its time the last file was, in seconds."""
    _ends: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        (self.place / "events").mkdir()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        rows = self.rate // FILES_A_SECOND
        begin = time.monotonic()
        while not self._ends.wait(max(0.0, begin + self.files / FILES_A_SECOND - time.monotonic())):
            pq.write_table(_rows(self.files, rows), self.place / "next")
            (self.place / "next").rename(self.place / "events" / f"{self.files:06}.parquet")
            self.late = max(0.0, time.monotonic() - begin - self.files / FILES_A_SECOND)
            self.files += 1


def _rows(number: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(number)
    times = number * SPAN + np.arange(rows) * SPAN // rows
    return pa.table(
        [times, rng.integers(0, KEYS, rows), rng.integers(0, 100, rows)], schema=COLUMNS
    )


class _Watch:
    """When micro-batches of a host have left."""

    def __init__(self, host: ts.SparkHost) -> None:
        self._host = host
        self.left: list[float] = []

    def follow(self, seconds: float) -> None:
        """Let time pass, and a few micro-batches leave."""
        first, end = len(self.left), time.monotonic() + seconds
        self.follow_until(lambda: time.monotonic() > end and len(self.left) - first >= FEW)

    def follow_until(self, holds: Callable[[], bool], *, limit: float = 600.0) -> int:
        """Wait until something holds after a micro-batch; how many have left by then."""
        first, end = len(self.left), time.monotonic() + limit
        while not holds():
            before = self._host.batches
            self._host.wait_for_batches(1, 5)
            if self._host.query is None or not self._host.query.isActive:
                raise RuntimeError("the host has ended")
            if time.monotonic() > end:
                raise RuntimeError("given up waiting for the host")
            self.left += [time.monotonic()] * (self._host.batches - before)
        return len(self.left) - first


def _measure(place: Path, rate: int, seconds: float) -> dict[str, float]:
    feed = _Feed(place, rate)
    feed.start()

    def events() -> tw.Stream:
        return ts.from_files(
            str(place / "events"), time="ts", columns=COLUMNS, disorder=0, name="events"
        )

    every = queries(events())
    last = every.pop(f"q{QUERIES - 1}")
    host = ts.host(events(), checkpoint=str(place / "checkpoint"))
    host.add_all(every, partial=True)
    host.start()
    watch = _Watch(host)
    try:
        watch.follow(seconds)
        warm = len(watch.left)
        host.add(f"q{QUERIES - 1}", last)
        added = len(watch.left)
        counted = watch.follow_until(lambda: host.status(f"q{QUERIES - 1}").state_rows > 0)
        watch.follow(seconds)
        typical = median(_seconds(host.query)[1:])
        kept = [f"q{number}" for number in range(REMOVED, QUERIES)]
        before = _state_entries(host.query)
        removed = len(watch.left)
        host.remove(*(f"q{number}" for number in range(REMOVED)))
        watch.follow(seconds)
        after = _state_entries(host.query)
        feed.stop()
        watch.follow_until(lambda: _files_read(host.query) >= feed.files)
        rows = pq.read_table(place / "events")
        right = sum(
            _is_right(host.table(name), every.get(name, last), rows, whole=name in every)
            for name in kept
        )
    finally:
        feed.stop()
        host.stop()
    gaps = np.diff(watch.left)
    return {
        "rows": float(feed.files * (rate // FILES_A_SECOND)),
        "seconds that rows came late": feed.late,
        "micro-batch": typical,
        "until it counts": float(counted),
        "longest gap, added": float(gaps[added - 1 : added + 3].max()) / typical,
        "longest gap, removed": float(gaps[removed - 1 : removed + 3].max()) / typical,
        "longest gap, neither": float(gaps[warm // 2 : added - 1].max()) / typical,
        "tables that are right": float(right),
        "tables": float(len(kept)),
        "state, after over before": after / before,
    }


def _seconds(query: Any) -> list[float]:
    """Of each micro-batch that had input."""
    return [
        entry["durationMs"]["triggerExecution"] / 1_000
        for entry in query.recentProgress
        if entry["numInputRows"]
    ]


def _state_entries(query: Any) -> float:
    return float(sum(entry["numRowsTotal"] for entry in query.lastProgress["stateOperators"]))


def _files_read(query: Any) -> int:
    """How many files the last micro-batch has come to."""
    reached = query.lastProgress["sources"][0]["endOffset"]
    told = json.loads(reached) if isinstance(reached, str) else reached
    return int(told["inner"]["n"])


def _is_right(table: Answers, query: tw.Stream, rows: pa.Table, *, whole: bool) -> bool:
    """Whether a table is that of all rows that were written, as far as windows are over; unless
    `whole`, from its first window on."""
    newest = rows.column("ts").to_numpy().max()
    expected = tw.table(query, {"events": tw.events(rows, "ts")})
    found = [row for row in table if row[1] <= newest]
    first = 0 if whole else min((start for start, _, _ in found), default=0)
    return bool(found) and found == [r for r in expected if r[1] <= newest and r[0] >= first]

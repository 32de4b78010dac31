"""Idle: a union of a fast and a silent source, under ordered-wait, timer and on-demand policies
side by side.

The fast source sends rows in every micro-batch of a second; the silent one stops after a while.
Measured is how many micro-batches pass from the one in which the fast source passes the end of a
window to the one with its final answer, how far behind the clock final answers are, and what is
held meanwhile. The clock is simulated, in-process and for a divided query; with `-o spark=True` the
same runs on Spark by the clock on the wall.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from thalweg.cli.bench import Emit
from thalweg.io.events import events
from thalweg.progress.policies import Policy
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import FakeClock

__all__ = ["POLICIES", "run"]

SECOND = 1_000_000
COLUMNS = {"k": "int64"}
POLICIES: dict[str, tuple[Policy, ...]] = {
    "ordered-wait": (tw.ordered(),),
    "timer": (tw.ordered(), tw.timer("1 s", every="500 ms")),
    "on-demand": (tw.ordered(), tw.on_demand("1 s")),
}


def counts(fast: tw.Stream, silent: tw.Stream) -> tw.Stream:
    return fast.union(silent).tumbling("1 s").aggregate(n=tw.count())


def declared(policy: tuple[Policy, ...]) -> tw.Stream:
    fast = tw.source("fast", COLUMNS, progress=tw.ordered(), late="drop", insert_only=True)
    return counts(
        fast, tw.source("silent", COLUMNS, progress=policy, late="drop", insert_only=True)
    )


def rows_of(since: int, until: int, rows: int) -> pa.Table:
    times = np.linspace(since, until, rows, endpoint=False).astype(np.int64)
    return pa.table({"ts": times, "k": np.arange(rows) % 16})


def run(
    emit: Emit, *, batches: int = 60, rows: int = 1_000, speaks: int = 10, spark: bool = False
) -> None:
    """`speaks`: the micro-batch after which the silent source is silent."""
    for name, policy in POLICIES.items():
        for engine, simulate in (("in-process", _in_process), ("divided", _divided)):
            _report(
                emit, simulate(policy, batches, rows, speaks), batches, policy=name, engine=engine
            )
    if spark:
        for name, policy in POLICIES.items():
            _report(emit, _on_spark(policy), None, policy=name, engine="spark")


Seen = tuple[dict[int, int], dict[int, int], int, list[float]]
"""By end of window: the micro-batch in which it could be final, and in which it was; rows held at
most; how far behind the clock (s)."""


def _report(emit: Emit, seen: Seen, batches: int | None, **params: str) -> None:
    could, was, held, behind = seen
    waited = [was[end] - could[end] for end in was if end in could]
    emit("answered", len(waited) / max(len(could), 1), "share of windows", **params)
    if waited:
        emit("micro_batches_to_result", float(median(waited)), "micro-batches, median", **params)
        emit("micro_batches_to_result_worst", float(max(waited)), "micro-batches", **params)
        emit("behind_clock", float(median(behind)), "s, median", **params)
    elif batches is not None:
        emit("micro_batches_to_result", float(batches), "micro-batches and no answer", **params)
    emit("state", held, "rows at most", **params)


def _simulated(
    push: Callable[[str, pa.Table], list[Any]],
    tick: Callable[[], list[Any]],
    size: Callable[[], int],
    clock: FakeClock,
    how: tuple[int, int, int],
) -> Seen:
    batches, rows, speaks = how
    could: dict[int, int] = {}
    was: dict[int, int] = {}
    behind: list[float] = []
    held = 0
    for batch in range(batches):
        begin = clock()
        clock.advance(SECOND)
        out = push("fast", rows_of(begin, clock(), rows))
        if batch < speaks:
            out += push("silent", rows_of(begin, clock(), 10))
        out += tick()
        could.setdefault(begin, batch)  # the window that ends where this batch began
        for element in tw.elements_of(out):
            if isinstance(element, tw.Insert) and element.end is not None:
                was.setdefault(element.end, batch)
                behind.append((clock() - element.end) / SECOND)
        held = max(held, size())
    lull = {end: batch for end, batch in could.items() if batch > speaks}
    return lull, {end: batch for end, batch in was.items() if end in lull}, held, behind[speaks:]


def _in_process(policy: tuple[Policy, ...], batches: int, rows: int, speaks: int) -> Seen:
    clock = FakeClock(1_000 * SECOND)
    engine = tw.Engine(declared(policy), consistency="final", now=clock)
    push = lambda source, table: engine.push(source, events(table, "ts"))  # noqa: E731
    return _simulated(
        push, engine.tick, lambda: engine.status().state.rows, clock, (batches, rows, speaks)
    )


def _divided(policy: tuple[Policy, ...], batches: int, rows: int, speaks: int) -> Seen:
    clock = FakeClock(1_000 * SECOND)
    engine = DividedEngine(declared(policy), consistency="final", clock=lambda: clock() / SECOND)
    push = lambda source, table: engine.push(source, events(table, "ts"))  # noqa: E731
    held = lambda: sum(one.state_rows for one in engine.figures().values())  # noqa: E731
    return _simulated(push, engine.tick, held, clock, (batches, rows, speaks))


def _on_spark(policy: tuple[Policy, ...], *, seconds: int = 25) -> Seen:
    """Rows stamped by the clock on the wall, a file each half second; the silent source has one
    file at the start."""
    from thalweg import spark

    place = Path(tempfile.mkdtemp(prefix="thalweg-idle-"))
    stop = threading.Event()
    wrote = {"until": 0}

    def write(folder: str, since: int, until: int, rows: int) -> None:
        temporary = place / folder / f"{until}.tmp"
        pq.write_table(rows_of(since, until, rows), temporary)
        temporary.rename(place / folder / f"{until}.parquet")

    def keep_writing() -> None:
        since = time.time_ns() // 1_000
        while not stop.wait(0.5):
            until = time.time_ns() // 1_000
            write("fast", since, until, 500)
            wrote["until"] = since = until

    for folder in ("fast", "silent"):
        (place / folder).mkdir()
        now = time.time_ns() // 1_000
        write(folder, now - SECOND, now, 10)
    began: dict[int, int] = {}
    was: dict[int, int] = {}
    behind: list[float] = []

    def take(frame: Any, batch: int) -> None:
        began[batch] = wrote["until"]
        for row in frame.select("_end").collect():
            if row["_end"] > silent_from:
                was.setdefault(row["_end"], batch)
                behind.append(time.time() - row["_end"] / SECOND)

    streams = [
        spark.from_files(str(place / folder), time="ts", progress=how, late="drop", name=folder)
        for folder, how in (("fast", (tw.ordered(),)), ("silent", policy))
    ]
    silent_from = time.time_ns() // 1_000
    writer = threading.Thread(target=keep_writing, daemon=True)
    running = spark.start(
        counts(*streams),
        checkpoint=str(place / "checkpoint"),
        to=take,
        consistency="final",
        output="final",
        trigger="1 second",
    )
    writer.start()
    try:
        running.wait(seconds)
        held = running.status().state_rows
    finally:
        running.stop()
        stop.set()
        writer.join()
        shutil.rmtree(place, ignore_errors=True)
    settled = sorted(began)[3:]  # the first micro-batches start workers
    could = {}
    for end in range(silent_from // SECOND * SECOND, max(began.values(), default=0), SECOND):
        first = next((batch for batch in sorted(began) if began[batch] >= end), None)
        if first is not None and first in settled:
            could[end] = first
    return could, {end: batch for end, batch in was.items() if end in could}, held, behind

"""Q7-2 as two whole plans: packets of two links joined within a window, and their pairs counted per
window of left time.

Out of order, it is one query. In order, the join gives its results sorted and the count sees
nothing else; the count itself is the same in both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import pyarrow as pa

import thalweg as tw
from benchmarks.baselines.ordered_joins import band_query
from benchmarks.repro.streams import SECOND
from benchmarks.repro.traffic import Link, Peak, arrivals, engine_size, sources
from thalweg.model.batch import Batch
from thalweg.operators.base import StateSize

__all__ = ["Count", "OrderedJoin", "Result", "count_pairs", "out_of_order"]


class OrderedJoin(Protocol):
    @property
    def schema(self) -> pa.Schema: ...

    def process(self, source: str, batch: Batch) -> list[Batch]: ...

    def state_size(self) -> StateSize: ...


@dataclass(frozen=True)
class Count:
    """One run: a join window, a length of stream, and how dense it is. Each tuple meets about two
    partners a second of window."""

    window_s: int
    length_s: int
    rate: int = 1_000
    keys: int = 1_000
    counted_s: int = 10

    def arrivals(self) -> Iterator[tuple[str, Batch]]:
        links = [Link("a", self.rate, self.keys), Link("b", self.rate, self.keys)]
        return arrivals(links, length=self.length_s * SECOND, step=SECOND // 2)

    def counted(self, pairs: tw.Stream) -> tw.Stream:
        return pairs.tumbling(self.counted_s * SECOND).aggregate(n=tw.count())


@dataclass(frozen=True)
class Result:
    plan_bytes: int
    join_bytes: int
    latency_s: float
    """Median processor time from the arrival of the promise that closes a window until its count is
    out."""
    seconds: float
    pairs: int


def out_of_order(count: Count) -> Result:
    left, right = sources("a", "b")
    engine = tw.Engine(
        count.counted(band_query(left, right, count.window_s * SECOND)), consistency="final"
    )

    def join_size() -> StateSize:
        return next(size for name, size in engine.state_size().items() if name.startswith("join"))

    return _run(count, engine.push, lambda: engine_size(engine), join_size)


def count_pairs(count: Count, join: Callable[[tw.Stream, tw.Stream, int], OrderedJoin]) -> Result:
    left, right = sources("a", "b")
    ordered = join(left, right, count.window_s * SECOND)
    engine = tw.Engine(
        count.counted(tw.source("pairs", ordered.schema, insert_only=True)), consistency="final"
    )

    def push(name: str, batch: Batch) -> list[Batch]:
        return [
            answer for part in ordered.process(name, batch) for answer in engine.push("pairs", part)
        ]

    return _run(count, push, lambda: engine_size(engine) + ordered.state_size(), ordered.state_size)


def _run(
    count: Count,
    push: Callable[[str, Batch], list[Batch]],
    plan_size: Callable[[], StateSize],
    join_size: Callable[[], StateSize],
) -> Result:
    plan, join = Peak(plan_size), Peak(join_size)
    latencies: list[float] = []
    seconds, pairs = 0.0, 0
    for name, batch in count.arrivals():
        begin = time.process_time()
        answers = push(name, batch)
        took = time.process_time() - begin
        seconds += took
        closed = [answer for answer in answers if len(answer)]
        pairs += sum(int(answer.payload.column("n").to_numpy().sum()) for answer in closed)
        latencies += [took] * bool(closed)
        plan.look()
        join.look()
    return Result(
        plan.bytes, join.bytes, median(latencies) if latencies else float("nan"), seconds, pairs
    )

"""One query for each operator that keeps state, and what a small batch writes of it.

`CASES` has every kernel with a snapshot of its own, by the name of its class and, where one class
evaluates several kinds of windows, the kind: `stateful_kernels` finds the classes, so that a new
one cannot be forgotten. A case holds many rows, then gets ten more that touch one stretch of time;
`written_share` is the share of the kernel's bytes that a store would write for them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import thalweg as tw
from thalweg import operators
from thalweg.graph import QueryGraph, build_graph
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.operators.base import Operator, Slices
from thalweg.operators.consistency import Consistency
from thalweg.operators.source.stamp_arrivals import clock_promise
from thalweg.operators.window.grid.deferred import DeferredKernel
from thalweg.operators.window.grid.promised_groups import PromisedGroupsKernel

__all__ = ["CASES", "NO_QUERY", "Case", "HeldState", "stateful_kernels"]

SPAN = 100_000
"""Time over which the rows that are held start."""
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


@dataclass(frozen=True, slots=True)
class Case:
    """A query over two streams `(k, v)` in which the kernel holds rows."""

    build: Callable[[tw.Stream, tw.Stream], tw.Stream]
    consistency: str = "speculative"
    rows_per_key: int = 20
    holds_rows: bool = True
    """Whether the kernel keeps rows at all, or only how far its input has come."""
    tells_time: bool = False
    """Whether the kernel must be given the time before rows."""
    others: int = 10
    """Of so many rows of the first stream there is one of the second."""
    declared: Mapping[str, object] = field(default_factory=dict)
    """What the sources declare."""


def stateful_kernels() -> dict[str, type[Operator]]:
    """Every kernel of the package `operators` that writes a snapshot, by name."""
    for module in pkgutil.walk_packages(operators.__path__, f"{operators.__name__}."):
        importlib.import_module(module.name)
    return {
        kernel.__name__: kernel
        for kernel in _subclasses(Operator)  # type: ignore[type-abstract]
        if kernel.__module__.startswith(operators.__name__)
        and not inspect.isabstract(kernel)
        and kernel.snapshot is not Operator.snapshot
    }


def _subclasses(kernel: type[Operator]) -> Iterator[type[Operator]]:
    for below in kernel.__subclasses__():
        yield below
        yield from _subclasses(below)


class HeldState:
    """A case that holds rows, and what further batches write."""

    def __init__(self, kernel: str, rows: int) -> None:
        case = CASES[kernel]
        declared = dict(case.declared)
        a, b = (tw.source(name, SCHEMA, **declared) for name in "ab")  # type: ignore[arg-type]
        self._graph: QueryGraph = build_graph(case.build(a, b).node, Consistency(case.consistency))[
            0
        ]
        self._kernel = kernel.partition(", ")[0]
        self._keys = max(rows // case.rows_per_key, 10)
        for name in self.sources:
            if case.tells_time:
                self._graph.send(name, Batch.empty(SCHEMA, clock_promise(0)))
            count = rows if name == "a" else rows // case.others
            self._play(name, self._batch(count, 0, SPAN))
        self._before = self.snapshot()

    @property
    def sources(self) -> list[str]:
        return sorted(self._graph.sources)

    def push(self, source: str, turn: int = 0) -> None:
        """Ten rows that start within ten ticks, at nine tenths of the time that is held."""
        self._play(source, self._batch(10, SPAN * 9 // 10 + 10 * turn, 10))

    def promise(self, time: int) -> None:
        """A CTI of every source."""
        for name in self.sources:
            self._play(name, Batch.empty(SCHEMA, Progress(time)))

    def written_share(self) -> float:
        """The bytes that were written since the last call, of all bytes of the kernel's state."""
        after = self.snapshot()
        total = sum(map(_bytes, after.values()))
        written = sum(
            _bytes(rows) for name, rows in after.items() if self._before.get(name) is not rows
        )
        self._before = after
        return written / max(total, 1)

    def bytes(self) -> int:
        """How large the kernel's state is."""
        return sum(map(_bytes, self._before.values()))

    def rows(self) -> int:
        """How many rows the kernel holds."""
        return sum(kernel.state_size().rows for _, kernel in self._kernels())

    def _kernels(self) -> list[tuple[str, Operator]]:
        return [
            (operator.id, kernel)
            for operator in self._graph.operators
            for kernel in _with_inner(operator.kernel)
            if type(kernel).__name__ == self._kernel
        ]

    def snapshot(self) -> Slices:
        """The slices of the kernel."""
        return {
            f"{name}|{part}": rows
            for name, kernel in self._kernels()
            for part, rows in kernel.snapshot().items()
        }

    def save(self) -> list[Slices]:
        """What each instance of the kernel saves, under its own names."""
        return [kernel.snapshot() for _, kernel in self._kernels()]

    def _play(self, source: str, batch: Batch) -> None:
        self._graph.offer(source, batch)
        self._graph.run()

    def _batch(self, count: int, first: int, span: int) -> Batch:
        number = np.arange(count)
        start = first + number * span // count
        payload = pa.RecordBatch.from_arrays(
            [pa.array(number * 7 % self._keys), pa.array(number % 97)], schema=SCHEMA
        )
        return Batch(payload, start, start + 1 + number % 50)


def _with_inner(kernel: Operator) -> list[Operator]:
    """A kernel, and those inside where it lets another evaluate the windows."""
    if isinstance(kernel, (DeferredKernel, PromisedGroupsKernel)):
        return [kernel, *_with_inner(kernel.inner)]
    return [kernel]


def _bytes(rows: pa.RecordBatch) -> int:
    return int(rows.nbytes)


def _grouped(a: tw.Stream) -> tw.GroupedStream:
    return a.group_by("k")


SUMS = {"n": tw.count(), "total": tw.sum_("v")}

NO_QUERY = {
    "NamedInputsKernel": "a MergeKernel that takes the name of the input with each batch",
    "WholeWindowsKernel": "keeps one time; a host puts it behind a query",
}
"""Kernels that no query of two streams has, and why they need no case."""

CASES: dict[str, Case] = {
    "IngressKernel": Case(lambda a, _: a),
    "JoinKernel": Case(lambda a, b: a.join(b, on="k")),
    "MatchJoinKernel": Case(
        lambda a, b: a.window_join(b, on="k", window=tw.band(before=5, after=5), how="left")
    ),
    "CoverageKernel": Case(lambda a, b: a.left_join(b, on="k")),
    "ClipByKernel": Case(lambda a, b: a.clip_by(b, on="k")),
    "StitchKernel": Case(lambda a, _: a.stitch()),
    "DistinctKernel": Case(lambda a, _: a.distinct()),
    "TopKKernel": Case(lambda a, _: _grouped(a).top_k(2, by="v")),
    "SnapshotAggregateKernel": Case(lambda a, _: _grouped(a).snapshot().aggregate(**SUMS)),
    "NumberRowsKernel": Case(lambda a, _: a.number_rows(partition_by="k")),
    "FinalGateKernel": Case(lambda a, b: a.anti_join(b, on="k"), "final"),
    "ChronicleKernel": Case(
        lambda a, b: tw.sequence({"a": a, "b": b}, "k", mode="chronicle", within=10)
    ),
    "DetectKernel": Case(
        lambda a, _: _grouped(a).detect(
            tw.then(tw.event("v > 40", keep={"top": "v"}), tw.event("v < top")),
            within=10,
            registers={"top": "int64"},
        )
    ),
    "MergeKernel": Case(tw.merge, others=1),
    "MergeKernel, keyed": Case(tw.merge, others=1, declared={"payload_start_key": True}),
    "WindowEngine, sessions": Case(lambda a, _: _grouped(a).session(3).aggregate(**SUMS)),
    "SessionLifetimeKernel": Case(lambda a, _: _grouped(a).session_lifetime(3)),
    "HoppingAggregateKernel": Case(lambda a, _: _grouped(a).hopping(20, 10).aggregate(**SUMS)),
    "BucketAggregateKernel": Case(
        lambda a, _: _grouped(a.points()).hopping(20, 10).aggregate(most=tw.max_("v")),
        declared={"insert_only": True},
    ),
    "HoppingRowsAggregateKernel": Case(
        lambda a, _: _grouped(a).hopping(20, 10).aggregate(mid=tw.percentile("v", 0.5))
    ),
    "HoppingTopKKernel": Case(lambda a, _: _grouped(a).hopping(20, 10).top_k(2, by="v")),
    "PromisedGroupsKernel": Case(
        lambda a, _: _grouped(a).hopping(20, 10).aggregate(**SUMS), declared={"group_ctis": "k"}
    ),
    "FillKernel": Case(
        lambda a, _: _grouped(a).tumbling(10).fill(range(20)).aggregate(**SUMS),
        rows_per_key=10_000,
    ),
    "TablePanesKernel": Case(
        lambda a, _: _grouped(a).tumbling(2 * SPAN).two_level(200_000).aggregate(**SUMS),
        rows_per_key=1,
    ),
    "DeferredKernel": Case(
        lambda a, _: (
            _grouped(a)
            .tumbling(10)
            .aggregate(**SUMS)
            .union(_grouped(a).tumbling(40).aggregate(**SUMS))
        )
    ),
    "CombinePanesKernel": Case(
        lambda a, _: _grouped(a).hopping(20, 10).two_level(16).aggregate(**SUMS)
    ),
    "CombineMergedPanesKernel": Case(
        lambda a, _: (
            _grouped(a.points())
            .hopping(20, 10)
            .aggregate(most=tw.max_("v"))
            .union(_grouped(a.points()).hopping(40, 10).aggregate(most=tw.max_("v")))
        ),
        declared={"insert_only": True},
    ),
    "WindowEngine, calendar": Case(
        lambda a, _: _grouped(a).calendar("day").aggregate(n=tw.count())
    ),
    "WindowEngine, landmark": Case(lambda a, _: _grouped(a).landmark(10).aggregate(**SUMS)),
    "WindowEngine, slide by tuple": Case(lambda a, _: a.slide_by_tuple(20).aggregate(**SUMS)),
    "WindowEngine, count": Case(lambda a, _: _grouped(a).count_by_start(3).apply("average", "v")),
    "WindowEngine, module over sessions": Case(
        lambda a, _: _grouped(a).session(3).apply("average", "v")
    ),
    "BinsAggregateKernel": Case(
        lambda a, _: a.slide_by_tuple(20).using("bins").aggregate(**SUMS),
        declared={"insert_only": True},
    ),
    "SnapshotApplyKernel": Case(lambda a, _: _grouped(a).snapshot().apply("average", "v")),
    "GridApplyKernel": Case(lambda a, _: _grouped(a).hopping(20, 10).apply("average", "v")),
    "WindowApplyKernel": Case(
        lambda a, _: _grouped(a).count_by_start(3).apply("average", "v", on_error="skip")
    ),
    "PanedApplyKernel": Case(
        lambda a, _: _grouped(a).hopping(20, 10).apply("average", "v"),
        declared={"insert_only": True},
    ),
    "StampArrivalsKernel": Case(
        lambda a, _: a.stamp_arrivals(every=10), holds_rows=False, tells_time=True
    ),
    "UnionKernel": Case(lambda a, b: a.union(b), holds_rows=False),
    "ChopKernel": Case(lambda a, _: a.chop(40), holds_rows=False),
    "InOrderKernel": Case(lambda a, _: a.in_order()),
    "DescribeKernel": Case(lambda a, _: a.describe(every=10), holds_rows=False),
}

"""Graph: what the executor costs by itself, and five row operators at batches of 1, 100 and 10,000.

The executor from before the state table (`baselines/scanning_executor.py`) runs the same kernels in
the same process, in turns; times are of the process, the least of several rounds. Scheduling is
measured with operators that do nothing, and so is a trace that is off again. `push with promises on
demand` is a union of 32 sources into a window, with the policy and without.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Protocol

import numpy as np
import pyarrow as pa

import thalweg as tw
from benchmarks.baselines.scanning_executor import ScanningExecutor
from thalweg.cli.bench import Emit
from thalweg.graph import QueryGraph, build_graph
from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.trace import Trace
from thalweg.model.batch import Batch
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.progress.policies import Policy

__all__ = ["run"]

OPERATORS = 5
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


class _Executor(Protocol):
    def offer(self, source: str, batch: Batch) -> None: ...

    def run(self) -> list[Batch]: ...


class _Nothing(Operator):
    """What comes in goes out."""

    row_by_row = True

    def __init__(self) -> None:
        self.schema = SCHEMA

    def process(self, port: int, batch: Batch) -> Batch:
        return batch


def run(emit: Emit, rounds: int = 12) -> None:
    _schedule(emit, rounds)
    for size in (1, 100, 10_000):
        _five_operators(emit, size, rounds)
    _trace_off(emit, 40 * rounds)
    _on_demand(emit, rounds)


def five() -> tw.Stream:
    """Five row operators that no rule makes fewer."""
    stream = tw.source("s", {"k": "int64", "v": "int64"}, disorder=10, insert_only=True)
    return (
        stream.where("v > 0")
        .select(k="k", v="v * 2")
        .shift(5)
        .where("v < 1000000000")
        .select(k="k", w="v + 1")
    )


def _idle_graph() -> QueryGraph:
    operators = [GraphOperator("operator-0", _Nothing())]
    for number in range(1, OPERATORS + 1):
        operators.append(GraphOperator(f"operator-{number}", _Nothing(), before=[operators[-1]]))
    return QueryGraph(operators, {"s": operators[0]}, operators[-1])


def _schedule(emit: Emit, rounds: int) -> None:
    graph = _idle_graph()
    traced = _idle_graph()
    with Trace(traced, clock=time.perf_counter):
        pass
    fused = _idle_graph()
    fused.fuse()
    executors: dict[str, _Executor] = {
        "before": ScanningExecutor(_idle_graph()),
        "state table": graph,
        "state table, fused": fused,
        "state table, after a trace": traced,
    }
    least = _in_turns(executors, _batches(1, 200), rounds)
    steps = OPERATORS + 1
    for name, seconds in least.items():
        emit("scheduling", 1e6 * seconds / steps, "us/step", executor=name)


def _trace_off(emit: Emit, rounds: int) -> None:
    """A graph that was traced once beside one that never was: the median of the ratios of many
    short rounds, in turns, and the bounds between which it lies with 95% confidence."""
    plain, traced = _idle_graph(), _idle_graph()
    with Trace(traced, clock=time.perf_counter):
        pass
    batches = _batches(1, 100)
    ratios = []
    for number in range(rounds):
        pair = (plain, traced) if number % 2 else (traced, plain)
        seconds = {graph: _seconds(graph, batches) for graph in pair}
        ratios.append(seconds[traced] / seconds[plain])
    ratios.sort()
    spread = 0.98 * rounds**0.5  # of the rank of a median, for 95%
    low, high = (int(rounds / 2 + side * spread) for side in (-1, 1))
    for bound, at in (("median", rounds // 2), ("at least", low), ("at most", high)):
        emit("trace off", ratios[at], "of a graph without trace", bound=bound, rounds=rounds)


def _five_operators(emit: Emit, size: int, rounds: int) -> None:
    batches = _batches(size, 200 if size < 10_000 else 10)
    consistency = Consistency("speculative")
    apart, _ = build_graph(five().node, consistency)
    apart.use("depth-first")
    fused, _ = build_graph(five().node, consistency)
    known, _ = build_graph(five().node, consistency)
    executors: dict[str, _Executor] = {
        "before": ScanningExecutor(known),
        "depth-first": apart,
        "fused": fused,
    }
    least = _in_turns(executors, batches, rounds)
    for name, seconds in least.items():
        emit("throughput", size / seconds, "elements/s", executor=name, batch=size)
    idle = _in_turns({"idle": _idle_graph()}, batches, rounds)["idle"]
    share = idle / least["depth-first"]
    emit("scheduling", 100 * share, "% of the time", executor="depth-first", batch=size)


def _in_turns(
    executors: dict[str, _Executor], batches: list[Batch], rounds: int
) -> dict[str, float]:
    """Seconds of the process for a batch, the least of all rounds."""
    least = dict.fromkeys(executors, float("inf"))
    for number in range(rounds):
        moved = [_later(batch, number, len(batches)) for batch in batches]
        for name, executor in executors.items():
            seconds = _seconds(executor, moved)
            least[name] = min(least[name], seconds / len(moved))
    return least


def _seconds(executor: _Executor, batches: list[Batch]) -> float:
    begin = time.process_time()
    for batch in batches:
        executor.offer("s", batch)
        executor.run()
    return time.process_time() - begin


def _batches(size: int, count: int) -> list[Batch]:
    found = []
    for number in range(count):
        start = np.arange(number * size, (number + 1) * size)
        payload = pa.RecordBatch.from_arrays([start % 7, start + 1], schema=SCHEMA)
        found.append(Batch(payload, start, start + 1))
    return found


def _later(batch: Batch, number: int, count: int) -> Batch:
    moved = number * count * len(batch)
    return Batch(batch.payload, batch.start + moved, batch.end + moved)


def _on_demand(emit: Emit, rounds: int) -> None:
    """Sources take turns; the clock is the one on the wall, as for users."""
    engines = {
        "without": _union([tw.ordered()]),
        "on demand": _union([tw.ordered(), tw.on_demand("1 s")]),
    }
    costs: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, engine in engines.items():
            costs[name].append(_push_all(engine))
    for name, seconds in costs.items():
        emit("push of 32 inputs", 1e6 * median(seconds), "us", policy=name)
    ratio = median(costs["on demand"]) / median(costs["without"])
    emit("push with promises on demand", ratio, "of one without")


def _union(policies: list[Policy]) -> tw.Engine:
    def source(number: int) -> tw.Stream:
        return tw.source(
            f"s{number}", {"v": "int64"}, progress=policies, insert_only=True, late="drop"
        )

    union = source(0)
    for number in range(1, 32):
        union = union.union(source(number))
    return tw.Engine(union.tumbling("1 s").aggregate(n=tw.count()))


def _push_all(engine: tw.Engine, pushes: int = 96) -> float:
    schema = pa.schema([("v", pa.int64())])
    payload = pa.RecordBatch.from_arrays([pa.array([1])], schema=schema)
    clock: Callable[[], int] = time.time_ns
    begin = time.process_time()
    for number in range(pushes):
        start = np.array([clock() // 1_000])
        engine.push(f"s{number % 32}", Batch(payload, start, start + 1))
    return (time.process_time() - begin) / pushes

"""Graphs of operators that wait for order, in virtual time, with and without promises on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa

import thalweg as tw
from benchmarks.baselines.ordered_union import (
    OrderedUnion,
    SlideAggregate,
    SlideByRows,
    WaitingOperator,
)
from benchmarks.baselines.waiting_join import WindowJoin
from thalweg.expr import parse
from thalweg.graph import QueryGraph
from thalweg.graph.enhanced import enhance
from thalweg.graph.graph_operator import GraphOperator
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.operators.rows.where import WhereKernel
from thalweg.operators.source.ingress import IngressKernel
from thalweg.plan.nodes import Node, Source, Where
from thalweg.testing.virtual_time import Arrival, VirtualRun

__all__ = [
    "COST",
    "DemandRun",
    "arrivals",
    "heartbeats",
    "join_graph",
    "latencies",
    "latent_graph",
    "nested_graph",
    "slide_graph",
    "union_graph",
]

SECOND = 1_000_000
COST = 20e-6
"""Seconds that a row, or a promise, takes in an operator."""
PASS = 0.95
_COLUMNS = {"v": "float64"}
SCHEMA = pa.schema([("v", pa.float64())])


class _Graph:
    """Operators as they are added."""

    def __init__(self) -> None:
        self.operators: list[GraphOperator] = []
        self.sources: dict[str, GraphOperator] = {}
        self.costs: dict[str, float] = {}

    def source(self, name: str) -> tuple[GraphOperator, Node]:
        stream = tw.source(
            name, _COLUMNS, progress=[tw.ordered(), tw.on_demand(0)], insert_only=True
        )
        assert isinstance(stream.node, Source)
        operator = GraphOperator(name, IngressKernel(stream.node))
        self.operators.append(operator)
        self.sources[name] = operator
        return operator, stream.node

    def select(
        self, above: GraphOperator, node: Node, name: str, share: float = 2.0
    ) -> GraphOperator:
        """A selection that lets rows below `share` pass."""
        operator = GraphOperator(
            name, WhereKernel(Where(node, parse(f"v < {share}"))), before=[above]
        )
        return self._costly(operator)

    def union(self, name: str, *above: GraphOperator) -> GraphOperator:
        kernel = OrderedUnion(SCHEMA, len(above))
        return self._costly(WaitingOperator(name, kernel, before=list(above)))

    def join(self, name: str, left: GraphOperator, right: GraphOperator) -> GraphOperator:
        kernel = WindowJoin(SCHEMA, 2 * SECOND)
        return self._costly(WaitingOperator(name, kernel, before=[left, right]))

    def plain_union(self, name: str, *above: GraphOperator) -> GraphOperator:
        """A union that does not wait."""
        return self._costly(
            GraphOperator(name, OrderedUnion(SCHEMA, len(above)), before=list(above))
        )

    def aggregate(self, above: GraphOperator, slide: int) -> GraphOperator:
        return self._costly(GraphOperator("aggregate", SlideAggregate(slide), before=[above]))

    def slide(self, above: GraphOperator, rows: int) -> GraphOperator:
        return self._costly(GraphOperator("slide", SlideByRows(SCHEMA, rows), before=[above]))

    def _costly(self, operator: GraphOperator) -> GraphOperator:
        self.operators.append(operator)
        self.costs[operator.id] = COST
        return operator

    def built(self, end: GraphOperator) -> QueryGraph:
        return QueryGraph(self.operators, self.sources, end)


def union_graph() -> tuple[QueryGraph, dict[str, float]]:
    """Two sources, a selection each that 95% pass, and their union."""
    made = _Graph()
    sides = []
    for name in ("fast", "slow"):
        operator, node = made.source(name)
        sides.append(made.select(operator, node, f"select-{name}", PASS))
    return made.built(made.union("union", *sides)), made.costs


def join_graph() -> tuple[QueryGraph, dict[str, float]]:
    """Two sources, a selection each that 95% pass, and their window join over two seconds."""
    made = _Graph()
    sides = []
    for name in ("fast", "slow"):
        operator, node = made.source(name)
        sides.append(made.select(operator, node, f"select-{name}", PASS))
    return made.built(made.join("join", *sides)), made.costs


def latent_graph() -> tuple[QueryGraph, dict[str, float]]:
    """The same with latent time stamps: the union passes rows on as they come."""
    made = _Graph()
    sides = []
    for name in ("fast", "slow"):
        operator, node = made.source(name)
        sides.append(made.select(operator, node, f"select-{name}", PASS))
    return made.built(made.plain_union("union", *sides)), made.costs


def nested_graph(plain: int, slide: int | None = None) -> tuple[QueryGraph, dict[str, float]]:
    """Three sources; the first two are united, then united with the third.

        fast   -> selections -> union-1 -> selections -> union-2 -> [slide aggregate]
        slow-1 -> selections -> union-1
        slow-2 -> selections ------------------------->  union-2

    `plain` selections lie on each of the four stretches between operators that wait; the first on
    the way from a source lets 95% pass, the others all.
    """
    made = _Graph()

    def stretch(above: GraphOperator, node: Node, name: str, first: float) -> GraphOperator:
        for number in range(plain):
            share = first if number == 0 else 2.0
            above = made.select(above, node, f"{name}-{number}", share)
        return above

    ends = {}
    for name in ("fast", "slow-1", "slow-2"):
        operator, node = made.source(name)
        ends[name] = stretch(operator, node, f"select-{name}", PASS), node
    inner = made.union("union-1", ends["fast"][0], ends["slow-1"][0])
    between = stretch(inner, ends["fast"][1], "select-between", 2.0)
    outer = made.union("union-2", between, ends["slow-2"][0])
    end = outer if slide is None else made.aggregate(outer, slide)
    return made.built(end), made.costs


def slide_graph(slide: int) -> tuple[QueryGraph, dict[str, float]]:
    """A union of a selection and of an aggregate that gives a result every `slide` rows."""
    made = _Graph()
    fast, node = made.source("fast")
    other, _ = made.source("other")
    results = made.slide(other, slide)
    chosen = made.select(fast, node, "select-fast", PASS)
    return made.built(made.union("union", chosen, results)), made.costs


@dataclass
class DemandRun(VirtualRun):
    """`demand`: sources answer with the clock when an operator waits for them. `heartbeat`: they
    send a promise at this interval, in seconds, whether anybody waits or not."""

    demand: bool = False
    bypass: bool = True
    asked: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.demand:
            self.graph.on_idle = self.idle
        if self.demand and self.bypass:
            enhance(self.graph)
        self._passing = {s.id for s in self.graph.operators if s.bypass}
        self._waiting = {s.id for s in self.graph.operators if isinstance(s, WaitingOperator)}

    def cost_of(self, operator: str, each: float, batch: Batch) -> float:
        """A promise that comes as a tuple takes as long as a row. Along promise arcs, writing a
        register takes nothing, and an operator that passes it on takes as long as for a row."""
        if len(batch) or not self.bypass or operator not in self._waiting:
            return super().cost_of(operator, each, batch)
        return each if operator in self._passing else 0.0

    def idle(self) -> bool:
        """Ask the sources that rows wait for; whether one of them had something new to say."""
        if not self.demand:
            return False
        self.offer_arrivals()
        now = round(self.now * SECOND)
        spoken = False
        for name in self._waited_for():
            if self.graph.sources[name].inputs[0].size():
                continue  # it has rows to show
            kernel = self.graph.sources[name].kernel
            assert isinstance(kernel, IngressKernel)
            said = kernel.demand(now)
            if said is not None:
                self.asked += 1
                self.graph.pass_on(name, self.graph.admit(name, [said]))
                spoken = True
        return spoken

    def _waited_for(self) -> list[str]:
        """From each operator at which rows wait, back to the sources of its empty inputs."""
        names = {operator: name for name, operator in self.graph.sources.items()}
        found: dict[str, None] = {}
        waiting = [
            (operator.before[port], time)
            for operator in self.graph.operators
            if isinstance(operator, WaitingOperator)
            for port, time in operator.blocked_by().items()
        ]
        while waiting:
            operator, time = waiting.pop()
            if operator in names:
                found[names[operator]] = None
            elif isinstance(operator, WaitingOperator):
                waiting += [
                    (above, time)
                    for above, known in zip(operator.before, operator.union.registers, strict=True)
                    if known < time
                ]
            else:
                waiting.append((operator.before[0], time))
        return list(found)


def arrivals(
    rates: dict[str, float], seconds: float, *, seed: int = 1, burst: int = 1
) -> list[Arrival]:
    """Rows of each source by a Poisson process; those of the fast one in simultaneous bursts, which
    come as much less often."""
    found = []
    for name, rate in rates.items():
        random = Random(f"{seed}/{name}")
        time = 0.0
        while True:
            time += random.expovariate(rate / (burst if name == "fast" else 1))
            if time >= seconds:
                break
            stamp = round(time * SECOND)
            size = burst if name == "fast" else 1
            found += [
                Arrival(stamp / SECOND, name, _row(stamp, random.random())) for _ in range(size)
            ]
    return found


def heartbeats(names: list[str], seconds: float, every: float) -> Iterator[Arrival]:
    """A promise of every source at each interval."""
    for number in range(1, int(seconds / every) + 1):
        for name in names:
            time = number * every
            yield Arrival(time, name, Batch.empty(SCHEMA, Progress(round(time * SECOND))))


def _row(time: int, value: float) -> Batch:
    start = np.array([time], np.int64)
    payload = pa.RecordBatch.from_arrays([pa.array([value])], schema=SCHEMA)
    return Batch(payload, start, start + 1)


def latencies(run: VirtualRun) -> list[float]:
    """Seconds from the arrival of each row to its departure."""
    return [time - start / SECOND for time, batch in run.output for start in batch.start.tolist()]

"""Virtual time: a query graph run by the step on a clock that only the costs of operators move.

What is measured is the order of work alone: the graph, its state table and its rules are those that
run queries, and no figure depends on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thalweg.graph.query_graph import QueryGraph
from thalweg.model.batch import Batch
from thalweg.operators.base import Operator, WrappedOperator

__all__ = ["Arrival", "VirtualRun"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch that comes to a source at a time."""

    time: float
    source: str
    batch: Batch


class _Costed(WrappedOperator):
    """An operator that takes time on the virtual clock."""

    def __init__(self, inner: Operator, name: str, cost: float, run: VirtualRun) -> None:
        super().__init__(inner)
        self._name, self._cost, self._run = name, cost, run

    def process(self, port: int, batch: Batch) -> Batch:
        self._run.now += self._run.cost_of(self._name, self._cost, batch)
        self._run.calls += 1
        return self.inner.process(port, batch)


@dataclass
class VirtualRun:
    """`costs` by operator id: the time one row takes there; operators that are not named take
    none."""

    graph: QueryGraph
    arrivals: Sequence[Arrival]
    costs: Mapping[str, float]
    now: float = 0.0
    calls: int = 0
    """How often an operator with a cost was called."""
    output: list[tuple[float, Batch]] = field(default_factory=list)
    """The batches that came out, each with the time at which it did."""
    _coming: list[Arrival] = field(default_factory=list)

    def __post_init__(self) -> None:
        for operator in self.graph.operators:
            if operator.id in self.costs:
                operator.kernel = _Costed(
                    operator.kernel, operator.id, self.costs[operator.id], self
                )

    def run(self, until: float = float("inf")) -> None:
        """Let time pass up to `until`, or until no batch is left to arrive and none waits."""
        for _ in self.steps(until):
            pass

    def steps(self, until: float = float("inf")) -> Iterator[float]:
        """The same as `run`, step by step: yields the time after each step."""
        self._coming = sorted(self.arrivals, key=lambda arrival: arrival.time)[::-1]
        while self.now < until:
            self.offer_arrivals()
            if not self.graph.ready:
                if self.idle():
                    continue
                if not self._coming:
                    return
                self.now = max(self.now, self._coming[-1].time)
                continue
            for batch in self.graph.run(steps=1):
                self.output.append((self.now, batch))
            yield self.now

    def offer_arrivals(self) -> None:
        """Put what has come by now in front of its source."""
        while self._coming and self._coming[-1].time <= self.now:
            arrival = self._coming.pop()
            self.graph.offer(arrival.source, arrival.batch)

    def cost_of(self, operator: str, each: float, batch: Batch) -> float:
        """How long a batch takes in an operator; a promise alone takes as long as a row."""
        return each * max(1, len(batch))

    def idle(self) -> bool:
        """Called when there is nothing to do; returns whether there is something afterwards."""
        return False

    def held(self) -> int:
        """Bytes of payload that wait inside the graph, what a fork stores once counted once."""
        found = {
            id(batch): batch.payload.nbytes
            for operator in self.graph.operators
            for arc in operator.inputs
            for batch in arc.contents()
        }
        return sum(found.values())

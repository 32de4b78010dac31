"""The enhanced graph: arcs for promises, past the operators that only pass them on.

An arc leads from a source or an operator that can wait to the next operator that can wait (a
window, a join, a union, a gate, ...). Between them lie operators that answer row by row. They may
move a promise (`shift`, `extend`, a hopping lifetime), so the arc carries the composition of their
functions; an operator that remembers promises ends it.

    promise at the end of an arc = f_n(... f_1(promise at its beginning))

A promise without rows goes along these arcs, and one that comes with rows goes with the rows. It
never overtakes rows: where some are still on their way, it goes behind them. The register at the
end of an arc is the progress that an operator has received on that port; it is active while the
operator has not worked on it yet, and passed on once.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.query_graph import QueryGraph
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress

__all__ = ["Bypass", "can_wait", "enhance", "promise_arcs"]


@dataclass(frozen=True, slots=True, eq=False)
class Bypass:
    """A promise arc: from `origin`, past `chain`, to port `port` of `target`."""

    origin: GraphOperator
    chain: tuple[GraphOperator, ...]
    target: GraphOperator
    port: int

    def is_clear(self) -> bool:
        """Whether no row is on the way."""
        if any(operator.inputs[0].size() for operator in self.chain):
            return False
        arc = self.target.inputs[self.port]
        return not arc.shared or not arc.size()

    def move(self, progress: Progress) -> Progress:
        """The promise at the end of the arc."""
        for operator in self.chain:
            progress = operator.kernel.moves(progress)
        return progress

    def deliver(self, progress: Progress) -> None:
        """Write the register at the end of the arc, if the promise is new there; the operators
        that it passes note it too."""
        for operator in self.chain:
            operator.received[0] = operator.received.get(0, NO_PROGRESS).advance(progress)
            progress = operator.kernel.moves(progress)
            if not operator.kernel.knows_group_column_promises:
                progress = progress.without_group_column_promises()
            operator.passed = operator.passed.advance(progress)
        received = self.target.received.get(self.port, NO_PROGRESS)
        if received.merge(progress) == received:
            return
        empty = Batch.empty(self.target.before[self.port].kernel.schema, progress)
        self.target.inputs[self.port].put_ahead(empty)

    def __str__(self) -> str:
        past = f" past {', '.join(operator.id for operator in self.chain)}" if self.chain else ""
        return f"{self.origin.id} -> {self.target.id}, port {self.port}{past}"


def can_wait(operator: GraphOperator) -> bool:
    """Whether an operator may need a promise to go on: all but those that answer row by row."""
    return not operator.kernel.row_by_row


def promise_arcs(graph: QueryGraph) -> list[Bypass]:
    """All arcs of the enhanced graph. An operator whose output leaves the graph before it reaches
    one that can wait has none: its promises are part of the answer."""
    readers = graph.ports_behind()
    leaves = set(graph.ends)
    found: list[Bypass] = []
    for origin in graph.operators:
        if not can_wait(origin):
            continue
        arcs: list[Bypass] | None = []
        waiting: list[tuple[GraphOperator, tuple[GraphOperator, ...]]] = [(origin, ())]
        while waiting and arcs is not None:
            operator, chain = waiting.pop()
            if operator in leaves or not readers[operator]:
                arcs = None
                break
            for behind, port in readers[operator]:
                if can_wait(behind):
                    arcs.append(Bypass(origin, chain, behind, port))
                else:
                    waiting.append((behind, (*chain, behind)))
        if arcs and any(arc.chain for arc in arcs):
            found += arcs
    return found


def enhance(graph: QueryGraph) -> list[Bypass]:
    """Let promises without rows go along these arcs from now on."""
    arcs = promise_arcs(graph)
    for operator in graph.operators:
        outgoing = tuple(arc for arc in arcs if arc.origin is operator)
        operator.bypass = outgoing
        graph.row_of(operator).signals = tuple(graph.row_of(arc.target) for arc in outgoing)
    return arcs

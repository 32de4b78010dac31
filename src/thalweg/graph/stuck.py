"""Inputs that are stuck: an operator of several inputs keeps the rows of one for as long as another
makes no progress.

A join works like that, which is harmless while the other source makes progress. There is a warning
when the operator holds many rows, several times as many as when the promise of the slower input
last moved. Rows are counted, not seconds, so that the same input always gives the same warning.
"""

from __future__ import annotations

from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.query_graph import QueryGraph
from thalweg.graph.why import shown_time, waits_of
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.time import INFINITY

__all__ = ["LEAST_ROWS", "StuckInputs"]

LEAST_ROWS = 10_000
"""Fewer held rows are no reason for a warning."""
_GROWTH = 4
"""How many times as many rows are held as when the promise last moved."""


class StuckInputs:
    """Watches the operators of a graph that have several inputs."""

    def __init__(self, graph: QueryGraph) -> None:
        self._graph = graph
        self._watched = [operator for operator in graph.operators if operator.kernel.ports > 1]
        self._promise: dict[tuple[str, int], int] = {}
        self._held: dict[tuple[str, int], int] = {}
        """By operator and port: the promise that was seen last, and the rows held at that time."""

    def observe(self) -> None:
        """Note promises and held rows; to be called when all input has been processed."""
        for operator in self._watched:
            rows = None
            for port in range(operator.kernel.ports):
                now, key = _promise_of(operator, port), (operator.id, port)
                if now != self._promise.get(key, NO_PROGRESS.cti):
                    rows = operator.kernel.state_size().rows if rows is None else rows
                    self._promise[key], self._held[key] = now, rows

    def warnings(self) -> list[str]:
        """A line for each input that is stuck."""
        found = []
        for operator in self._watched:
            promises = [_promise_of(operator, port) for port in range(operator.kernel.ports)]
            if min(promises) == max(promises):
                continue
            rows = operator.kernel.state_size().rows
            for port, promise in enumerate(promises):
                before = self._held.get((operator.id, port), 0)
                if (
                    promise < max(promises)
                    and promise != INFINITY
                    and rows >= max(LEAST_ROWS, _GROWTH * before)
                ):
                    found.append(self._warning(operator, port, rows, promise, max(promises)))
        return found

    def _warning(
        self, operator: GraphOperator, port: int, rows: int, promise: int, other: int
    ) -> str:
        waits = waits_of(self._graph, operator.before[port], other)
        names = sorted({wait.source for wait in waits}) or [operator.before[port].id]
        return (
            f"{operator.id} holds {rows:,} rows and grows: source {' and '.join(names)} is stuck at"
            f" {shown_time(promise)} while the other input has come to {shown_time(other)}. Rows "
            "are kept until it promises more; if it may fall silent, say how long to wait: "
            "progress=timer(...), or idle={...} on start."
        )


def _promise_of(operator: GraphOperator, port: int) -> int:
    return operator.received.get(port, NO_PROGRESS).cti

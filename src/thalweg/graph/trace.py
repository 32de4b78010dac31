"""Tracing: which operators took a row, when, and their answers.

It costs nothing when off: tracing replaces each kernel by a recorder around it, and puts the kernel
back afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from thalweg.graph.query_graph import QueryGraph
from thalweg.model.batch import Batch
from thalweg.model.element_batches import elements_of
from thalweg.operators.base import Operator, WrappedOperator

__all__ = ["Trace", "Visit"]


@dataclass(frozen=True, slots=True)
class Visit:
    """One execution of an operator: its number, the time by the clock of the trace, its input and
    its answer."""

    number: int
    time: float
    operator: str
    port: int
    taken: Batch
    answer: Batch

    def saw(self, values: Mapping[str, Any]) -> bool:
        """Whether a row with these values was taken. Columns that the operator's input lacks are
        ignored, but at least one must exist."""
        comparable = {
            name: value for name, value in values.items() if name in self.taken.schema.names
        }
        return bool(comparable) and any(
            all(row[name] == value for name, value in comparable.items())
            for row in self.taken.payload.select(list(comparable)).to_pylist()
        )

    def __str__(self) -> str:
        output = ", ".join(map(str, elements_of([self.answer]))) or "nothing"
        return f"{self.number}: {self.operator} port {self.port}, {len(self.taken)} in: {output}"


class _Recorder(WrappedOperator):
    def __init__(self, inner: Operator, name: str, trace: Trace) -> None:
        super().__init__(inner)
        self.name, self._trace = name, trace

    def process(self, port: int, batch: Batch) -> Batch:
        answer = self.inner.process(port, batch)
        self._trace.note(self.name, port, batch, answer)
        return answer


class Trace:
    """Records the last `keep` executions behind the sources of a graph, inside a `with` block."""

    def __init__(
        self, graph: QueryGraph, *, clock: Callable[[], float], keep: int = 10_000
    ) -> None:
        self._graph, self._clock = graph, clock
        self.visits: deque[Visit] = deque(maxlen=keep)
        self._count = 0

    def __enter__(self) -> Self:
        sources = set(self._graph.sources.values())
        for operator in self._graph.operators:
            if operator not in sources:
                operator.kernel = _Recorder(operator.kernel, operator.id, self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for operator in self._graph.operators:
            if isinstance(operator.kernel, _Recorder):
                operator.kernel = operator.kernel.inner

    def note(self, operator: str, port: int, taken: Batch, answer: Batch) -> None:
        self._count += 1
        self.visits.append(Visit(self._count, self._clock(), operator, port, taken, answer))

    def of(self, **values: Any) -> Iterator[Visit]:
        """The executions that saw a row with these values."""
        return (visit for visit in self.visits if visit.saw(values))

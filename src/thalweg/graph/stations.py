"""Stations: operators with their arcs, the nodes of the query graph.

A station that several others read puts each batch on every arc that leaves it; batches are
immutable, so nothing is copied. `more` says that it has input, `yields` that a station after it has
some of its output to work on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from thalweg.graph.arcs import Arc
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.operators.base import Operator

__all__ = ["OperatorFigures", "Station"]


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """What an operator has done so far, and what it keeps."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    retractions: int = 0
    seconds: float = 0.0
    state_rows: int = 0
    state_bytes: int = 0

    def __add__(self, other: OperatorFigures) -> OperatorFigures:
        return OperatorFigures(
            *(getattr(self, name) + getattr(other, name) for name in self.__slots__)
        )


@dataclass(eq=False, slots=True)
class Station:
    """One row of the state table: an operator, the stations before and after it, and the name of
    its selection rule."""

    id: str
    operator: Operator
    rule: str = "breadth-first"
    inputs: list[Arc] = field(default_factory=list)
    outputs: list[Arc] = field(default_factory=list)
    before: list[Station] = field(default_factory=list)
    batches: int = 0
    elements_in: int = 0
    elements_out: int = 0
    retractions: int = 0
    seconds: float = 0.0
    received: dict[int, Progress] = field(default_factory=dict)
    """By port: the progress that has arrived."""
    passed: Progress = NO_PROGRESS
    """The progress that was passed on."""

    @property
    def more(self) -> bool:
        """There is input. No operator waits for order, so input on any port will do."""
        return any(arc.buffer for arc in self.inputs)

    @property
    def yields(self) -> Station | None:
        """A station after this one that has input, if there is one."""
        for arc in self.outputs:
            if arc.head is not None and arc.buffer:
                return arc.head
        return None

    def execute(self) -> None:
        """Take one batch in, put the answer out."""
        for arc in self.inputs:
            if arc.buffer:
                batch = arc.buffer.popleft()
                begin = time.perf_counter()
                answer = self.operator.process(arc.port, batch)
                self.seconds += time.perf_counter() - begin
                self.batches += 1
                self.elements_in += len(batch)
                self.received[arc.port] = self.received.get(arc.port, NO_PROGRESS).merge(
                    batch.progress
                )
                self.pass_on(answer)
                return

    def pass_on(self, answer: Batch) -> None:
        """Put an answer out, if it says something: rows, or a promise that was not made before."""
        self.elements_out += len(answer)
        self.retractions += 0 if answer.is_adjust is None else int(answer.is_adjust.sum())
        advanced = self.passed.merge(answer.progress)
        if not len(answer) and advanced == self.passed:
            return
        self.passed = advanced
        for out in self.outputs:
            out.buffer.append(answer)

    def count_anew(self) -> None:
        """Forget what was counted; figures are then of what comes."""
        self.batches = self.elements_in = self.elements_out = self.retractions = 0
        self.seconds = 0.0

    def figures(self) -> OperatorFigures:
        size = self.operator.state_size()
        return OperatorFigures(
            self.batches,
            self.elements_in,
            self.elements_out,
            self.retractions,
            self.seconds,
            size.rows,
            size.bytes,
        )

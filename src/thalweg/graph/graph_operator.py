"""The operators of a query graph: a kernel with its arcs, its progress and its figures.

An operator takes batches from its input arcs and puts answers on one output arc. Where several
operators read it, that arc is a `SharedBuffer`: the answer is stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from thalweg.graph.arcs import AppendBuffer, Arc
from thalweg.graph.forks import SharedBuffer
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.time import INFINITY
from thalweg.operators.base import Operator

__all__ = ["GraphOperator", "OperatorFigures", "PromiseArc", "linear_runs"]


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """The work of an operator so far, and the size of its state."""

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


class PromiseArc(Protocol):
    """An arc along which promises bypass operators."""

    def is_clear(self) -> bool:
        """Whether no row is on the way."""

    def deliver(self, progress: Progress) -> None:
        """Write the promise at the end of the arc."""


class GraphOperator:
    """A kernel, the arcs it reads by port, the arc it writes, and its figures."""

    __slots__ = (
        "batches",
        "before",
        "bypass",
        "elements_in",
        "elements_out",
        "id",
        "inputs",
        "kernel",
        "newest",
        "oldest",
        "output",
        "passed",
        "received",
        "retractions",
        "seconds",
        "skipped",
        "skips",
        "unwanted",
    )
    waits_for_order = False
    """Whether rows may lie in an input that the operator cannot take yet."""

    @property
    def members(self) -> list[GraphOperator]:
        """The operators that run as one (see `fused`): this one alone."""
        return [self]

    def __init__(
        self, identity: str, kernel: Operator, *, before: list[GraphOperator] | None = None
    ) -> None:
        self.id = identity
        self.kernel = kernel
        self.before: list[GraphOperator] = before or []
        """By port: the operator that it reads."""
        self.inputs: list[Arc] = []
        self.output: Arc | SharedBuffer = AppendBuffer()
        self.batches = 0
        self.elements_in = 0
        self.elements_out = 0
        self.retractions = 0
        self.seconds = 0.0
        self.skips: tuple[bool, ...] = ()
        """By port: whether the input has no adjusts, so that its rows may be skipped."""
        self.unwanted: tuple[int, ...] | None = None
        """By port: rows that end before this are skipped (see `feedback`); None: no rows are."""
        self.skipped = 0
        self.received: dict[int, Progress] = {}
        """By port: the progress that has arrived."""
        self.passed = NO_PROGRESS
        """The progress that was passed on."""
        self.bypass: tuple[PromiseArc, ...] = ()
        """Where a promise without rows goes (see `enhanced`)."""
        self.newest: int | None = None
        """The newest start of a row that was taken; None where `demand` does not watch it."""
        self.oldest = INFINITY
        """The oldest start of a row taken since the operator's promise last passed `newest`."""

    def __repr__(self) -> str:
        return f"GraphOperator({self.id})"

    def port(self) -> int:
        """The port to take from next, -1 when there is no input. Kernels accept any order of their
        inputs; a kernel may prefer one port (`first_port`)."""
        first = self.kernel.first_port
        if first and self.inputs[first].size():
            return first
        for port, arc in enumerate(self.inputs):
            if arc.size():
                return port
        return -1

    def execute(self, most: int | None = None) -> int:
        """Take one batch, or at most `most` elements of it, and emit the answer; returns the number
        of elements taken."""
        inputs = self.inputs
        port = 0 if len(inputs) == 1 and inputs[0].size() else self.port()
        if port < 0:
            return 0
        batch = inputs[port].take() if most is None else self.take(port, most)
        if self.unwanted is not None:
            batch = self.without_unwanted(port, batch)
        if batch.progress.group_column_promises:
            batch = self.without_unknown(batch)
        begin = perf_counter()
        answer = self.kernel.process(port, batch)
        self.seconds += perf_counter() - begin
        count = len(batch.start)
        if self.newest is not None and count:
            self.newest = max(self.newest, int(batch.start.max()))
            self.oldest = min(self.oldest, int(batch.start.min()))
        self.batches += 1
        self.elements_in += count
        if self.received.get(port) is not batch.progress:
            self.receive(port, batch.progress)
        if answer.progress is self.passed and answer.is_adjust is None:  # no new promise
            if len(answer.start):
                self.elements_out += len(answer.start)
                self.output.put(answer)
        else:
            self.pass_on(answer)
        return count

    def take(self, port: int, most: int | None) -> Batch:
        """The batch at the front of an input; with a limit, waiting batches up to that size."""
        arc = self.inputs[port]
        batch = arc.take(most)
        if most is None or not arc.size():
            return batch
        parts, room = [batch], most - len(batch.start)
        while arc.size() and len(arc.peek().start) <= room:
            parts.append(arc.take())
            room -= len(parts[-1].start)
        return batch if len(parts) == 1 else Batch.concat(parts, batch.schema)

    def without_unknown(self, batch: Batch) -> Batch:
        """A batch without the promises that the kernel cannot use."""
        if not batch.progress.group_column_promises or self.kernel.knows_group_column_promises:
            return batch
        return batch.with_progress(batch.progress.without_group_column_promises())

    def without_unwanted(self, port: int, batch: Batch) -> Batch:
        """A batch without the rows that no reader needs (see `feedback`)."""
        if self.unwanted is None or port >= len(self.skips) or not self.skips[port]:
            return batch
        kept = batch.end >= self.unwanted[port]
        if batch.is_adjust is not None or kept.all():
            return batch
        self.skipped += len(batch) - int(kept.sum())
        return batch.filter(kept)

    def note(self, port: int, progress: Progress, count: int) -> None:
        """Count a batch that was taken."""
        self.batches += 1
        self.elements_in += count
        self.receive(port, progress)

    def receive(self, port: int, progress: Progress) -> None:
        """Note the progress of an input."""
        received = self.received.get(port)
        self.received[port] = progress if received is None else received.advance(progress)

    def pass_on(self, answer: Batch) -> None:
        """Put an answer out, if it has rows or a new promise; a promise without rows bypasses the
        operators that only pass it on."""
        if not self.count_answer(answer):
            return
        arcs = self.bypass
        if not arcs or len(answer.start) or not all(arc.is_clear() for arc in arcs):
            self.output.put(answer)
            return
        for arc in arcs:
            arc.deliver(answer.progress)

    def count_answer(self, answer: Batch) -> bool:
        """Count an answer; returns whether it has rows or a new promise."""
        count = len(answer.start)
        passed = self.passed
        advanced = passed if answer.progress is passed else passed.advance(answer.progress)
        if count:
            self.elements_out += count
            if answer.is_adjust is not None:
                self.retractions += int(answer.is_adjust.sum())
        elif advanced is passed or advanced == passed:
            return False
        self.passed = advanced
        return True

    def reset_counts(self) -> None:
        """Set all counts to zero."""
        self.batches = self.elements_in = self.elements_out = self.retractions = 0
        self.seconds = 0.0

    def figures(self) -> OperatorFigures:
        size = self.kernel.state_size()
        return OperatorFigures(
            self.batches,
            self.elements_in,
            self.elements_out,
            self.retractions,
            self.seconds,
            size.rows,
            size.bytes,
        )


def linear_runs(
    operators: Iterable[GraphOperator], readers: Mapping[GraphOperator, int]
) -> list[list[GraphOperator]]:
    """The longest runs of operators of which each reads the one before it alone, and is its only
    reader. `operators` come after those they read; `readers` counts the readers of each."""
    found: list[list[GraphOperator]] = []
    run_of: dict[GraphOperator, list[GraphOperator]] = {}
    for operator in operators:
        run: list[GraphOperator] | None = None
        if len(operator.before) == 1 and readers[operator.before[0]] == 1:
            run = run_of.get(operator.before[0])
        if run is None:
            run = []
            found.append(run)
        run.append(operator)
        run_of[operator] = run
    return found

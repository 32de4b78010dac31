"""Consecutive row operators that run as one: a batch passes all of them in one step of the cycle.

Each operator keeps its own figures and its own progress, so that reports and `why` are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

from thalweg.expr.one_row import NeedsKernel
from thalweg.graph.arcs import Arc
from thalweg.graph.graph_operator import GraphOperator, linear_runs
from thalweg.model.batch import Batch
from thalweg.operators.base import Operator
from thalweg.operators.rows.one_row import RowChain, row_chain

__all__ = ["Fused", "chains"]


class Fused:
    """Runs `members`, each of which has one input and is read by the next one alone. A batch of one
    row goes through all of them as Python values (see `operators.one_row`)."""

    __slots__ = ("_kernels", "_row_chain", "id", "members")
    waits_for_order = False

    def __init__(self, members: list[GraphOperator]) -> None:
        self.members = members
        self.id = "+".join(member.id for member in members)
        self._kernels: list[Operator] = []
        self._row_chain: RowChain | None = None

    @property
    def inputs(self) -> list[Arc]:
        return self.members[0].inputs

    def port(self) -> int:
        return 0 if self.members[0].inputs[0].size() else -1

    def execute(self, most: int | None = None) -> int:
        """Take one batch, or at most `most` elements of it, through all members."""
        first = self.members[0]
        batch = first.inputs[0].take() if most is None else first.take(0, most)
        taken = len(batch.start)
        if taken == 1 and batch.is_adjust is None and self._pass_row(batch):
            return 1
        begin = perf_counter()
        for member in self.members:
            if member.unwanted is not None:
                batch = member.without_unwanted(0, batch)
            answer = member.kernel.process(0, member.without_unknown(batch))
            now = perf_counter()
            member.seconds += now - begin
            begin = now
            member.note(0, batch.progress, len(batch.start))
            if not member.count_answer(answer):
                return taken
            batch = answer
        self.members[-1].output.put(batch)
        return taken

    def _pass_row(self, batch: Batch) -> bool:
        """Take one row through all members as Python values; returns whether that was possible. If
        not, nothing has changed: row operators keep no state."""
        members = self.members
        chain = self._row_chain
        if chain is None and self._kernels and members[0].kernel is self._kernels[0]:
            return False
        for member, kernel in zip(members, self._kernels, strict=False):
            if member.kernel is not kernel:
                self._kernels = []  # the kernel was replaced, as a trace does
                break
        if not self._kernels:
            self._kernels = [member.kernel for member in members]
            chain = self._row_chain = row_chain(self._kernels, batch.schema)
        if chain is None or any(member.unwanted is not None for member in members):
            return False
        begin = perf_counter()
        try:
            passed, values = chain.pass_through(batch)
        except NeedsKernel:
            return False
        progress = batch.progress
        rows = 1
        for at, member in enumerate(members):
            member.note(0, progress, rows)
            if not self._kernels[at].knows_group_column_promises:
                progress = progress.without_group_column_promises()
            progress = self._kernels[at].moves(progress)
            if at == passed:
                rows = 0
            elif rows:
                member.elements_out += 1
            before = member.passed
            after = before.advance(progress)
            if not rows and after == before:
                break
            member.passed = after
        else:
            last = members[-1]
            last.output.put(
                chain.answer(batch, values, progress)
                if rows
                else Batch.empty(last.kernel.schema, progress)
            )
        share = (perf_counter() - begin) / len(members)
        for member in members:
            member.seconds += share
        return True


def chains(
    operators: list[GraphOperator], readers: Mapping[GraphOperator, int]
) -> list[list[GraphOperator]]:
    """The longest runs of two or more row operators, each the only reader of the one before.
    `readers` counts the readers of each operator, outputs included."""
    by_row = [o for o in operators if o.kernel.row_by_row and len(o.before) == 1]
    return [run for run in linear_runs(by_row, readers) if len(run) > 1]

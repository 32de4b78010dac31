"""The query graph: operators joined by arcs, and the cycle that runs them.

    1. execute the current operator
    2. select the next one by the rule in its row of the state table

A rule that finds nothing to do returns control to the scheduler, which goes on with another part of
the same component that has input. When there is none, every buffer is empty.

Two ways in: `offer` and `run` take batches as they are, all of them or a number of steps; `admit`
lets a source take several batches or none, and `send` then passes them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter

import pyarrow as pa

from thalweg.errors import PlanError, StateError, did_you_mean
from thalweg.graph.graph_operator import GraphOperator, OperatorFigures
from thalweg.graph.rules import ASK, RUN
from thalweg.graph.state_table import Row
from thalweg.graph.strategies import Strategies
from thalweg.graph.waiting import WAITING, restore_waiting, waiting_rows
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.operators.source.ingress import IngressKernel
from thalweg.operators.window.modules.dead_letters import DEAD_LETTERS, WritesLetters

__all__ = ["QueryGraph"]


class QueryGraph(Strategies):
    """Operators joined by arcs, and the cycle that runs them."""

    # ------------------------------------------------------------------------------------------
    # sources

    def source(self, name: str) -> GraphOperator:
        """The operator of a source."""
        operator = self.sources.get(name)
        if operator is None:
            raise PlanError(
                f"the query has no source {name!r}{did_you_mean(name, self.sources)} Sources: "
                f"{', '.join(self.sources)}."
            )
        return operator

    def ingress(self, source: str) -> IngressKernel:
        """The kernel of a source."""
        kernel = self.source(source).kernel
        assert isinstance(kernel, IngressKernel)
        return kernel

    # ------------------------------------------------------------------------------------------
    # flow

    def offer(self, source: str, batch: Batch) -> None:
        """Put a batch in front of a source."""
        self.source(source)
        self._inlets[source].put(batch)

    def run(self, steps: int | None = None) -> list[Batch]:
        """Work until every buffer is empty, or for `steps` steps; returns the output."""
        batches_in = sum(map(len, self._inlets.values()))
        if batches_in:
            self.bursts = (self.bursts[0] + 1, self.bursts[1] + batches_in)
        try:
            current, run = self._current or (None, ASK)
            self._work(current, self._order, run=run, steps=steps)
        except BaseException:
            # A source that refuses a batch refuses it whole: nothing of it is left behind.
            for inlet in self._inlets.values():
                inlet.clear()
            self._current = None
            raise
        return self.taken("") if "" in self._outlets else []

    def admit(self, source: str, batches: Sequence[Batch]) -> list[Batch]:
        """The batches that a source admits. When it refuses one it refuses all, and nothing has
        changed."""
        operator = self.sources[source]
        assert isinstance(operator.kernel, IngressKernel)
        begin = perf_counter()
        admitted = operator.kernel.admit(batches)
        operator.seconds += perf_counter() - begin
        operator.batches += len(batches)
        operator.elements_in += sum(map(len, batches))
        return admitted

    def send(self, source: str, *admitted: Batch) -> list[Batch]:
        """Pass on batches that their source has admitted, and work until every buffer is empty;
        returns the output."""
        operator = self.sources[source]
        runs, batches = self.bursts
        self.bursts = (runs + 1, batches + len(admitted))
        self.pass_on(source, admitted)
        self._work(self._row_of[operator], self._reached(source), run=ASK)
        return self.taken("") if "" in self._outlets else []

    def pass_on(self, source: str, admitted: Sequence[Batch]) -> None:
        """Put batches that a source has admitted on its output, and do no more."""
        operator = self.sources[source]
        for batch in admitted:
            operator.pass_on(batch)

    @property
    def ready(self) -> bool:
        """Whether there is something to do."""
        return any(row.more() for row in self._order)

    def _work(
        self, row: Row | None, order: list[Row], *, run: bool, steps: int | None = None
    ) -> None:
        """The cycle. `order` is where the scheduler looks for input when a rule returns control."""
        by_steepness = bool(self._steepness)
        while True:
            while row is not None:
                if run and steps is None and row.operator is not None and not row.k:
                    row.operator.execute()
                elif run:
                    if steps is not None and row.operator is not None:
                        if not steps:
                            self._current = (row, RUN)
                            return
                        steps -= 1
                    row.step()
                row, run = row.rule(row)
                if by_steepness and row is not None and not row.pred:
                    row = None  # the scheduler chooses the next part again
            if self.on_idle is not None:
                self.on_idle()
            for candidate in order:
                if candidate.more():
                    row, run = candidate, RUN
                    break
            else:
                self._current = None
                return

    def _reached(self, source: str) -> list[Row]:
        """The rows behind a source, in the order of the scheduler."""
        order = self._reach.get(source)
        if order is None:
            reached = {self.sources[source]}
            for operator in self.operators:
                if not reached.isdisjoint(operator.before):
                    reached.add(operator)
            rows = {self._row_of[operator] for operator in reached}
            order = self._reach[source] = [row for row in self._order if row in rows]
        return order

    # ------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> dict[str, Slices]:
        """All state, with the batches that wait on arcs."""
        state = {operator.id: operator.kernel.snapshot() for operator in self.operators}
        if self.waiting:
            state[WAITING] = waiting_rows(self.operators)
        return state

    def restore(self, state: Mapping[str, Slices]) -> None:
        """Back to a snapshot of the same operators."""
        state = dict(state)
        waiting = state.pop(WAITING, {})
        ids = {operator.id for operator in self.operators}
        if ids != set(state):
            raise StateError(
                f"the snapshot is of other operators: it lacks {sorted(ids - set(state))}, and has "
                f"{sorted(set(state) - ids)}."
            )
        for operator in self.operators:
            operator.kernel.restore(state[operator.id])
        if waiting:
            self.split()  # a row may wait between two operators that run as one
        restore_waiting(self.operators, waiting)
        if any(isinstance(operator.kernel, MergeKernel) for operator in self.operators):
            self._set_unwanted()

    def skip_before(self, time: int, end: str = "") -> None:
        """Answers under this name that end before `time` are no longer needed."""
        self._unwanted[end] = max(time, self._unwanted.get(end, MIN_TIME))
        self._set_unwanted()

    def unwanted_before(self, source: str) -> int:
        """Rows of a source that end before this are skipped."""
        kernel = self.sources[source].kernel
        return kernel.skips_before if isinstance(kernel, IngressKernel) else MIN_TIME

    @property
    def skipped(self) -> int:
        """How many rows were skipped because no reader needs them (see `feedback`)."""
        sources = (operator.kernel for operator in self.sources.values())
        return sum(operator.skipped for operator in self.operators) + sum(
            kernel.skipped for kernel in sources if isinstance(kernel, IngressKernel)
        )

    def figures(self) -> dict[str, OperatorFigures]:
        """By id: the figures of each operator."""
        return {operator.id: operator.figures() for operator in self.operators}

    def dead_letters(self, operators: Iterable[GraphOperator] | None = None) -> pa.Table:
        """The windows, since the last call, that modules failed on and the query went on without:
        of some operators, or of all."""
        kernels = [each.kernel for each in (self.operators if operators is None else operators)]
        taken = [
            kernel.dead_letters.take() for kernel in kernels if isinstance(kernel, WritesLetters)
        ]
        return pa.concat_tables([DEAD_LETTERS.empty_table(), *taken])

    def arcs(self) -> dict[str, list[str]]:
        """By id: the progress that has arrived at each port of the operator, as text, for
        snapshots."""
        return {
            s.id: [
                progress_text(s.received.get(port, NO_PROGRESS)) for port in range(s.kernel.ports)
            ]
            for s in self.operators
        }

    def restore_arcs(self, arcs: Mapping[str, Sequence[str]]) -> None:
        """The inverse of `arcs`."""
        for operator in self.operators:
            operator.received = {
                port: progress_of_text(text) for port, text in enumerate(arcs.get(operator.id, ()))
            }

    def state_size(self) -> dict[str, StateSize]:
        return {operator.id: operator.kernel.state_size() for operator in self.operators}

"""Modules over hopping and tumbling windows, where nothing beyond a window's end matters to it.

Meaning, nulls, duplicates: see `window_apply`. Windows here are integers (see `grid`), so that the
windows that a batch affects follow from its times, and windows that have not answered need no
entry. The state of a window that has answered is updated by the changed rows alone. A late row
costs the windows it is in.

State: rows of windows that are not closed, or whose end may still move; the windows that have
answered but are not closed. The promise is the start of the earliest window that is not closed;
with unrestricted stamps there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows, distinct_codes
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import Slices
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import ranges
from thalweg.operators.window.grid.grid import FOREVER, NEVER
from thalweg.operators.window.grid.loop import Arrivals, GridOperator
from thalweg.operators.window.modules.module_kernel import ModuleKernel, matches
from thalweg.operators.window.modules.window_entries import Entries
from thalweg.operators.window.modules.window_frames import Regions, Spans
from thalweg.plan.nodes import WindowApply
from thalweg.udm.cells import Cells
from thalweg.windows import HoppingWindow

__all__ = ["GridApplyKernel"]


class GridApplyKernel(ModuleKernel, GridOperator[Delta, Delta]):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}).hopping(10, 5).apply("average", "v")
    >>> tw.table(query, {"s": [tw.point({"v": 1.0}, 2), tw.point({"v": 3.0}, 7)]})
    [(-5, 5, {'average': 1.0}), (0, 10, {'average': 2.0}), (5, 15, {'average': 3.0})]
    """

    def __init__(self, node: WindowApply, consistency: Consistency) -> None:
        super().__init__(node, consistency)
        assert isinstance(node.window, HoppingWindow)
        self._place_on(node.window, consistency)
        self._unrestricted = node.stamp == "unrestricted"

    def promise(self) -> int:
        unrestricted = self._unrestricted and self._release.cti != INFINITY
        return MIN_TIME if unrestricted else super().promise()

    def needs(self, time: int) -> tuple[int, ...]:
        unrestricted = self._unrestricted and time > MIN_TIME
        return (INFINITY if unrestricted else self._grid.needs(time),)

    def project(self, batch: Batch) -> Delta:
        return self._module.project(batch)

    def read(self, delta: Delta, first: Codes, beyond: Codes) -> Arrivals[Delta]:
        return Arrivals(delta, self._partitions.of_rows(delta.payload), first, beyond)

    def hold(self, arrivals: Arrivals[Delta]) -> None:
        self._events.apply(arrivals.rows, arrivals.group)

    def _begin(self, window: int) -> int:
        return max(
            window * self._grid.hop + self._grid.offset, MIN_TIME
        )  # Python's integers do not wrap around

    def _cells(self, partition: Codes, row: Codes, window: Codes) -> tuple[Spans, Codes]:
        """The distinct pairs (partition, window) as spans, and the position among them for each row
        of a window."""
        low = int(window.min())
        width = int(window.max()) - low + 1
        cells, at = distinct_codes(partition[row] * width + (window - low))
        start = self._grid.start(cells % width + low)
        return Spans(cells // width, start, start + self._grid.size), at

    # -------------------------------------------------------------------------------------------
    # windows that have answered

    def revise(self, arrivals: Arrivals[Delta], low: Codes, length: Codes) -> Delta:
        """Retract and make again the answers that the changes affect."""
        delta, partition = arrivals.rows, arrivals.group
        row, window = ranges(low, length)
        spans, cell = self._cells(partition, row, window)
        net_row, net_cell, times = self._module.net(delta, row, cell, spans)
        affected = np.zeros(len(spans), np.bool_)
        affected[net_cell] = True
        if not affected.any():
            self.hold(arrivals)
            return Delta.empty(self.schema)
        near, _ = Regions(spans.code, spans.start, spans.start + 1).joined()
        found = self._windows.find(near.partition, near.low, near.high)
        entries = found.entries
        match = matches(entries.partition, entries.start, entries.end, spans)
        mask = np.zeros(len(entries), np.bool_)
        mask[match[affected & (match >= 0)]] = True
        leaving = found.filter(mask)

        def old_rows(some: Codes) -> tuple[Codes, Cells]:
            return np.arange(len(some)), self._cells_of(leaving.entries.take(some))

        removed = self._taking_back.rows(leaving, self._windows, old_rows)
        self.hold(arrivals)
        self._windows.remove(leaving)
        number = np.cumsum(affected) - 1
        inside = affected[cell]
        growth = np.bincount(
            number[cell[inside]], delta.weight[row[inside]], int(affected.sum())
        ).astype(np.int64)
        pairs = (net_row, number[net_cell], times)
        arriving = self._changed(
            delta, spans.take(affected), match[affected], entries, growth, pairs
        )
        return Delta.concat([removed, self._answer_again(arriving)], self.schema)

    def _changed(
        self,
        delta: Delta,
        spans: Spans,
        match: Codes,
        old: Entries,
        growth: Codes,
        pairs: tuple[Codes, Codes, Codes],
    ) -> Entries:
        """Entries for affected windows: those of the old ones, with counts and states updated."""
        matched = match >= 0
        events = growth.copy()
        events[matched] += old.events[match[matched]]
        arriving = self._windows.make(spans.code, spans.start, spans.end, spans.end, events)
        if self._in_steps:
            has = matched.copy()
            has[matched] = np.array(
                [state is not None for state in old.state[match[matched]]], np.bool_
            )
            row, window, times = pairs
            if not self._node.module.differential:
                has[window[times < 0]] = False
            self._module.carry(arriving, old, match, has, delta, row, window, times)
        return arriving.take(events > 0)

    def _answer_again(self, entries: Entries) -> Delta:
        if not len(entries):
            return Delta.empty(self.schema)
        answered, entries = self._compute(entries)
        self._windows.put_out(entries, answered)
        return answered.rows

    # --------------------------------------------------------------------------------------------
    # windows to come

    def answer(self, low: int, high: int) -> Delta:
        """The first answers of the windows low .. high; those of windows that are not closed are
        kept."""
        closed, grid = self._release.closed, self._grid
        found = self._events.between(self._begin(low), self._begin(high) + grid.size)
        first, beyond = grid.first(found.start), grid.beyond(found.end)
        row, window = ranges(*grid.inside(first, beyond, low, high))
        if not len(row):
            return Delta.empty(self.schema)
        rows = found.delta()
        spans, cell = self._cells(found.partition, row, window)
        events = np.bincount(cell, rows.weight[row], len(spans)).astype(np.int64)
        entries = self._windows.make(spans.code, spans.start, spans.end, spans.end, events)
        cells = self._module.cells(rows, row, cell, rows.weight[row], spans)
        failed, states = np.zeros(len(entries), np.bool_), entries.state
        keeps = closed < high
        steps = states if self._in_steps and keeps else None
        answered = self._module.from_rows(entries, cells, np.arange(len(entries)), failed, steps)
        if keeps:
            done = entries.but(failed=failed, state=states)
            done = self._taking_back.choose(answered, done)
            stay = done.take((done.start - grid.offset) // grid.hop > closed)
            self._windows.put_out(stay, answered.filter(np.isin(answered.window, stay.id)))
        return answered.rows

    def to_batch(self, changes: Sequence[Delta], progress: Progress) -> Batch:
        return Delta.concat(changes, self.schema).to_batch(progress)

    # --------------------------------------------------------------------------------------------
    # state

    def close(self, expired: int) -> None:
        self._windows.close(self._begin(self._release.closed) + self._grid.size)
        self._events.drop(expired)

    def drop_closed(self, closed: Codes) -> None:
        some = np.flatnonzero(closed != NEVER)
        ended = closed[some] == FOREVER
        last = np.where(ended, 0, closed[some])
        rows, windows = self._events.of(some), self._windows.of(some)
        over = np.where(ended, INFINITY, self._grid.over(last))
        self._events.remove(rows.filter(rows.end <= over[rows.owner]))
        over = np.where(ended, INFINITY, self._grid.start(last))
        self._windows.remove(windows.filter(windows.entries.start <= over[windows.owner]))

    def snapshot(self) -> Slices:
        return GridOperator.snapshot(self)

    def save(self) -> Slices:
        return ModuleKernel.snapshot(self)

    def load(self, slices: Mapping[str, Rows]) -> None:
        self._restore(slices, MIN_TIME, self._release.cti)

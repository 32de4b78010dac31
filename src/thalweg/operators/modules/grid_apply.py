"""Modules over hopping and tumbling windows, where nothing beyond a window's end matters to it.

Meaning, nulls, duplicates: see `window_apply`. Windows here are integers (see `hopping_grid`), so
that those a batch affects need no looking for, windows that have not answered need no entry, and a
window that has is told only what changed. A late row costs the windows that it is in.

State: rows of windows that are not closed, or whose end may still move; the windows that have
answered but are not closed. The promise is the start of the earliest window that is not closed;
with unrestricted stamps there is none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import Slices
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import ranges
from thalweg.operators.hopping.hopping_grid import FOREVER, NEVER, Grid, GridOperator, Release
from thalweg.operators.hopping.hopping_rows import restore_release, slice_of_release
from thalweg.operators.modules.module_kernel import ModuleKernel, matches
from thalweg.operators.modules.window_frames import GridFrame, Regions, Spans
from thalweg.operators.modules.window_index import Entries
from thalweg.plan.nodes import WindowApply
from thalweg.udm.calls import Cells

__all__ = ["GridApplyKernel"]


class GridApplyKernel(ModuleKernel, GridOperator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}).hopping(10, 5).apply("average", "v")
    >>> tw.table(query, {"s": [tw.point({"v": 1.0}, 2), tw.point({"v": 3.0}, 7)]})
    [(-5, 5, {'average': 1.0}), (0, 10, {'average': 2.0}), (5, 15, {'average': 3.0})]
    """

    def __init__(self, node: WindowApply, consistency: Consistency) -> None:
        super().__init__(node, consistency)
        assert isinstance(self._frame, GridFrame)
        self._grid: Grid = self._frame.grid
        self._release = Release(self._grid, consistency)

    def process(self, port: int, batch: Batch) -> Batch:
        release, changes = self._release, []
        if len(batch):
            delta = self._module.project(batch)
            release.see(delta.start, delta.end)
            changes.append(self._revise(delta, self._partitions.of_rows(delta.payload)))
        closed, released = release.advance(batch.progress.cti)
        if released > release.released:
            changes.append(
                self._answer(max(release.released, release.closed) + 1, released, closed)
            )
        moved = closed > release.closed
        release.closed, release.released = closed, released
        if moved or release.cti == INFINITY:  # rows between two windows close none at the end
            self._forget()
        unrestricted = self._node.stamp == "unrestricted" and release.cti != INFINITY
        return Delta.concat(changes, self.schema).to_batch(
            Progress(MIN_TIME if unrestricted else release.promise())
        )

    def needs(self, time: int) -> tuple[int, ...]:
        unrestricted = self._node.stamp == "unrestricted" and time > MIN_TIME
        return (INFINITY if unrestricted else self._release.needs(time),)

    def _pairs(self, rows: Delta, low: int, high: int) -> tuple[Codes, Codes]:
        """Rows and the windows low .. high that they are in."""
        return self._pairs_of(rows.start, rows.end, low, high)

    def _pairs_of(self, start: Times, end: Times, low: int, high: int) -> tuple[Codes, Codes]:
        first = np.maximum(self._grid.first(start), low)
        return ranges(first, np.maximum(np.minimum(self._grid.beyond(end), high + 1) - first, 0))

    def _begin(self, window: int) -> int:
        return max(
            window * self._grid.hop + self._grid.offset, MIN_TIME
        )  # Python's integers do not wrap around

    def _cells(self, partition: Codes, row: Codes, window: Codes) -> tuple[Spans, Codes]:
        """The windows of partitions that occur, and which of them each pair is in."""
        low = int(window.min())
        width = int(window.max()) - low + 1
        cells, at = np.unique(partition[row] * width + (window - low), return_inverse=True)
        start = self._grid.start(cells % width + low)
        return Spans(cells // width, start, start + self._grid.size), at

    # -------------------------------------------------------------------------------------------
    # windows that are out

    def _revise(self, delta: Delta, partition: Codes) -> Delta:
        """Take back and answer again the windows that are out and that the changes affect."""
        release = self._release
        row, window = self._pairs(delta, release.closed + 1, release.released)
        if not len(row):
            self._events.apply(delta, partition)
            return Delta.empty(self.schema)
        spans, cell = self._cells(partition, row, window)
        net_row, net_cell, times = self._module.net(delta, row, cell, spans)
        affected = np.zeros(len(spans), np.bool_)
        affected[net_cell] = True
        if not affected.any():
            self._events.apply(delta, partition)
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

        gone = self._taking_back.rows(leaving, self._windows, old_rows)
        self._events.apply(delta, partition)
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
        return Delta.concat([gone, self._answer_again(arriving)], self.schema)

    def _changed(
        self,
        delta: Delta,
        spans: Spans,
        match: Codes,
        old: Entries,
        growth: Codes,
        pairs: tuple[Codes, Codes, Codes],
    ) -> Entries:
        """Entries for affected windows: counts from what was there; states are told what
        changed."""
        known = match >= 0
        events = growth.copy()
        events[known] += old.events[match[known]]
        arriving = self._windows.make(spans.code, spans.start, spans.end, spans.end, events)
        if self._in_steps:
            has = known.copy()
            has[known] = np.array(
                [state is not None for state in old.state[match[known]]], np.bool_
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

    def _answer(self, low: int, high: int, closed: int) -> Delta:
        """The windows low .. high answer for the first time; those that are not closed are
        remembered."""
        found = self._events.between(self._begin(low), self._begin(high) + self._grid.size)
        row, window = self._pairs_of(found.start, found.end, low, high)
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
            stay = done.take((done.start - self._grid.offset) // self._grid.hop > closed)
            self._windows.put_out(stay, answered.filter(np.isin(answered.window, stay.id)))
        return answered.rows

    def _forget(self) -> None:
        release = self._release
        if release.cti == INFINITY:
            self._clear()
            return
        self._windows.close(release.cti)
        # An end before the next window may still move into it, unless the CTI has passed it.
        self._events.drop(min(self._begin(release.closed + 1), release.cti - 1))
        self._tidy(_NONE)

    # --------------------------------------------------------------------------------------------
    # groups with promises of their own

    def groups(self) -> list[pa.Array]:
        return self._partitions.named(np.arange(len(self._partitions.index)))

    def held_groups(self) -> Codes:
        return np.union1d(self._events.rows.groups(), self._windows.groups())

    def close_unwanted(self, last: int) -> None:
        self._release.closed = last
        self._release.released = max(self._release.released, last)
        self._windows.close(self._begin(last) + self._grid.size)
        self._events.drop(self._begin(last + 1))
        self._tidy(_NONE)

    def close_groups(self, closed: Codes) -> None:
        some = np.flatnonzero(closed != NEVER)
        last = closed[some]
        until = np.where(
            last == FOREVER, INFINITY, self._grid.start(np.where(last == FOREVER, 0, last) + 1)
        )
        rows = self._events.of(some)
        self._events.remove(rows.filter(rows.end <= until[rows.owner]))
        windows = self._windows.of(some)
        self._windows.remove(windows.filter(windows.entries.start < until[windows.owner]))

    # --------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        return {"release": slice_of_release(self._release), **super().snapshot()}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        restore_release(self._release, slices["release"])
        self._restore(slices, MIN_TIME, self._release.cti)


_NONE = np.empty(0, np.int64)

"""Modules over hopping and tumbling windows, where nothing beyond a window's end matters to it.

Meaning, nulls, duplicates: see `window_apply`. Windows here are integers (see `hopping_grid`), so
that those a batch affects need no looking for, windows that have not answered need no entry, and a
window that has is told only what changed.

State: rows of windows that are not closed, or whose end may still move; the windows that have
answered but are not closed. The promise is the start of the earliest window that is not closed;
with unrestricted stamps there is none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows, take_rows
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import Slices
from thalweg.operators.consistency import Consistency
from thalweg.operators.event_index import key_hashes
from thalweg.operators.groups import ranges
from thalweg.operators.hopping_grid import Grid, Release
from thalweg.operators.hopping_rows import restore_release, slice_of_release
from thalweg.operators.module_kernel import ModuleKernel, matches
from thalweg.operators.window_frames import GridFrame, Spans
from thalweg.operators.window_index import Entries
from thalweg.plan.nodes import WindowApply

__all__ = ["GridApplyKernel"]


class GridApplyKernel(ModuleKernel):
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
            changes.append(self._revise(delta))
        closed, released = release.advance(batch.progress.cti)
        if released > release.released:
            changes.append(
                self._answer(max(release.released, release.closed) + 1, released, closed)
            )
        moved = closed > release.closed
        release.closed, release.released = closed, released
        if moved:
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
        first = np.maximum(self._grid.first(rows.start), low)
        return ranges(
            first, np.maximum(np.minimum(self._grid.beyond(rows.end), high + 1) - first, 0)
        )

    def _begin(self, window: int) -> int:
        return max(
            window * self._grid.hop + self._grid.offset, MIN_TIME
        )  # Python's integers do not wrap around

    def _cells(self, code: Codes, row: Codes, window: Codes) -> tuple[Spans, Codes]:
        """The windows of groups that occur, and which of them each pair is in."""
        low = int(window.min())
        width = int(window.max()) - low + 1
        cells, at = np.unique(code[row] * width + (window - low), return_inverse=True)
        start = self._grid.start(cells % width + low)
        return Spans(cells // width, start, start + self._grid.size), at

    # -------------------------------------------------------------------------------------------
    # windows that are out

    def _revise(self, delta: Delta) -> Delta:
        """Take back and answer again the windows that are out and that the changes affect."""
        release = self._release
        row, window = self._pairs(delta, release.closed + 1, release.released)
        if not len(row):
            self._events.add(delta)
            return Delta.empty(self.schema)
        late = np.unique(row)
        hashes = np.unique(key_hashes(delta.take(late).payload, self._node.keys))
        at = self._windows.of_groups(hashes)
        old = self._windows.entries.take(at)
        whole = not self._in_steps or (
            (delta.weight < 0).any() and not self._node.module.differential
        )
        since = np.full(len(hashes), self._begin(int(window.min())))
        before = self._events.of_groups(hashes, since) if whole else Delta.empty(self._module.held)
        self._events.add(delta)
        code, _ = self._codes([before.payload, delta.payload], old.keys)
        delta_code, old_code = (
            code[len(before) : len(before) + len(delta)],
            code[len(before) + len(delta) :],
        )
        spans, cell = self._cells(delta_code, row, window)
        net_row, net_cell, times = self._module.net(delta, row, cell, spans)
        affected = np.zeros(len(spans), np.bool_)
        affected[net_cell] = True
        if not affected.any():
            return Delta.empty(self.schema)
        match = matches(old_code, old, spans)
        leaving = match[affected & (match >= 0)]
        gone = self._taking_back.rows(
            old.take(leaving),
            self._windows,
            before,
            code[: len(before)],
            old_code[leaving],
            self._frame,
        )
        spans, match = spans.take(affected), match[affected]
        number = np.cumsum(affected) - 1
        inside = affected[cell]
        growth = np.bincount(number[cell[inside]], delta.weight[row[inside]], len(spans)).astype(
            np.int64
        )
        pairs = (net_row, number[net_cell], times)
        arriving = self._changed(delta, spans, match, old, growth, pairs)
        self._windows.exchange(at[leaving], arriving.take(arriving.events > 0))
        return Delta.concat(
            [gone, self._answer_entries(np.isin(self._windows.entries.id, arriving.id))],
            self.schema,
        )

    def _changed(
        self,
        delta: Delta,
        spans: Spans,
        match: Codes,
        old: Entries,
        growth: Codes,
        pairs: tuple[Codes, Codes, Codes],
    ) -> Entries:
        """Entries for affected windows: keys from the changes, counts from what was there; states
        are told what changed."""
        someone = np.empty(len(spans), np.int64)
        someone[pairs[1]] = pairs[0]
        known = match >= 0
        events = growth.copy()
        events[known] += old.events[match[known]]
        keys = take_rows(self._module.keys(delta.payload), someone)
        arriving = self._windows.make(keys, spans.start, spans.end, events, events)
        if self._in_steps:
            has = known.copy()
            has[known] = np.array(
                [state is not None for state in old.state[match[known]]], np.bool_
            )
            row, window, times = pairs
            if not self._node.module.differential:
                has[window[times < 0]] = False
            self._module.carry(arriving, old, match, has, delta, row, window, times)
        return arriving

    def _answer_entries(self, mask: Bools) -> Delta:
        which = np.flatnonzero(mask)
        if not len(which):
            return Delta.empty(self.schema)
        entries = self._windows.entries.take(which)
        answered, failed, states = self._compute(entries)
        entries = entries.but(answered=np.ones(len(entries), np.bool_), failed=failed, state=states)
        answered, entries = self._taking_back.choose(answered, entries)
        self._windows.note(which, entries)
        self._keep_answers(answered, entries)
        return answered.rows

    # ----------------------------------------------------------------------------------------------
    # windows to come

    def _answer(self, low: int, high: int, closed: int) -> Delta:
        """The windows low .. high answer for the first time; those that are not closed are
        remembered."""
        rows = self._events.overlapping(self._begin(low), self._begin(high) + self._grid.size)
        row, window = self._pairs(rows, low, high)
        if not len(row):
            return Delta.empty(self.schema)
        code, _ = self._codes([rows.payload], self._module.keys(rows.payload).slice(0, 0))
        spans, cell = self._cells(code, row, window)
        entries = self._make_entries(rows, row, cell, spans)
        cells = self._module.cells(rows, row, cell, rows.weight[row], spans)
        failed, states = np.zeros(len(entries), np.bool_), entries.state
        keeps = closed < high
        steps = states if self._in_steps and keeps else None
        answered = self._module.from_rows(entries, cells, np.arange(len(entries)), failed, steps)
        if keeps:
            done = entries.but(
                answered=np.ones(len(entries), np.bool_), failed=failed, state=states
            )
            answered, done = self._taking_back.choose(answered, done)
            stay = done.take(self._number(done) > closed)
            self._windows.exchange(np.empty(0, np.int64), stay)
            self._keep_answers(answered.filter(np.isin(answered.window, stay.id)), stay)
        return answered.rows

    def _number(self, entries: Entries) -> Codes:
        return (entries.start - self._grid.offset) // self._grid.hop

    def _forget(self) -> None:
        release = self._release
        if release.cti == INFINITY:
            self._events.clear()
            self._windows.clear()
            return
        entries = self._windows.entries
        self._windows.exchange(
            np.flatnonzero(self._number(entries) <= release.closed),
            entries.take(np.empty(0, np.int64)),
        )
        if self._events.smallest_end() < release.cti:
            self._events.forget(
                lambda rows: (
                    (self._grid.beyond(rows.end) > release.closed + 1) | (rows.end >= release.cti)
                )
            )

    def snapshot(self) -> Slices:
        return {
            "release": slice_of_release(self._release),
            **dict(self._events.slices()),
            **self._windows.slices(),
            **self._module.letters.slices(),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        restore_release(self._release, slices["release"])
        self._events.restore(dict(slices))
        self._windows.restore(slices)
        self._module.letters.restore(slices)

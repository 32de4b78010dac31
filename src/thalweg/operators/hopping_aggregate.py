"""Hopping and tumbling windows whose aggregates add up: counts, integer sums and averages, without
copying any row.

An event [s, e) is in the windows first(s) .. beyond(e) - 1 (see `hopping_grid`), so it changes the
running total of its group at just two window indices: it enters at the one and leaves at the other.
Per batch these entries are summed by (group, index); the total over all entries up to k is the
value of window k. Cost per event does not depend on size / hop, whatever lifetimes the events have.

    running    per group, the total at the last window that has answered
    entries    what enters or leaves at later windows, in slices of neighbouring windows
    open       per group and window that has answered but is not closed, its totals: what a late event revises

Null keys are a group of their own. A late event adds to the windows that are out, which are
answered again if their result changed. State: the three tables; closing a window drops its slice.
The promise is the start of the earliest window that is not closed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows, encode
from thalweg.model.time import INFINITY
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.cells import Cells, Numbers, sum_by
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import ranges
from thalweg.operators.hopping_grid import FOREVER, NEVER, Grid, GridOperator, Release
from thalweg.operators.hopping_rows import restore_release, slice_of_release
from thalweg.operators.key_book import KeyBook
from thalweg.operators.partials import Partials
from thalweg.operators.window_slices import WindowSlices
from thalweg.plan.nodes import CombinePanes, WindowAggregate
from thalweg.windows import HoppingWindow

__all__ = ["HoppingAggregateKernel"]

_SLICES = 64
"""Slices in the length of a window: what a batch touches is written again by the slice, so slices
must be a small part of it."""

_DENSE_CELLS = 4_000_000
"""Up to this many (group, window) cells at a time are summed in a dense matrix."""

_FEW = 64
"""So few rows are not summed before they go to the state, which sums now and then itself."""


class HoppingAggregateKernel(GridOperator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).hopping(10, 5).aggregate(n=tw.count(), v=tw.sum_("v"))
    >>> tw.table(query, {"s": [tw.point({"v": 1}, 2), tw.point({"v": 3}, 7)]})
    [(-5, 5, {'n': 1, 'v': 1}), (0, 10, {'n': 2, 'v': 4}), (5, 15, {'n': 1, 'v': 3})]
    """

    def __init__(self, node: WindowAggregate | CombinePanes, consistency: Consistency) -> None:
        assert isinstance(node.window, HoppingWindow)
        self.schema = node.schema
        self._keys = node.keys
        rows = node.rows if isinstance(node, CombinePanes) else node.input.schema
        self._arguments = ArgumentProjection(node.aggregates, node.keys, rows)
        self._partials = Partials(self._arguments, node.schema)
        self._width = len(self._partials.names)
        self._grid = Grid(node.window)
        self._release = Release(self._grid, consistency)
        key_fields = [node.schema.field(name) for name in node.keys]
        partials = [pa.field(name, pa.int64()) for name in self._partials.names]
        self._cell_schema = pa.schema(
            [*key_fields, pa.field(internal("window"), pa.int64()), *partials]
        )
        self._book = KeyBook(key_fields)
        self._running = self._open = self._none = Cells.none(self._width)
        self._entries = WindowSlices(
            self._width, width=max(1, node.window.size // node.window.hop // _SLICES)
        )
        self._written: dict[str, tuple[Cells, Rows]] = {}

    def process(self, port: int, batch: Batch) -> Batch:
        release = self._release
        gone = came = answered = self._none
        if len(batch):
            gone, came = self._apply(batch)
        closed, released = release.advance(batch.progress.cti)
        if released > release.released:
            answered = self._answer(release.released, released, closed)
        if closed > release.closed and len(self._open):
            self._open = self._open.where(self._open.window > closed)
        release.closed, release.released = closed, released
        progress = Progress(release.promise())
        changes = self._changes(gone, came, answered, progress)
        if release.cti == INFINITY:
            self._forget_all()
        elif self._book.is_untidy:
            self._tidy()
        return changes

    def needs(self, time: int) -> tuple[int, ...]:
        return (self._release.needs(time),)

    # ----------------------------------------------------------------------------------------------
    # taking rows in

    def _apply(self, batch: Batch) -> tuple[Cells, Cells]:
        """Take rows in. The answers that are out and no longer hold, and what holds instead."""
        delta = Delta.of_batch(batch)
        self._release.see(delta.start, delta.end)
        first, beyond = self._grid.first(delta.start), self._grid.beyond(delta.end)
        inside = first < beyond  # windows may have gaps between them
        if not inside.all():
            delta, first, beyond = delta.filter(inside), first[inside], beyond[inside]
        keys, partials = self._contributions(delta)
        group = self._book.numbers(keys, len(first))
        if len(first) > _FEW:
            return self._enter(*_gather(group, first, beyond, partials))
        return self._enter(Cells(group, first, np.array(partials, np.int64)), beyond)

    def _contributions(self, delta: Delta) -> tuple[list[pa.Array], list[Numbers]]:
        """The keys and the partial sums of each row."""
        rows = self._arguments.project(delta.payload, delta.start)
        return [rows.column(name) for name in self._keys], self._partials.of_rows(
            rows, delta.start, delta.weight
        )

    def _enter(self, cells: Cells, beyond: Codes) -> tuple[Cells, Cells]:
        """Note where cells enter and leave; what has entered already goes to the running totals and
        the open windows."""
        out = self._release.released
        gone = came = self._none
        late = cells.window <= out
        entering = cells
        if late.any():
            gone, came = self._revise(cells.where(late), beyond[late])
            begun = late & (beyond > out)
            self._running = Cells.concat([self._running, cells.where(begun)], self._width)
            if len(self._running) > 2 * len(self._book) + _FEW:
                self._running = self._running.at_window(0).summed()
            entering = cells.where(~late)
        leaves = (beyond > out) & (beyond != FOREVER)
        leaving = cells.at_window(beyond).where(leaves).negated()
        self._entries.add(Cells.concat([entering, leaving], self._width))
        return gone, came

    def _revise(self, cells: Cells, beyond: Codes) -> tuple[Cells, Cells]:
        """Add late cells to the windows that have answered but are not closed: what they were, and
        what they are now."""
        low = np.maximum(cells.window, self._release.closed + 1)
        length = np.maximum(np.minimum(beyond, self._release.released + 1) - low, 0)
        which, window = ranges(low, length)
        if not len(which):
            return self._none, self._none
        late = Cells(cells.group[which], window, cells.sums[:, which]).summed()
        before, at = self._find_open(late)
        after = before + late.sums
        sums = self._open.sums.copy()
        known = at >= 0
        sums[:, at[known]] = after[:, known]
        new = np.flatnonzero(~known)
        opened = Cells(late.group[new], late.window[new], after[:, new])
        self._open = Cells.concat(
            [Cells(self._open.group, self._open.window, sums), opened], self._width
        )
        if not after[0].all():
            self._open = self._open.where(self._open.sums[0] != 0)
        was, now = before[0] > 0, after[0] > 0
        changed = (was != now) | self._partials.differ(before, after)
        return Cells(late.group, late.window, before).where(changed & was), Cells(
            late.group, late.window, after
        ).where(changed & now)

    def _find_open(self, late: Cells) -> tuple[Numbers, Codes]:
        """The sums of open windows before some late cells, zero where there was none; and where
        each stands in `_open`."""
        before, at = np.zeros_like(late.sums), np.full(len(late), -1, np.int64)
        low, high = int(late.window.min()), int(late.window.max())
        near = np.flatnonzero((self._open.window >= low) & (self._open.window <= high))
        if len(near):
            span = high - low + 1
            own = self._open.group[near] * span + (self._open.window[near] - low)
            theirs = late.group * span + (late.window - low)
            size = len(self._book) * span
            if size > _DENSE_CELLS:
                both, size = encode([np.concatenate([own, theirs])], len(own) + len(theirs))
                own, theirs = both[: len(own)], both[len(own) :]
            place = np.full(size, -1, np.int64)
            place[own] = near
            at = place[theirs]
            known = np.flatnonzero(at >= 0)
            before[:, known] = self._open.sums[:, at[known]]
        return before, at

    # ---------------------------------------------------------------------------------------------------
    # answering

    def _answer(self, out: int, released: int, closed: int) -> Cells:
        """The windows after `out` up to `released`: running totals moved on, entry by entry."""
        entries = self._entries.take_until(released)
        cells = Cells.concat([self._running.at_window(out + 1), entries], self._width)
        if not len(cells):
            return cells
        low = int(cells.window.min())
        span = released - low + 1
        numbers = None
        group, groups = cells.group, len(self._book)
        if groups * span > max(_FEW * _FEW, 4 * len(cells)):  # most of the book has no entry
            group, groups = encode([group], len(group))
            numbers = np.empty(groups, np.int64)
            numbers[group] = cells.group
        totals_of = (
            _dense_totals if groups * span <= max(_DENSE_CELLS, 4 * len(cells)) else _sparse_totals
        )
        owner, at, totals, last = totals_of(group, cells.window - low, cells.sums, groups, span)
        alive = np.flatnonzero(last[0] > 0)
        self._running = Cells(
            alive if numbers is None else numbers[alive],
            np.full(len(alive), released),
            last[:, alive],
        )
        answered = Cells(owner if numbers is None else numbers[owner], at + low, totals)
        if closed < released:
            self._open = Cells.concat(
                [self._open, answered.where(answered.window > closed)], self._width
            )
        return answered

    def _changes(self, gone: Cells, came: Cells, answered: Cells, progress: Progress) -> Batch:
        """Answers as elements: those that no longer hold are taken back whole."""
        cells = Cells.concat([gone, came, answered], self._width)
        if not len(cells):
            return Batch.empty(self.schema, progress)
        columns = [*self._book.columns(cells.group), *self._partials.results(cells.sums)]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        start = self._grid.start(cells.window)
        end = start + self._grid.size
        if not len(gone):
            return Batch(payload, start, end, progress=progress)
        new_end, adjusts = end.copy(), np.zeros(len(cells), np.bool_)
        new_end[: len(gone)], adjusts[: len(gone)] = start[: len(gone)], True
        return Batch(payload, start, end, new_end, adjusts, progress)

    # -------------------------------------------------------------------------------------------------------
    # state

    def _forget_all(self) -> None:
        self._running = self._open = self._none
        self._entries.clear()
        self._book.clear()
        self._written = {}

    def groups(self) -> list[pa.Array]:
        return self._book.columns(np.arange(len(self._book)))

    def held_groups(self) -> Codes:
        return np.unique(np.concatenate([cells.group for cells in self._tables().values()]))

    def close_groups(self, closed: Codes) -> None:
        self._open = self._open.where(self._open.window > closed[self._open.group])
        ended, some = closed == FOREVER, closed != NEVER
        following = self._release.released + 1
        leaving = [self._running]
        for number, cells in list(self._entries.slices().items()):
            # What leaves at the next window may leave the running totals at once.
            next_ = some[cells.group] & (cells.window == following)
            gone = next_ | ended[cells.group]
            if gone.any():
                leaving.append(cells.where(next_))
                self._entries.put(number, cells.where(~gone))
        running = Cells.concat(leaving, self._width)
        if len(running):
            running = running.at_window(0).summed()
            over = ended[running.group] | ~running.sums.any(axis=0)
            self._running = running.where(~over)
        if self._book.is_untidy:
            self._tidy()

    def _tables(self) -> dict[str, Cells]:
        return {
            "running": self._running,
            "open": self._open,
            **{f"entries/{number}": cells for number, cells in self._entries.slices().items()},
        }

    def _put(self, tables: Mapping[str, Cells]) -> None:
        self._running, self._open = tables["running"], tables["open"]
        for name, cells in tables.items():
            if name.startswith("entries/"):
                self._entries.put(int(name.partition("/")[2]), cells)

    def _tidy(self) -> None:
        """Numbers of groups that nothing refers to are given to others."""
        tables = self._tables()
        moved = self._book.keep(
            np.unique(np.concatenate([cells.group for cells in tables.values()]))
        )
        fresh = {
            name: Cells(moved[cells.group], cells.window, cells.sums)
            for name, cells in tables.items()
        }
        self._written = {
            name: (fresh[name], rows)
            for name, (cells, rows) in self._written.items()
            if tables.get(name) is cells
        }
        self._put(fresh)

    def snapshot(self) -> Slices:
        """A table that has not changed is the same object as last time."""
        written: dict[str, tuple[Cells, Rows]] = {}
        for name, cells in self._tables().items():
            known = self._written.get(name)
            written[name] = (
                known if known is not None and known[0] is cells else (cells, self._rows(cells))
            )
        self._written = written
        return {
            "release": slice_of_release(self._release),
            **{name: rows for name, (_, rows) in written.items()},
        }

    def _rows(self, cells: Cells) -> Rows:
        columns = [
            *self._book.columns(cells.group),
            pa.array(cells.window),
            *map(pa.array, cells.sums),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._cell_schema)

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._forget_all()
        for name, rows in slices.items():
            if name != "release":
                width = len(self._keys)
                window, *sums = (column.to_numpy() for column in rows.columns[width:])
                cells = Cells(
                    self._book.numbers(rows.columns[:width], rows.num_rows),
                    window,
                    np.array(sums, np.int64),
                )
                self._written[name] = cells, rows
        self._put({name: cells for name, (cells, _) in self._written.items()})
        restore_release(self._release, slices["release"])

    def state_size(self) -> StateSize:
        tables = (self._running, self._open)
        own = StateSize(
            sum(map(len, tables)), sum(table.nbytes for table in tables) + self._book.nbytes
        )
        return own + self._entries.size()


def _gather(
    group: Codes, first: Codes, beyond: Codes, partials: list[Numbers]
) -> tuple[Cells, Codes]:
    """Rows of equal group and windows become one cell; and the window where each leaves."""
    length = beyond - first
    even = bool((length == length[0]).all())
    cell, count = encode([group, first, *([] if even else [beyond])], len(first))
    someone, totals = sum_by(cell, count, partials)
    return Cells(group[someone], first[someone], totals), beyond[someone]


Totals = tuple[Codes, Codes, Numbers, Numbers]
"""Group and window of each non-empty cell, its totals; and the totals of each group at the last
window."""


def _dense_totals(group: Codes, window: Codes, sums: Numbers, groups: int, span: int) -> Totals:
    """Running totals of every group over every window, in a matrix."""
    place = group * span + window
    matrix = np.zeros((len(sums), groups * span), np.int64)
    for row, column in zip(matrix, sums, strict=True):
        if column.any():
            np.add.at(row, place, column)
    running = (
        matrix
        if span == 1
        else matrix.reshape(len(sums), groups, span).cumsum(axis=2).reshape(len(sums), -1)
    )
    cells = np.flatnonzero(running[0] > 0)
    owner, at = np.divmod(cells, span)
    return owner, at, running[:, cells], running[:, span - 1 :: span]


def _sparse_totals(group: Codes, window: Codes, sums: Numbers, groups: int, span: int) -> Totals:
    """The same by sorting, for many groups or long silences: between entries totals stay, and are
    repeated."""
    order = np.lexsort((window, group))
    owner, at = group[order], window[order]
    new_group = np.ones(len(order), np.bool_)
    new_group[1:] = owner[1:] != owner[:-1]
    base_at = np.maximum.accumulate(np.where(new_group, np.arange(len(order)), 0))
    entering = sums[:, order]
    running = np.cumsum(entering, axis=1)  # wrap-around cancels out in the difference
    totals = running - (running - entering)[:, base_at]
    until = np.full(len(order), span)
    until[:-1] = np.where(new_group[1:], span, at[1:])
    length = np.where(totals[0] > 0, until - at, 0)
    which, window_at = ranges(at, length)
    last = np.append(np.flatnonzero(new_group)[1:] - 1, len(order) - 1)
    ends = np.zeros((len(sums), groups), np.int64)
    ends[:, owner[last]] = totals[:, last]
    return owner[which], window_at, totals[:, which], ends

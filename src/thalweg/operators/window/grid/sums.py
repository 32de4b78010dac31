"""Hopping and tumbling windows whose aggregates add up: counts, integer sums and averages, without
copying any row.

An event [s, e) is in the windows first(s) .. beyond(e) - 1 (see `grid`), so it changes the
running total of its group at just two window indices: it enters at the one and leaves at the other.
Per batch these entries are summed by (group, index); the total over all entries up to k is the
value of window k. Cost per event does not depend on size / hop, whatever lifetimes the events have.

    running    per group, the total at the last window that has answered; and the sums of late
               events to be added to it
    entries    the sums that enter or leave at later windows, in slices of neighbouring windows
    open       per group and window that has answered but is not closed, its totals, in slices too:
               late events revise them

Null keys are a group of their own. A late event is added to the windows that have answered, which
answer again if their result changed. State: the three tables; closing a window drops its slice.
The promise is the start of the earliest window that is not closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows, encode, used_codes
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import least
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import ranges
from thalweg.operators.window.grid.cells import FEW, Cells, Numbers, sum_alike
from thalweg.operators.window.grid.grid import FOREVER, NEVER
from thalweg.operators.window.grid.loop import Arrivals, GridOperator
from thalweg.operators.window.partials import Partials
from thalweg.plan.nodes import CombinePanes, WindowAggregate
from thalweg.state.key_index import KeyIndex
from thalweg.state.placed import PlacedSlices
from thalweg.windows import HoppingWindow

__all__ = ["HoppingAggregateKernel"]

_DENSE_CELLS = 4_000_000
"""Up to this many (group, window) cells at a time are summed in a dense matrix."""

_LATE = 16
"""The sums of late events are merged into the running totals when they are more than one in this
many of them."""

_FEW = 64
"""Up to this many rows are not summed before they are held; the state sums its items now and
then."""

Totals = tuple[Codes, Codes, Numbers]
"""Group and window of each non-empty cell, and its totals."""


@dataclass(slots=True)
class _Changes:
    """Answers that do not hold any more, and answers that hold from now on."""

    removed: Cells
    added: Cells


class HoppingAggregateKernel(GridOperator[Cells, _Changes]):
    """
    >>> import thalweg as tw
    >>> windows = tw.source("s", {"v": "int64"}).hopping(10, 5)
    >>> query = windows.aggregate(n=tw.count(), v=tw.sum_("v"))
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
        self._place_on(node.window, consistency)
        key_fields = [node.schema.field(name) for name in node.keys]
        partials = [pa.field(name, pa.int64()) for name in self._partials.names]
        self._cell_schema = pa.schema(
            [*key_fields, pa.field(internal("window"), pa.int64()), *partials]
        )
        self._key_index = KeyIndex(key_fields)
        self._running = self._late = self._none = Cells.none(self._width)
        self._entries, self._open = (PlacedSlices(self._concat, Cells.added_up) for _ in range(2))
        self._written: dict[str, tuple[Cells, Rows]] = {}

    def _concat(self, parts: Sequence[Cells]) -> Cells:
        return Cells.concat(parts, self._width)

    # --------------------------------------------------------------------------------------------
    # taking rows in

    def read(self, delta: Delta, first: Codes, beyond: Codes) -> Arrivals[Cells] | None:
        if self._grid.hop > self._grid.size:  # windows have gaps between them
            inside = first < beyond
            delta, first, beyond = delta.filter(inside), first[inside], beyond[inside]
            if not len(first):
                return None
        keys, partials = self._contributions(delta)
        group = self._key_index.numbers(keys, len(first))
        if len(first) > _FEW:
            cells, beyond = _gather(group, first, beyond, partials)
        else:
            cells = Cells(np.array([group, first, *partials], np.int64))
        return Arrivals(cells, cells.group, cells.window, beyond)

    def _contributions(self, delta: Delta) -> tuple[list[pa.Array], list[Numbers]]:
        """The keys and the partial sums of each row."""
        arguments = self._arguments.arguments(delta.payload, delta.start)
        partials = self._partials.of_rows(arguments.__getitem__, delta.start, delta.weight)
        return [delta.payload.column(name) for name in self._keys], partials

    def hold(self, arrivals: Arrivals[Cells]) -> None:
        """Hold where cells enter and leave; cells that have entered before the released window are
        added to the running totals."""
        out, cells, beyond = self._release.released, arrivals.rows, arrivals.beyond
        entries = self._concat([cells, cells.leaving_at(beyond)])
        if arrivals.late:
            entered, leaves = cells.window <= out, beyond > out
            self._late = self._concat([self._late, cells.where(entered & leaves)])
            if len(self._late) > len(self._running) // _LATE + _FEW:
                self._running, self._late = self._totals(), self._none
            entries = entries.where(np.concatenate([~entered, leaves]))
        if self._release.endless:
            entries = entries.where(entries.window != FOREVER)
        self._entries.add(entries)

    def revise(self, arrivals: Arrivals[Cells], low: Codes, length: Codes) -> _Changes:
        """Add cells to the windows that have answered but are not closed."""
        self.hold(arrivals)
        cells = arrivals.rows
        which, window = ranges(low, length)
        late = cells.take(which).at_window(window).summed()
        before = np.zeros_like(late.sums)
        found = self._open.find(late.group, late.window)
        if found:
            owner = np.concatenate([owner for _, _, owner in found])
            sums = np.concatenate([cells.sums.take(at, axis=1) for cells, at, _ in found], axis=1)
            for total, more in zip(before, sums, strict=True):
                np.add.at(total, owner, more)
        after = before + late.sums
        self._open.add(late)
        was, now = before[0] > 0, after[0] > 0
        changed = (was != now) | self._partials.differ(before, after)
        return _Changes(
            Cells.of(late.group, late.window, before).where(changed & was),
            Cells.of(late.group, late.window, after).where(changed & now),
        )

    def _totals(self) -> Cells:
        """The running totals, with the late events."""
        return self._concat([self._running, self._late]).at_window(0).summed()

    # --------------------------------------------------------------------------------------------
    # answering

    def answer(self, low: int, high: int) -> _Changes:
        """The running totals advanced, entry by entry."""
        begun = len(self._running) + len(self._late)
        cells = self._concat([self._running, self._late, *self._entries.take_until(high)])
        self._late = self._none
        if not len(cells):
            return _Changes(self._none, self._none)
        if not begun:
            low = least(cells.window)
        totals = self._totals_from(cells, begun, low, high)
        self._running = totals if low == high else totals.where(totals.window == high)
        closed = self._release.closed
        if closed < high:
            self._open.add(totals if closed < low else totals.where(totals.window > closed))
        return _Changes(self._none, self._answered(totals))

    def _are_held(self, sums: Numbers) -> Bools:
        """Where totals are of some rows. No row is taken back before it comes, so that the count
        says it."""
        held: Bools = sums[0] != 0
        return held

    def _answered(self, totals: Cells) -> Cells:
        """The totals of windows that have rows, of those that are held."""
        return totals

    def _totals_from(self, cells: Cells, begun: int, low: int, high: int) -> Cells:
        """The totals of every group with rows at each of the windows low .. high. The first `begun`
        cells have entered before `low`."""
        if low == high and len(cells) * len(self._key_index) <= FEW:
            of_group = cells.group[:, None] == np.arange(len(self._key_index))
            totals = cells.sums @ of_group
            held = self._are_held(totals).nonzero()[0]
            return Cells.of(held, high, totals.take(held, axis=1))
        if low == high and len(cells) <= FEW:
            group = cells.group
            representative, totals = sum_alike([group], len(group), cells.sums)
            alone = Cells.of(group.take(representative), high, totals)
            return alone.where(self._are_held(totals))
        at = cells.window - low
        at[:begun] = 0
        group, groups, span = cells.group, len(self._key_index), high - low + 1
        numbers = None
        if groups * span > max(_FEW * _FEW, 4 * len(cells)):  # most groups have no entry
            group, groups = encode([group], len(group))
            numbers = np.empty(groups, np.int64)
            numbers[group] = cells.group
        if groups * span <= max(_DENSE_CELLS, 4 * len(cells)):
            owner, at, totals = self._dense_totals(group, at, cells.sums, groups, span)
        else:
            owner, at, totals = self._sparse_totals(group, at, cells.sums, span)
        return Cells.of(owner if numbers is None else numbers[owner], at + low, totals)

    def _dense_totals(
        self, group: Codes, window: Codes, sums: Numbers, groups: int, span: int
    ) -> Totals:
        """Running totals of every group over every window, in a matrix."""
        place = group * span + window
        matrix = np.zeros((len(sums), groups * span), np.int64)
        for row, column in zip(matrix, sums, strict=True):
            if np.count_nonzero(column):
                np.add.at(row, place, column)
        running = matrix
        if span > 1:
            running = matrix.reshape(len(sums), groups, span).cumsum(axis=2).reshape(len(sums), -1)
        cells = self._are_held(running).nonzero()[0]
        owner, at = np.divmod(cells, span)
        return owner, at, running.take(cells, axis=1)

    def _sparse_totals(self, group: Codes, window: Codes, sums: Numbers, span: int) -> Totals:
        """The same by sorting, for many groups or long silences: between entries totals stay, and
        are repeated."""
        order = sort_pairs(group, window)
        owner, at = group[order], window[order]
        new_group = np.ones(len(order), np.bool_)
        new_group[1:] = owner[1:] != owner[:-1]
        base_at = np.maximum.accumulate(np.where(new_group, np.arange(len(order)), 0))
        entering = sums[:, order]
        running = np.cumsum(entering, axis=1)  # wrap-around cancels out in the difference
        totals = running - (running - entering)[:, base_at]
        until = np.full(len(order), span)
        until[:-1] = np.where(new_group[1:], span, at[1:])
        length = np.where(self._are_held(totals), until - at, 0)
        which, window_at = ranges(at, length)
        return owner[which], window_at, totals[:, which]

    def to_batch(self, changes: Sequence[_Changes], progress: Progress) -> Batch:
        """Answers as elements: answers that do not hold any more are removed."""
        removed = sum(len(change.removed) for change in changes)
        parts = [change.removed for change in changes] + [change.added for change in changes]
        cells = self._concat(parts)
        if not len(cells):
            return Batch.empty(self.schema, progress)
        columns = [*self._key_index.columns(cells.group), *self._partials.results(cells.sums)]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        start = self._grid.start(cells.window)
        end = start + self._grid.size
        if not removed:
            return Batch(payload, start, end, progress=progress)
        new_end, adjusts = end.copy(), np.zeros(len(cells), np.bool_)
        new_end[:removed], adjusts[:removed] = start[:removed], True
        return Batch(payload, start, end, new_end, adjusts, progress)

    # --------------------------------------------------------------------------------------------
    # state

    @property
    def index(self) -> KeyIndex:
        return self._key_index

    def close(self, expired: int) -> None:
        self._open.drop_until(self._release.closed)

    def clear(self) -> None:
        self._running = self._late = self._none
        self._entries.clear()
        self._open.clear()
        self._key_index.clear()
        self._written = {}

    def held_groups(self) -> Codes:
        tables = [self._running.group, self._late.group]
        return used_codes([*tables, self._open.groups(), self._entries.groups()])

    def pass_over(self, last: int) -> None:
        if last > self._release.released:
            entered = [self._running, self._late, *self._entries.take_until(last)]
            totals = self._concat(entered).at_window(last).summed()
            self._running, self._late = totals.where(self._are_held(totals.sums)), self._none

    def drop_closed(self, closed: Codes) -> None:
        self._open.drop(lambda cells: cells.window <= closed[cells.group])
        ended, some = closed == FOREVER, closed != NEVER
        following = self._release.released + 1
        leaving = [self._running, self._late]

        def leaves(cells: Cells) -> Bools:
            # What leaves at the next window may leave the running totals at once.
            next_ = some[cells.group] & (cells.window == following)
            leaving.append(cells.take(np.flatnonzero(next_)))
            drops: Bools = next_ | ended[cells.group]
            return drops

        self._entries.drop(leaves)
        running = self._concat(leaving)
        if len(running):
            running = running.at_window(0).summed()
            over = ended[running.group] | ~running.sums.any(axis=0)
            self._running, self._late = running.where(~over), self._none

    def renumber(self, moved: Codes) -> None:
        self._entries.renumber(moved)
        self._open.renumber(moved)
        for name in ("running", "late"):
            before = self._whole(name)
            now = before.renumbered(moved)
            written = self._written.get(name)
            if written is not None and written[0] is before:  # keys are written, which stay
                self._written[name] = now, written[1]
            self._set_whole(name, now)

    def _whole(self, name: str) -> Cells:
        return self._running if name == "running" else self._late

    def _set_whole(self, name: str, cells: Cells) -> None:
        if name == "running":
            self._running = cells
        else:
            self._late = cells

    def save(self) -> Slices:
        """A table or a slice that has not changed is the same object as last time."""
        for name in ("running", "late"):
            cells, written = self._whole(name), self._written.get(name)
            if written is None or written[0] is not cells:
                self._written[name] = cells, self._rows(cells)
        return {
            **{name: rows for name, (_, rows) in self._written.items()},
            **self._entries.snapshot("entries", self._rows),
            **self._open.snapshot("open", self._rows),
        }

    def _rows(self, cells: Cells) -> Rows:
        columns = [
            *self._key_index.columns(cells.group),
            pa.array(cells.window),
            *map(pa.array, cells.sums),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._cell_schema)

    def _cells(self, rows: Rows) -> Cells:
        """The inverse of `_rows`."""
        width = len(self._keys)
        group = self._key_index.numbers(rows.columns[:width], rows.num_rows)
        window, *sums = (column.to_numpy() for column in rows.columns[width:])
        return Cells(np.array([group, window, *sums], np.int64))

    def load(self, slices: Mapping[str, Rows]) -> None:
        self.clear()
        for name in ("running", "late"):
            self._set_whole(name, self._cells(slices[name]))
            self._written[name] = self._whole(name), slices[name]
        self._entries.restore("entries", slices, self._cells)
        self._open.restore("open", slices, self._cells)

    def state_size(self) -> StateSize:
        tables = (self._running, self._late)
        own = StateSize(
            sum(map(len, tables)), sum(table.nbytes for table in tables) + self._key_index.nbytes
        )
        return own + self._entries.size() + self._open.size()


def _gather(
    group: Codes, first: Codes, beyond: Codes, partials: list[Numbers]
) -> tuple[Cells, Codes]:
    """Merge rows of equal group and windows into cells; also the window where each cell leaves."""
    length = beyond - first
    even = bool((length == length[0]).all())
    alike = [group, first, *([] if even else [beyond])]
    representative, totals = sum_alike(alike, len(first), partials)
    cells = Cells.of(group[representative], first[representative], totals)
    return cells, beyond[representative]

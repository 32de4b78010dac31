"""Hopping and tumbling windows whose aggregates add up: counts, integer sums and averages, without copying any row.

An event [s, e) is in the windows first(s) .. beyond(e) - 1 (see `hopping_grid`), so it changes the running total of its
group at just two window indices: it enters at the one and leaves at the other. Per batch these entries are summed by
(group, index); the total over all entries up to k is the value of window k. Cost per event does not depend on
size / hop, whatever lifetimes the events have.

    running    per group, the total at the last window that has answered
    entries    what enters or leaves at later windows, in slices of neighbouring windows
    open       per group and window that has answered but is not closed, its totals: what a late event revises

Null keys are a group of their own. A late event adds to the windows that are out, which are answered again if their
result changed. State: the three tables; closing a window drops its slice. The promise is the start of the earliest
window that is not closed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows, concat_rows, empty_rows, encode
from thalweg.model.time import INFINITY
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import ranges
from thalweg.operators.hopping_grid import FOREVER, Grid, Release
from thalweg.operators.hopping_rows import restore_release, slice_of_release
from thalweg.operators.partials import Partials
from thalweg.operators.window_slices import WindowSlices
from thalweg.plan.nodes import CombinePanes, WindowAggregate
from thalweg.windows import HoppingWindow

__all__ = ["HoppingAggregateKernel", "sum_alike"]

Numbers = npt.NDArray[np.int64]

_SLICES = 64
"""Slices in the length of a window: what a batch touches is written again by the slice, so slices must be a small part of it."""

_DENSE_CELLS = 4_000_000
"""Up to this many (group, window) cells at a time are summed in a dense matrix."""


class HoppingAggregateKernel(Operator):
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
        self._grid = Grid(node.window)
        self._release = Release(self._grid, consistency)
        key_fields = [node.schema.field(name) for name in node.keys]
        partials = [pa.field(name, pa.int64()) for name in self._partials.names]
        self._cell_schema = pa.schema([*key_fields, pa.field("_k", pa.int64()), *partials])
        self._running = empty_rows(self._cell_schema)
        self._open = empty_rows(self._cell_schema)
        self._entries = WindowSlices(self._cell_schema, width=max(1, node.window.size // node.window.hop // _SLICES), merge=self._sum)

    def process(self, port: int, batch: Batch) -> Batch:
        release = self._release
        changes = []
        if len(batch):
            changes.append(self._apply(batch))
        closed, released = release.advance(batch.progress.cti)
        if released > release.released:
            changes.append(self._answer(release.released, released, closed))
        release.closed, release.released = closed, released
        if self._open.num_rows:
            self._open = _where(self._open, _column(self._open, "_k") > closed)
        if release.cti == INFINITY:
            self._running = empty_rows(self._cell_schema)
            self._entries.clear()
        return Delta.concat(changes, self.schema).to_batch(Progress(release.promise()))

    def needs(self, time: int) -> tuple[int, ...]:
        return (self._release.needs(time),)

    # ---------------------------------------------------------------------------------------------- taking rows in

    def _apply(self, batch: Batch) -> Delta:
        delta = Delta.of_batch(batch)
        self._release.see(delta.start, delta.end)
        first, beyond = self._grid.first(delta.start), self._grid.beyond(delta.end)
        inside = first < beyond  # windows may have gaps between them
        if not inside.all():
            delta, first, beyond = delta.filter(inside), first[inside], beyond[inside]
        keys, partials = self._contributions(delta)
        cells, first, beyond = sum_alike(keys, first, beyond, partials, self._cell_schema)
        return self._enter(cells, first, beyond)

    def _contributions(self, delta: Delta) -> tuple[list[pa.Array], list[Numbers]]:
        """The keys and the partial sums of each row."""
        rows = self._arguments.project(delta.payload, delta.start)
        return [rows.column(name) for name in self._keys], self._partials.of_rows(rows, delta.weight)

    def _enter(self, cells: Rows, first: Codes, beyond: Codes) -> Delta:
        """Note where cells enter and leave; what has entered already goes to the running totals and the open windows."""
        out = self._release.released
        late = first <= out
        changes = Delta.empty(self.schema)
        if late.any():
            changes = self._revise(_where(cells, late), first[late], beyond[late])
            begun = late & (beyond > out)
            if begun.any():
                self._running = self._sum(concat_rows([self._running, _with_k(_where(cells, begun), out)], self._cell_schema))
            self._entries.add(_where(cells, ~late))
        else:
            self._entries.add(cells)
        leaves = (beyond > out) & (beyond != FOREVER)
        self._entries.add(self._negated(_with_k(_where(cells, leaves), beyond[leaves])))
        return changes

    def _revise(self, cells: Rows, first: Codes, beyond: Codes) -> Delta:
        """Add late cells to the windows that have answered but are not closed, and answer those again."""
        low = np.maximum(first, self._release.closed + 1)
        length = np.maximum(np.minimum(beyond, self._release.released + 1) - low, 0)
        which, window = ranges(low, length)
        if not len(which):
            return Delta.empty(self.schema)
        late = _with_k(cells.take(pa.array(which)), window)
        group, count = encode([concat_column(self._open, late, name) for name in (*self._keys, "_k")], self._open.num_rows + late.num_rows)
        touched = np.zeros(count, np.bool_)
        touched[group[self._open.num_rows :]] = True
        hit = touched[group[: self._open.num_rows]]
        before = _where(self._open, hit)
        after = self._sum(concat_rows([before, late], self._cell_schema))
        self._open = concat_rows([_where(self._open, ~hit), after], self._cell_schema)
        return Delta.concat([self._results(after), self._results(before).negate()], self.schema)

    # --------------------------------------------------------------------------------------------------- answering

    def _answer(self, out: int, released: int, closed: int) -> Delta:
        """The windows after `out` up to `released`: running totals moved on, entry by entry."""
        entries = self._entries.take_until(released)
        cells = concat_rows([_with_k(self._running, out + 1), entries], self._cell_schema)
        if not cells.num_rows:
            return Delta.empty(self.schema)
        group, groups = encode([cells.column(name) for name in self._keys], cells.num_rows)
        window = _column(cells, "_k")
        someone = np.empty(groups, np.int64)
        someone[group] = np.arange(cells.num_rows)
        low = int(window.min())
        values = [_column(cells, name) for name in self._partials.names]
        span = released - low + 1
        if groups * span <= max(_DENSE_CELLS, 4 * cells.num_rows):
            owner, at, totals, last = _dense_totals(group, window - low, values, groups, span)
        else:
            owner, at, totals, last = _sparse_totals(group, window - low, values, groups, span)
        self._running = self._cells(cells, someone, np.arange(groups), np.full(groups, released), last)
        self._running = _where(self._running, last[0] > 0)
        answered = self._cells(cells, someone, owner, at + low, totals)
        if closed < released:
            self._open = concat_rows([self._open, _where(answered, at + low > closed)], self._cell_schema)
        return self._results(answered)

    def _cells(self, cells: Rows, someone: Codes, group: Codes, window: Codes, partials: list[Numbers]) -> Rows:
        keys = cells.select(list(self._keys)).take(pa.array(someone[group])).columns if self._keys else []
        return pa.RecordBatch.from_arrays([*keys, pa.array(window), *map(pa.array, partials)], schema=self._cell_schema)

    def _results(self, cells: Rows) -> Delta:
        alive = _column(cells, "n") > 0
        cells = _where(cells, alive)
        columns = [cells.column(name) for name in self._keys]
        columns += self._partials.results([_column(cells, name) for name in self._partials.names])
        start = self._grid.start(_column(cells, "_k"))
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Delta(payload, start, start + self._grid.size, np.ones(len(start), np.int64))

    def _sum(self, cells: Rows) -> Rows:
        """Cells of equal group and window become one."""
        if cells.num_rows < 2:
            return cells
        window, keys = _column(cells, "_k"), [cells.column(name) for name in self._keys]
        partials = [_column(cells, name) for name in self._partials.names]
        return sum_alike(keys, window, window, partials, self._cell_schema)[0]

    def _negated(self, cells: Rows) -> Rows:
        width = len(self._keys) + 1
        negative = [pa.array(-_column(cells, name)) for name in self._partials.names]
        return pa.RecordBatch.from_arrays([*cells.columns[:width], *negative], schema=self._cell_schema)

    # ------------------------------------------------------------------------------------------------------- state

    def snapshot(self) -> Slices:
        return {
            "running": self._running,
            "open": self._open,
            "release": slice_of_release(self._release),
            **{f"entries/{number}": cells for number, cells in self._entries.slices().items()},
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._running, self._open = slices["running"], slices["open"]
        self._entries.clear()
        for name, cells in slices.items():
            if name.startswith("entries/"):
                self._entries.put(int(name.partition("/")[2]), cells)
        restore_release(self._release, slices["release"])

    def state_size(self) -> StateSize:
        tables = (self._running, self._open)
        own = StateSize(sum(t.num_rows for t in tables), sum(t.nbytes for t in tables))
        return own + self._entries.size()


def sum_alike(keys: list[pa.Array], first: Codes, beyond: Codes, partials: list[Numbers], schema: pa.Schema) -> tuple[Rows, Codes, Codes]:
    """Rows of equal keys and windows become one cell (keys, `_k`, partial sums); and the windows of each cell."""
    length = beyond - first
    even = bool(len(length)) and bool((length == length[0]).all())
    cell, cells = encode([*keys, first, *([] if even else [beyond])], len(first))
    someone = np.empty(cells, np.int64)
    someone[cell] = np.arange(len(first))
    sums = []
    for column in partials:
        total = np.zeros(cells, np.int64)
        np.add.at(total, cell, column)
        sums.append(pa.array(total))
    at = pa.array(someone)
    first, beyond = first[someone], beyond[someone]
    return pa.RecordBatch.from_arrays([*(key.take(at) for key in keys), pa.array(first), *sums], schema=schema), first, beyond


def _column(cells: Rows, name: str) -> Numbers:
    numbers: Numbers = cells.column(name).to_numpy()
    return numbers


def _where(cells: Rows, mask: npt.NDArray[np.bool_]) -> Rows:
    return cells if mask.all() else cells.filter(pa.array(mask))


def _with_k(cells: Rows, window: int | Codes) -> Rows:
    values = np.full(cells.num_rows, window) if isinstance(window, int) else window
    columns = list(cells.columns)
    columns[cells.schema.names.index("_k")] = pa.array(values, pa.int64())
    return pa.RecordBatch.from_arrays(columns, schema=cells.schema)


def concat_column(one: Rows, two: Rows, name: str) -> pa.Array:
    return pa.concat_arrays([one.column(name), two.column(name)])


Totals = tuple[Codes, Codes, list[Numbers], list[Numbers]]
"""Group and window of each non-empty cell, its totals; and the totals of each group at the last window."""


def _dense_totals(group: Codes, window: Codes, values: list[Numbers], groups: int, span: int) -> Totals:
    """Running totals of every group over every window, in a matrix."""
    place = group * span + window
    matrices = []
    for column in values:
        matrix = np.zeros(groups * span, np.int64)
        np.add.at(matrix, place, column)
        matrices.append(np.cumsum(matrix.reshape(groups, span), axis=1))
    cells = np.flatnonzero(matrices[0].ravel() > 0)
    owner, at = np.divmod(cells, span)
    return owner, at, [matrix.ravel()[cells] for matrix in matrices], [matrix[:, -1] for matrix in matrices]


def _sparse_totals(group: Codes, window: Codes, values: list[Numbers], groups: int, span: int) -> Totals:
    """The same by sorting, for many groups or long silences: between entries totals stay, and are repeated."""
    order = np.lexsort((window, group))
    owner, at = group[order], window[order]
    new_group = np.ones(len(order), np.bool_)
    new_group[1:] = owner[1:] != owner[:-1]
    base_at = np.maximum.accumulate(np.where(new_group, np.arange(len(order)), 0))
    totals = []
    for column in values:
        running = np.cumsum(column[order])  # wrap-around cancels out in the difference
        totals.append(running - (running - column[order])[base_at])
    until = np.full(len(order), span)
    until[:-1] = np.where(new_group[1:], span, at[1:])
    length = np.where(totals[0] > 0, until - at, 0)
    which, window_at = ranges(at, length)
    last = np.append(np.flatnonzero(new_group)[1:] - 1, len(order) - 1)
    ends = [np.zeros(groups, np.int64) for _ in values]
    for column, end in zip(totals, ends, strict=True):
        end[owner[last]] = column[last]
    return owner[which], window_at, [column[which] for column in totals], ends

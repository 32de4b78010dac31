"""Mergeable modules over hopping windows of a stream that never takes a row back: windows put
together from panes.

Meaning, nulls, duplicates: see `window_apply`. Rows of a group that fall into the same windows are
alike to the module. Those of one batch become one cell, (group, first window, window after the
last, state); the answer of a window is the result of the merged states of its cells. A row is
looked at once, however many windows it is in, and is not kept.

State: cells of windows that are not closed; the answers of windows that have answered but are not
closed; both in arrangements by group, so that a late row costs the windows that it is in. Cells
that are alike are merged when they have doubled. The promise is the start of the earliest window
that is not closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.errors import ModuleError
from thalweg.expr.limits import TimeUp, Watch
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import Progress
from thalweg.model.rows import (
    Codes,
    Rows,
    distinct_codes,
    empty_rows,
    take_rows,
    used_codes,
    whole_column,
)
from thalweg.model.sorting import order_by_group
from thalweg.model.time import INFINITY, MIN_TIME, least
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import ranges
from thalweg.operators.window.grid.grid import FOREVER, NEVER
from thalweg.operators.window.grid.loop import Arrivals, GridOperator
from thalweg.operators.window.modules.module_windows import ModuleWindows
from thalweg.operators.window.modules.pane_states import PaneStates
from thalweg.operators.window.partitions import Partitions
from thalweg.plan.nodes import WindowApply
from thalweg.state import Arrangement, Hits, KeyIndex
from thalweg.udm.calls import values_of
from thalweg.udm.cells import Cells
from thalweg.windows import HoppingWindow

__all__ = ["PanedApplyKernel"]

_FEW = 1_024
"""Up to this many cells are held without looking for cells that are alike."""
_MANY = 2**16
"""From this many pairs of a cell and a window on, pairs are made window by window."""
_FORM = "form"
"""The slice that describes the columns of a state."""
_FILLED = internal("filled")


class PanedApplyKernel(GridOperator[Delta, Delta]):
    """
    >>> import thalweg as tw
    >>> events = tw.source("s", {"v": "double"}, insert_only=True)
    >>> query = events.hopping(10, 5).apply("average", "v")
    >>> tw.table(query, {"s": [tw.point({"v": 1.0}, 2), tw.point({"v": 3.0}, 7)]})
    [(-5, 5, {'average': 1.0}), (0, 10, {'average': 2.0}), (5, 15, {'average': 3.0})]
    """

    def __init__(self, node: WindowApply, consistency: Consistency) -> None:
        assert isinstance(node.window, HoppingWindow)
        self.schema = node.schema
        self._node = node
        self._module = ModuleWindows(node)
        self._states = PaneStates(node.module, self._module.caller.object)
        self._place_on(node.window, consistency)
        self._partitions = Partitions(self._module.held, node.keys)
        self._cells: Arrangement | None = None
        """Cells over their windows [first, beyond); None before the first state, which defines the
        columns."""
        self._counts: dict[int, int] = {}
        """By first window: how many open cells there are."""
        self._alike = 0
        """An upper bound of the number of cells that are like another."""
        self._out = Arrangement(node.schema, self._partitions.of_rows, what="answers")

    # --------------------------------------------------------------------------------------------
    # cells

    def hold(self, arrivals: Arrivals[Delta]) -> None:
        cells = arrivals.rows
        self._count(cells.start)
        self._held(cells).add(cells, arrivals.group)

    def _count(self, first: Codes) -> None:
        """Count cells by their first window, and those that may be like another cell."""
        counts, low = self._counts, least(first)
        found, which = distinct_codes(first - low)
        added = np.bincount(which, minlength=len(found))
        for window, number in zip((found + low).tolist(), added.tolist(), strict=True):
            before = counts.get(window, 0)
            self._alike += min(before, number)
            counts[window] = before + number

    def _held(self, cells: Delta) -> Arrangement:
        if self._cells is None:
            self._cells = Arrangement(cells.schema, self._partitions.of_rows, what="panes")
        return self._cells

    def _between(self, low: int, high: int) -> Hits | None:
        """The cells of the windows low .. high; alike ones are merged when there are many."""
        if self._cells is None:
            return None
        if self._alike > len(self._cells) // 2 + _FEW:
            self._merge_all(self._cells, min(low, self._release.closed + 1))
        found = self._cells.between(low, high + 1)
        return found if len(found) else None

    def _merge_all(self, held: Arrangement, low: int) -> None:
        """Merge cells that are alike, in the windows from `low` on, if that removes at least half
        of them."""
        found = held.between(low, INFINITY)
        size, self._alike = len(found), 0
        order, offsets = order_by_group([found.group, found.start, found.end], size)
        if 0 < 2 * (len(offsets) - 1) <= size:
            representative = order[offsets[:-1]]
            first, beyond = found.start[representative], found.end[representative]
            merged = self._merged(found.payload(), order, offsets)
            held.clear()
            self._counts.clear()
            self.hold(self._arrivals(merged, first, beyond))

    # --------------------------------------------------------------------------------------------
    # taking rows in

    def project(self, batch: Batch) -> Delta:
        return self._module.project(batch)

    def read(self, delta: Delta, first: Codes, beyond: Codes) -> Arrivals[Delta] | None:
        """The rows of a batch as cells over their windows."""
        first = np.maximum(first, self._release.closed + 1)
        inside = first < beyond  # windows may have gaps between them
        if not inside.any():
            return None
        if not inside.all():
            delta, first, beyond = delta.filter(inside), first[inside], beyond[inside]
        keys = self._module.keys(delta.payload)
        even = bool((beyond - first == beyond[0] - first[0]).all())
        order, offsets = order_by_group(
            [*keys.columns, first, *([] if even else [beyond])], len(delta)
        )
        none = offsets[:0]
        rows = Cells(
            take_rows(self._module.arguments(delta.payload), order), none, none, offsets, none, none
        )
        filled = rows
        if self._node.module.nulls == "skip" and any(
            column.null_count for column in rows.rows.columns
        ):
            rows = Cells(rows.rows, delta.start[order], delta.end[order], offsets, none, none)
            filled = rows.without_nulls()
        representative = order[offsets[:-1]]
        states = self._guarded(lambda: self._states.of_rows(filled.rows, filled.offsets), rows.rows)
        count = whole_column(np.diff(filled.offsets))
        cells = pa.RecordBatch.from_arrays(
            [*take_rows(keys, representative).columns, count, *states.columns],
            names=[*keys.schema.names, _FILLED, *states.schema.names],
        )
        return self._arrivals(cells, first[representative], beyond[representative])

    def _arrivals(self, cells: Rows, first: Codes, beyond: Codes) -> Arrivals[Delta]:
        delta = Delta(cells, first, beyond, np.ones(len(first), np.int64))
        return Arrivals(delta, self._partitions.of_rows(cells), first, beyond)

    def _guarded(self, call: Callable[[], Rows], sample: Rows | None = None) -> Rows:
        """A wrapper of the module's code whose errors name the module."""
        watch = Watch(self._node.time_limit)
        try:
            with watch:
                return call()
        except TimeUp:
            reason = f"it took longer than {watch.limit:g} s"
        except Exception as raised:  # whatever a user's code raises
            reason = self._module.caller.reason(raised)
        shown = "" if sample is None else f" Some of its input: {sample.slice(0, 3).to_pylist()}."
        raise ModuleError(f"module {self._node.module.label} failed on a pane: {reason}.{shown}")

    # --------------------------------------------------------------------------------------------
    # answering

    def revise(self, arrivals: Arrivals[Delta], low: Codes, length: Codes) -> Delta:
        """Hold cells, and answer again the windows that have answered and get rows."""
        self.hold(arrivals)
        cells, partition, late = arrivals.rows, arrivals.group, length.nonzero()[0]
        which, window = ranges(low[late], length[late])
        order, offsets = order_by_group([partition[late[which]], window], len(which))
        representative = order[offsets[:-1]]
        partition, window = partition[late[which[representative]]], window[representative]
        start = self._grid.start(window)
        old = self._out.find(partition, start, start + 1)
        old = old.filter(old.start == start[old.owner])
        removed = old.delta().negate()
        old.set_weight(np.zeros(len(old), np.int64))
        self._out.drop(MIN_TIME)
        found = self._held(cells).find(partition, window, window + 1)
        order, offsets = order_by_group([found.owner], len(found))
        new = self._results(found.payload(), order, offsets, window)
        self._keep(new, partition)
        return Delta.concat([new, removed], self.schema)

    def _keep(self, answers: Delta, partition: Codes) -> None:
        """Keep the answers of windows that are not closed."""
        number = (answers.start - self._grid.offset) // self._grid.hop
        mask = number > self._release.closed
        self._out.add(answers.filter(mask), partition[mask])

    def answer(self, low: int, high: int) -> Delta:
        cells, answers = self._between(low, high), []
        if cells is not None:
            group, rows = cells.group, cells.payload()
            for cell, window in _pairs(cells.start, cells.end, low, high):
                if not len(cell):
                    continue
                order, offsets = order_by_group([group.take(cell), window], len(cell))
                representative = order.take(offsets[:-1])
                new = self._results(rows, cell.take(order), offsets, window.take(representative))
                answers.append(new)
                if self._release.closed < high:
                    self._keep(new, group.take(cell.take(representative)))
        return Delta.concat(answers, self.schema)

    def to_batch(self, changes: Sequence[Delta], progress: Progress) -> Batch:
        return Delta.concat(changes, self.schema).to_batch(progress)

    def _results(self, cells: Rows, chosen: Codes, offsets: Codes, window: Codes) -> Delta:
        """The answers of windows of a group, each from its segment of the chosen cells."""
        count, width = len(window), len(self._module.key_schema)
        merged = self._merged(cells, chosen, offsets)
        states = merged.select(list(range(width + 1, merged.num_columns)))
        kind = self.schema.field(len(self.schema) - 1).type
        rows = self._guarded(
            lambda: pa.RecordBatch.from_arrays(
                [values_of(self._states.results(states), kind)], names=["result"]
            )
        )
        result = rows.column(0)
        empty = _column(merged, _FILLED) == 0
        if self._node.module.nulls == "skip" and empty.any():
            result = result.take(pa.array(np.arange(count), mask=empty))
        start = self._grid.start(window)
        keys = merged.columns[:width] if self._node.keys else []
        payload = pa.RecordBatch.from_arrays([*keys, result], schema=self.schema)
        return Delta(payload, start, start + self._grid.size, np.ones(count, np.int64))

    def _merged(self, cells: Rows, chosen: Codes, offsets: Codes) -> Rows:
        """One cell for each segment of the chosen cells."""
        width, names = len(self._module.key_schema), cells.schema.names
        states = take_rows(cells.select(names[width + 1 :]), chosen)
        merged = self._guarded(lambda: self._states.merged(states, offsets))
        keys = take_rows(cells.select(names[:width]), chosen.take(offsets[:-1]))
        filled = np.add.reduceat(_column(cells, _FILLED).take(chosen), offsets[:-1])
        columns = [*keys.columns, whole_column(filled), *merged.columns]
        return pa.RecordBatch.from_arrays(columns, names=names)

    # --------------------------------------------------------------------------------------------
    # forgetting

    @property
    def index(self) -> KeyIndex:
        return self._partitions.index

    def close(self, expired: int) -> None:
        closed = self._release.closed
        if self._cells is not None:
            self._cells.drop(closed + 1)
            for window in [window for window in self._counts if window <= closed]:
                del self._counts[window]
        self._out.drop(closed * self._grid.hop + self._grid.offset + self._grid.size)

    def clear(self) -> None:
        self._cells, self._counts, self._alike = None, {}, 0
        self._out.clear()
        self._partitions.clear()

    def held_groups(self) -> Codes:
        cells = [] if self._cells is None else [self._cells.groups()]
        return used_codes([*cells, self._out.groups()])

    def renumber(self, moved: Codes) -> None:
        for held in (self._cells, self._out):
            if held is not None:
                held.renumber(moved)

    def drop_closed(self, closed: Codes) -> None:
        some = np.flatnonzero(closed != NEVER)
        last = closed[some]
        ended = last == FOREVER
        if self._cells is not None:
            self._cells.drop_groups(some, np.where(ended, INFINITY, np.where(ended, 0, last) + 1))
        over = self._grid.start(np.where(ended, 0, last)) + self._grid.size
        self._out.drop_groups(some, np.where(ended, INFINITY, over))

    # --------------------------------------------------------------------------------------------
    # state

    def save(self) -> Slices:
        cells: Slices = {}
        if self._cells is not None:
            cells = {**self._cells.snapshot("cells"), _FORM: empty_rows(self._cells.schema)}
        return {**self._out.snapshot("out"), **cells}

    def load(self, slices: Mapping[str, Rows]) -> None:
        self._partitions.clear()
        self._out.restore("out", slices)
        self._out.drop(self._release.cti)
        self._cells, self._counts, self._alike = None, {}, 0
        if _FORM in slices:
            self._cells = Arrangement(slices[_FORM].schema, self._partitions.of_rows, what="panes")
            self._cells.restore("cells", slices)
            self._cells.drop(self._release.closed + 1)
            if len(self._cells):
                self._count(self._cells.all().start)
                self._alike = len(self._cells)  # any of them may be like another

    def state_size(self) -> StateSize:
        cells = StateSize() if self._cells is None else self._cells.size()
        return cells + self._out.size()


def _pairs(first: Codes, beyond: Codes, low: int, high: int) -> Iterator[tuple[Codes, Codes]]:
    """Pairs of a cell and one of the windows low .. high that it is in, window by window where
    there may be many: few pairs are sorted faster, and less memory is touched."""
    waiting = [(np.arange(len(first)), first, beyond, low, high)]
    while waiting:
        cell, first, beyond, low, high = waiting.pop()
        inside = (first <= high) & (beyond > low)
        if not inside.all():
            at = inside.nonzero()[0]
            cell, first, beyond = cell.take(at), first.take(at), beyond.take(at)
        if low == high:
            yield cell, np.full(len(cell), low)
        elif len(cell) * (high - low + 1) > _MANY:
            middle = (low + high) // 2
            waiting.append((cell, first, beyond, middle + 1, high))
            waiting.append((cell, first, beyond, low, middle))
        else:
            first = np.maximum(first, low)
            which, window = ranges(first, np.minimum(beyond, high + 1) - first)
            yield cell.take(which), window


def _column(cells: Rows, name: str) -> Codes:
    numbers: Codes = cells.column(name).to_numpy()
    return numbers

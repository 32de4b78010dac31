"""Mergeable modules over hopping windows of a stream that never takes a row back: windows put
together from panes.

Meaning, nulls, duplicates: see `window_apply`. Rows of a group that fall into the same windows are
alike to the module. Those of one batch become one cell, (group, first window, window after the
last, state); the answer of a window is the result of the merged states of its cells. A row is
looked at once, however many windows it is in, and is not kept.

State: cells of windows that are not closed; the answers of windows that are out but not closed.
Cells that are alike are merged now and then. The promise is the start of the earliest window that
is not closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import ModuleError
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows, concat_rows, encode, take_rows
from thalweg.model.time import INFINITY
from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import ranges
from thalweg.operators.hopping_grid import Grid, Release
from thalweg.operators.hopping_rows import restore_release, slice_of_release
from thalweg.operators.module_windows import ModuleWindows, in_order
from thalweg.plan.nodes import WindowApply
from thalweg.udm.calls import Cells, values_of
from thalweg.udm.limits import TimeUp, Watch
from thalweg.udm.module import Module
from thalweg.windows import HoppingWindow

__all__ = ["PanedApplyKernel"]

_PARTS_BEFORE_MERGE = 16
_FIRST, _BEYOND, _FILLED = internal("first"), internal("beyond"), internal("filled")


class PanedApplyKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}, insert_only=True).hopping(10, 5).apply("average", "v")
    >>> tw.table(query, {"s": [tw.point({"v": 1.0}, 2), tw.point({"v": 3.0}, 7)]})
    [(-5, 5, {'average': 1.0}), (0, 10, {'average': 2.0}), (5, 15, {'average': 3.0})]
    """

    def __init__(self, node: WindowApply, consistency: Consistency) -> None:
        assert isinstance(node.window, HoppingWindow)
        self.schema = node.schema
        self._node = node
        self._module = ModuleWindows(node)
        self._states = _States(node.module, self._module.caller.object)
        self._grid = Grid(node.window)
        self._release = Release(self._grid, consistency)
        self._parts: list[Rows] = []
        self._out = Delta.empty(node.schema)

    def process(self, port: int, batch: Batch) -> Batch:
        release, changes = self._release, []
        if len(batch):
            cells = self._cells(self._module.project(batch))
            late = cells is not None and int(_column(cells, _FIRST).min()) <= release.released
            if cells is not None:
                self._parts.append(cells)
            if late and cells is not None:
                changes.append(self._revise(cells))
        closed, released = release.advance(batch.progress.cti)
        if released > release.released:
            new = self._answer(self._whole(), max(release.released, release.closed) + 1, released)
            changes.append(new)
            if closed < released:
                self._out = Delta.concat([self._out, new], self.schema)
        release.closed, release.released = closed, released
        self._forget()
        return Delta.concat(changes, self.schema).to_batch(Progress(release.promise()))

    def needs(self, time: int) -> tuple[int, ...]:
        return (self._release.needs(time),)

    def _whole(self) -> Rows | None:
        """All cells; alike ones are merged when there are many parts."""
        if not self._parts:
            return None
        if len(self._parts) >= _PARTS_BEFORE_MERGE:
            joined = concat_rows(self._parts, self._parts[0].schema)
            alike, count = encode(
                [
                    *joined.columns[: len(self._module.key_schema)],
                    _column(joined, _FIRST),
                    _column(joined, _BEYOND),
                ],
                joined.num_rows,
            )
            self._parts = [self._merged(joined, np.arange(joined.num_rows), alike, count)]
        return concat_rows(self._parts, self._parts[0].schema)

    # -----------------------------------------------------------------------------------------------
    # taking rows in

    def _cells(self, delta: Delta) -> Rows | None:
        """The rows of a batch as cells."""
        self._release.see(delta.start, delta.end)
        first = np.maximum(self._grid.first(delta.start), self._release.closed + 1)
        beyond = self._grid.beyond(delta.end)
        inside = first < beyond  # windows may have gaps between them
        if not inside.any():
            return None
        if not inside.all():
            delta, first, beyond = delta.filter(inside), first[inside], beyond[inside]
        keys = self._module.keys(delta.payload)
        even = bool((beyond - first == beyond[0] - first[0]).all())
        cell, count = encode([*keys.columns, first, *([] if even else [beyond])], len(delta))
        order = in_order(cell, count)
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(cell, minlength=count), out=offsets[1:])
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
        someone = order[offsets[:-1]]
        states = self._guarded(lambda: self._states.of_rows(filled.rows, filled.offsets), rows.rows)
        numbers = [
            pa.array(first[someone]),
            pa.array(beyond[someone]),
            pa.array(np.diff(filled.offsets)),
        ]
        names = [*keys.schema.names, _FIRST, _BEYOND, _FILLED, *states.schema.names]
        return pa.RecordBatch.from_arrays(
            [*take_rows(keys, someone).columns, *numbers, *states.columns], names=names
        )

    def _guarded(self, call: Callable[[], Rows], sample: Rows | None = None) -> Rows:
        """A call of the module's code; what it raises becomes an error that names it."""
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

    # ---------------------------------------------------------------------------------------------------
    # answering

    def _revise(self, late: Rows) -> Delta:
        """Windows that are out and got rows after all answer again."""
        release = self._release
        low, high = max(int(_column(late, _FIRST).min()), release.closed + 1), release.released
        high = min(high, int(_column(late, _BEYOND).max()) - 1)
        if low > high:
            return Delta.empty(self.schema)
        begin, end = (int(time) for time in self._grid.start(np.array([low, high])))
        touched = (self._out.start >= begin) & (self._out.start <= end)
        new = self._answer(self._whole(), low, high)
        changes = Delta.concat([new, self._out.filter(touched).negate()], self.schema)
        self._out = Delta.concat([self._out.filter(~touched), new], self.schema)
        return changes

    def _answer(self, cells: Rows | None, low: int, high: int) -> Delta:
        """The windows low .. high."""
        if cells is None:
            return Delta.empty(self.schema)
        first = np.maximum(_column(cells, _FIRST), low)
        cell, window = ranges(
            first, np.maximum(np.minimum(_column(cells, _BEYOND), high + 1) - first, 0)
        )
        if not len(cell):
            return Delta.empty(self.schema)
        width = len(self._module.key_schema)
        group, _ = encode(cells.columns[:width], cells.num_rows)
        spot, count = encode([group[cell], window], len(cell))
        merged = self._merged(cells, cell, spot, count)
        someone = np.empty(count, np.int64)
        someone[spot] = np.arange(len(cell))
        states = merged.select(list(range(width + 3, merged.num_columns)))
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
        start = self._grid.start(window[someone])
        keys = merged.columns[:width] if self._node.keys else []
        payload = pa.RecordBatch.from_arrays([*keys, result], schema=self.schema)
        return Delta(payload, start, start + self._grid.size, np.ones(count, np.int64))

    def _merged(self, cells: Rows, cell: Codes, spot: Codes, count: int) -> Rows:
        """One cell for each spot: that of the cells at it."""
        order = in_order(spot, count)
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(spot, minlength=count), out=offsets[1:])
        taken = take_rows(cells, cell[order])
        width = len(self._module.key_schema) + 3
        states = pa.RecordBatch.from_arrays(taken.columns[width:], names=taken.schema.names[width:])
        merged = self._guarded(lambda: self._states.merged(states, offsets))
        heads = taken.take(pa.array(offsets[:-1]))
        filled = np.add.reduceat(_column(taken, _FILLED), offsets[:-1])
        columns = [*heads.columns[: width - 1], pa.array(filled), *merged.columns]
        return pa.RecordBatch.from_arrays(columns, names=cells.schema.names)

    def _forget(self) -> None:
        release = self._release
        if release.cti == INFINITY:
            self._parts, self._out = [], Delta.empty(self.schema)
            return
        kept = []
        for part in self._parts:
            needed = _column(part, _BEYOND) > release.closed + 1
            if needed.all():
                kept.append(part)
            elif needed.any():
                kept.append(part.filter(pa.array(needed)))
        self._parts = kept
        if len(self._out):
            number = (self._out.start - self._grid.offset) // self._grid.hop
            self._out = self._out.filter(number > release.closed)

    # -------------------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        out = [pa.array(self._out.start), *self._out.payload.columns]
        names = ["start", *(f"column{at}" for at in range(len(self.schema)))]
        parts = {f"cells/{number}": part for number, part in enumerate(self._parts)}
        return {
            "release": slice_of_release(self._release),
            "out": pa.RecordBatch.from_arrays(out, names=names),
            **parts,
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        restore_release(self._release, slices["release"])
        names = sorted(
            (name for name in slices if name.startswith("cells/")),
            key=lambda name: int(name.partition("/")[2]),
        )
        self._parts = [slices[name] for name in names]
        start = np.array(slices["out"].column(0).to_numpy())
        payload = pa.RecordBatch.from_arrays(slices["out"].columns[1:], schema=self.schema)
        self._out = Delta(payload, start, start + self._grid.size, np.ones(len(start), np.int64))

    def state_size(self) -> StateSize:
        cells = StateSize(
            sum(part.num_rows for part in self._parts), sum(part.nbytes for part in self._parts)
        )
        return cells + StateSize(len(self._out), self._out.nbytes)


class _States:
    """States as columns: the module's own, or one column of saved ones."""

    def __init__(self, module: Module, own: Any) -> None:
        self._own = own
        self._columns = "partials" in module.methods

    def of_rows(self, rows: Rows, offsets: Codes) -> Rows:
        own = self._own
        if self._columns:
            states: Rows = own.partials(rows, offsets)
            return states
        values = (
            rows.column(0).to_pylist()
            if rows.num_columns == 1
            else list(zip(*(c.to_pylist() for c in rows.columns), strict=True))
        )
        return _saved(
            [
                own.save(own.add(own.empty(), tuple(values[begin:end])))
                for begin, end in pairwise(offsets.tolist())
            ]
        )

    def merged(self, states: Rows, offsets: Codes) -> Rows:
        own = self._own
        if self._columns:
            merged: Rows = own.merge_groups(states, offsets)
            return merged
        loaded = [own.load(saved) for saved in states.column(0).to_pylist()]
        found = []
        for begin, end in pairwise(offsets.tolist()):
            total = loaded[begin]
            for other in loaded[begin + 1 : end]:
                total = own.merge(total, other)
            found.append(own.save(total))
        return _saved(found)

    def results(self, states: Rows) -> Any:
        own = self._own
        return (
            own.results(states)
            if self._columns
            else [own.result(own.load(saved)) for saved in states.column(0).to_pylist()]
        )


def _saved(states: list[bytes]) -> Rows:
    return pa.RecordBatch.from_arrays([pa.array(states, pa.binary())], names=["state"])


def _column(cells: Rows, name: str) -> Codes:
    numbers: Codes = cells.column(name).to_numpy()
    return numbers

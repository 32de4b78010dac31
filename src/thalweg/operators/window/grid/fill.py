"""Fill: zero rows for the empty windows of listed groups.

Over the answers of a hopping window, for every window from the first to the last that has an answer
of any group, each listed group without one gets a row with counts of 0 and everything else null.

A batch costs the windows that it adds to the range, and the answers that come or go. State: which
answers there are, from the last settled window on, in slices of neighbouring windows. A silence is
filled once there is an answer after it, so the promise waits at the window after the last settled
answer. Promises for one group alone do not pass. With final answers a zero row waits until the CTI
has passed the start of its window: a group may answer early, by a promise of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, greatest, least
from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.consistency import Consistency, Gate
from thalweg.operators.groups import refuse_negative
from thalweg.operators.window.grid.cells import Cells
from thalweg.operators.window.grid.grid import Grid
from thalweg.plan.nodes import WindowAggregate
from thalweg.state import KeyIndex
from thalweg.state.placed import PlacedSlices
from thalweg.windows import HoppingWindow

__all__ = ["FillKernel"]

_CELLS = pa.schema([(name, pa.int64()) for name in ("group", "window", "answers")])


class FillKernel(Operator):
    """
    >>> import thalweg as tw
    >>> grouped = tw.source("s", {"k": "string"}).group_by("k")
    >>> query = grouped.tumbling(10).fill(["a", "b"]).aggregate(n=tw.count())
    >>> tw.table(query, {"s": [tw.point({"k": "a"}, 2), tw.point({"k": "b"}, 12)]})
    [(0, 10, {'k': 'a', 'n': 1}), (0, 10, {'k': 'b', 'n': 0}), (10, 20, {'k': 'a', 'n': 0}), (10,
    20, {'k': 'b', 'n': 1})]
    """

    def __init__(self, node: WindowAggregate, consistency: Consistency) -> None:
        assert isinstance(node.window, HoppingWindow) and node.fill is not None
        self.schema = node.schema
        self._grid, self._names = Grid(node.window), node.keys
        fields = [node.schema.field(name) for name in node.keys]
        columns = [list(column) for column in zip(*node.fill, strict=True)]
        keys = [pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)]
        self._index = KeyIndex(fields)
        self._index.numbers(keys, len(node.fill) if keys else 1)
        self._filled = len(self._index)
        """The number of groups that are filled; as a group it stands for all others."""
        results = list(node.schema)[len(node.keys) :]
        self._zeros = [
            pa.scalar(call.aggregate.of_nothing, field.type)
            for (_, call), field in zip(node.aggregates, results, strict=True)
        ]
        self._answers = PlacedSlices(_concat, Cells.added_up)
        """The number of answers by group and window."""
        self._span = range(0)
        """The windows from the first to the last with an answer."""
        self._gate = Gate(node.schema, consistency, settled="start")
        self._final = consistency.is_final
        self._cti = MIN_TIME
        self._promise = MIN_TIME

    def process(self, port: int, batch: Batch) -> Batch:
        answers = Delta.of_batch(batch)
        zeros = self._apply(answers) if len(answers) else Delta.empty(self.schema)
        if batch.progress.cti > self._cti:
            self._cti = batch.progress.cti
            self._settle()
        promise = Progress(self._promise)
        if self._final:
            zeros, promise = self._gate.release(zeros, MIN_TIME, Progress(self._cti), promise)
        return Delta.concat([answers, zeros], self.schema).to_batch(promise)

    def _apply(self, answers: Delta) -> Delta:
        """The changes of zero rows that follow from new answers."""
        window = (answers.start - self._grid.offset) // self._grid.hop
        group = self._groups_of(answers.payload)
        touched = Cells(np.array([group, window, answers.weight])).added_up()
        before = np.zeros(len(touched), np.int64)
        for cells, at, owner in self._answers.find(touched.group, touched.window):
            np.add.at(before, owner, cells.sums[0, at])
        after = before + touched.sums[0]
        if len(after) and least(after) < 0:
            refuse_negative(answers.consolidate(), "Fill")
        was, now = before > 0, after > 0
        self._answers.add(touched)
        old, new = self._span, self._span_after(touched.window, was, now)
        self._span = new
        both = range(max(old.start, new.start), min(old.stop, new.stop))
        filled = touched.group < self._filled
        inside = filled & (touched.window >= both.start) & (touched.window < both.stop)
        changes = []
        if np.count_nonzero(inside):
            changes = [
                self._rows(touched.group[flips], touched.window[flips], weight)
                for flips, weight in ((inside & was & ~now, 1), (inside & now & ~was, -1))
            ]
        for wider, other, there, weight in ((new, old, now, 1), (old, new, was, -1)):
            gained = _without(wider, other)
            if gained:
                groups = touched.where(filled & there)
                changes += [self._blanks(part, groups, weight) for part in gained]
        return Delta.concat(changes, self.schema)

    def _groups_of(self, rows: Rows) -> Codes:
        if not self._names:
            return np.zeros(rows.num_rows, np.int64)
        columns = [rows.column(name) for name in self._names]
        found, which = self._index.having(range(len(columns)), columns)
        group = np.full(rows.num_rows, self._filled)
        group[which] = found
        return group

    def _span_after(self, window: Codes, was: Bools, now: Bools) -> range:
        """The span after some windows got their first answers or lost their last ones."""
        if np.count_nonzero(was & ~now):
            return self._found_span()
        came = window[now & ~was]
        if not len(came):
            return self._span
        first, beyond = least(came), greatest(came) + 1
        if not self._span:
            return range(first, beyond)
        return range(min(first, self._span.start), max(beyond, self._span.stop))

    def _found_span(self) -> range:
        first, last = self._answers.first(), self._answers.last()
        return range(0) if first is None or last is None else range(first, last + 1)

    def _blanks(self, windows: range, there: Cells, weight: int) -> Delta:
        """Zero rows of all groups in some windows, except where there are answers."""
        inside = (there.window >= windows.start) & (there.window < windows.stop)
        answered = (there.window - windows.start) * self._filled + there.group
        blank = np.ones(len(windows) * self._filled, np.bool_)
        blank[answered[inside]] = False
        at = blank.nonzero()[0]
        return self._rows(at % self._filled, windows.start + at // self._filled, weight)

    def _rows(self, group: Codes, window: Codes, weight: int) -> Delta:
        size = len(window)
        if not size:
            return Delta.empty(self.schema)
        blanks = [pa.repeat(zero, size) for zero in self._zeros]
        keys = self._index.columns(group) if self._names else []
        payload = pa.RecordBatch.from_arrays([*keys, *blanks], schema=self.schema)
        start, end = self._grid.start(window), self._grid.end(window)
        return Delta(payload, start, end, np.full(size, weight))

    # --------------------------------------------------------------------------------------------
    # promises

    def _window_from(self, time: int) -> int:
        """The first window that starts at a time or later."""
        return -((self._grid.offset - time) // self._grid.hop)

    def _settle(self) -> None:
        """Forget the windows before the last settled one."""
        if self._cti == INFINITY:
            self._answers.clear()
            self._span = range(0)
            self._promise = INFINITY
            return
        unsettled = self._window_from(self._cti)
        settled = self._span.stop <= unsettled
        last = self._span.stop - 1 if settled else self._answers.last(unsettled)
        self._promise = self._cti
        if self._span and last is not None:
            self._answers.drop_until(last - 1)
            self._span = range(last, self._span.stop)
            self._promise = min(self._cti, self._grid.start(last + 1))

    def needs(self, time: int) -> tuple[int, ...]:
        if time <= MIN_TIME or time == INFINITY or not self._answers:
            return (time,)
        # An answer this late, once settled, shows that there is no silence before it.
        enough = self._answers.first(self._window_from(time - self._grid.hop))
        if enough is not None:
            return (max(time, self._grid.start(enough) + 1),)
        first = self._answers.first()
        return (time if first is None or first >= self._window_from(time) else INFINITY,)

    # --------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        marks = pa.RecordBatch.from_arrays([pa.array([self._cti, self._promise])], names=["marks"])
        gate = self._gate.snapshot() if self._final else {}
        return {**self._answers.snapshot("answers", _write), **gate, "marks": marks}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._cti, self._promise = slices["marks"].column(0).to_pylist()
        self._answers.restore("answers", slices, _read)
        self._span = self._found_span()
        if self._final:
            self._gate.restore(dict(slices))

    def state_size(self) -> StateSize:
        return self._answers.size() + self._gate.state_size()


def _concat(parts: Sequence[Cells]) -> Cells:
    return Cells.concat(parts, 1)


def _without(windows: range, others: range) -> list[range]:
    """The windows of one range that are not in another."""
    if not others:
        return [windows] if windows else []
    parts = (
        range(windows.start, min(windows.stop, others.start)),
        range(max(windows.start, others.stop), windows.stop),
    )
    return [part for part in parts if part]


def _write(cells: Cells) -> Rows:
    columns = [cells.group, cells.window, cells.sums[0]]
    return pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=_CELLS)


def _read(rows: Rows) -> Cells:
    return Cells(np.array([column.to_numpy() for column in rows.columns], np.int64))

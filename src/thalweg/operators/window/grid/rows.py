"""Hopping windows over kept rows: aggregates that need each window's rows (percentiles, first,
...), and top-k.

Where rows lie in many windows and partial results are small, windows are put together from ranges
(see `ranges`).

Meaning: per group and window [a, a + size) with at least one row that overlaps it, what those rows
give, living as long as the window. A window answers once, when it may (see `consistency`), and is
answered again when its rows change.

State: rows that overlap a window the CTI has not closed, or whose end may still move into one (see
`held_rows`). The promise is the start of the earliest window that is not closed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, encode, ones, take_column
from thalweg.model.sorting import representatives
from thalweg.model.time import INFINITY, greatest
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import ranges, units
from thalweg.operators.window.accumulators import Accumulators
from thalweg.operators.window.grid.grid import FOREVER, NEVER
from thalweg.operators.window.grid.loop import Arrivals, ComparingGridOperator
from thalweg.operators.window.grid.ranges import parts_of_windows
from thalweg.operators.window.held_rows import Found, HeldRows
from thalweg.operators.window.partitions import Partitions
from thalweg.operators.window.ranking import ORDER, Ranking
from thalweg.plan.nodes import TopK, WindowAggregate
from thalweg.state.key_index import KeyIndex
from thalweg.windows import HoppingWindow

__all__ = ["HoppingRowsAggregateKernel", "HoppingRowsKernel", "HoppingTopKKernel"]

_FEW_WINDOWS = 3
"""If rows are in at most this many windows on average, each row is read once for each of its
windows."""
_LENGTHS = 16
"""Up to this many different numbers of windows by row, ranges are merged for each number."""


@dataclass(slots=True)
class Members:
    """Rows and their windows: `row[i]` is in `window[i]`, and `cell[i]`, one of 0 .. cells - 1, is
    its group in that window."""

    row: Codes
    window: Codes
    cell: Codes
    cells: int


class HoppingRowsKernel(ComparingGridOperator[Delta]):
    """The common part: holds the rows of windows that are not closed."""

    what: ClassVar[str]
    """The operator's name in messages."""

    def __init__(
        self,
        schema: pa.Schema,
        held: pa.Schema,
        keys: tuple[str, ...],
        window: HoppingWindow,
        consistency: Consistency,
    ) -> None:
        self.schema = schema
        self._nothing = Delta.empty(schema)
        self._keys = keys
        self._place_on(window, consistency)
        self._partitions = Partitions(held, keys)
        self._held = HeldRows(held, self._partitions, self.what)

    @abstractmethod
    def project(self, batch: Batch) -> Delta:
        """The changes of a batch, as rows that are held."""

    @abstractmethod
    def give(self, rows: Delta, members: Members) -> Delta:
        """The answers of windows from their rows, which have weight one."""

    def read(self, delta: Delta, first: Codes, beyond: Codes) -> Arrivals[Delta]:
        return Arrivals(delta, self._partitions.of_rows(delta.payload), first, beyond)

    def hold(self, arrivals: Arrivals[Delta]) -> None:
        self._held.apply(arrivals.rows, arrivals.group)

    def evaluate(self, low: int, high: int, groups: Codes | None = None) -> Delta:
        since, until = self._grid.start(low), self._grid.end(high)
        if groups is None:
            return self._answers(self._held.between(since, until), low, high)
        return self._answers(self._held.within(groups, since, until), low, high)

    def _answers(self, found: Found, low: int, high: int) -> Delta:
        """The answers of the windows low .. high, from the rows between their bounds."""
        if not len(found):
            return self._nothing
        rows, group = found.delta(), found.partition
        if greatest(rows.weight) > 1:
            group, rows = group.repeat(rows.weight), units(rows)
        if low < high:
            return self._of_several(rows, group, low, high)
        cell, cells = encode([group], len(rows))
        window = np.full(len(rows), low)
        return self.give(rows, Members(np.arange(len(rows)), window, cell, cells))

    def _of_several(self, rows: Delta, group: Codes, low: int, high: int) -> Delta:
        """The answers of several windows."""
        first, beyond = self._grid.first(rows.start), self._grid.beyond(rows.end)
        row, window = ranges(*self._grid.inside(first, beyond, low, high))
        if not len(row):  # all rows lie in gaps between windows
            return self._nothing
        cell, cells = encode([group[row], window], len(row))
        return self.give(rows, Members(row, window, cell, cells))

    def _stamped(self, payload: Rows, window: Codes) -> Delta:
        start = self._grid.start(window)
        return Delta(payload, start, start + self._grid.size, ones(len(window)))

    @property
    def index(self) -> KeyIndex:
        return self._partitions.index

    def close(self, expired: int) -> None:
        self._held.purge(expired)

    def clear(self) -> None:
        self._held.clear()
        self._partitions.clear()

    def held_groups(self) -> Codes:
        return self._held.groups()

    def renumber(self, moved: Codes) -> None:
        self._held.renumber(moved)

    def drop_closed(self, closed: Codes) -> None:
        some = np.flatnonzero(closed != NEVER)
        until = np.full(len(closed), INFINITY)
        open_ = some[closed[some] != FOREVER]
        until[open_] = self._grid.over(closed[open_])
        self._held.drop_groups(some, until[some])

    def save(self) -> Slices:
        return self._held.snapshot()

    def load(self, slices: Mapping[str, Rows]) -> None:
        self._partitions.clear()
        self._held.restore(slices)

    def state_size(self) -> StateSize:
        return self._held.size() + StateSize(0, self.index.nbytes)


class HoppingRowsAggregateKernel(HoppingRowsKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).hopping(10, 5).aggregate(mid=tw.percentile("v", 0.5))
    >>> tw.table(query, {"s": [tw.point({"v": 1}, 2), tw.point({"v": 3}, 7)]})
    [(-5, 5, {'mid': 1.0}), (0, 10, {'mid': 2.0}), (5, 15, {'mid': 3.0})]
    """

    what = "HoppingRowsAggregate"

    def __init__(self, node: WindowAggregate, consistency: Consistency) -> None:
        assert isinstance(node.window, HoppingWindow)
        self._arguments = ArgumentProjection(node.aggregates, node.keys, node.input.schema)
        self._sums = (
            Accumulators(self._arguments, node.schema)
            if all(call.bounded for _, call in node.aggregates)
            else None
        )
        super().__init__(node.schema, self._arguments.schema, node.keys, node.window, consistency)

    def project(self, batch: Batch) -> Delta:
        return self._arguments.changes(batch)

    def _of_several(self, rows: Delta, group: Codes, low: int, high: int) -> Delta:
        sums = self._sums
        if sums is None:
            return super()._of_several(rows, group, low, high)
        first, beyond = self._grid.first(rows.start), self._grid.beyond(rows.end)
        # A number that is after all windows, less that of an early one, wraps around.
        beyond = np.where(beyond == FOREVER, high + 1, beyond)
        _, many = self._grid.inside(first, beyond, low, high)
        length = beyond - first
        if int(many.sum()) <= _FEW_WINDOWS * len(rows) or len(np.unique(length)) > _LENGTHS:
            return super()._of_several(rows, group, low, high)
        inside = many > 0
        rows, group, first, length = (
            rows.filter(inside),
            group[inside],
            first[inside],
            length[inside],
        )
        parts = sums.of_rows(rows.payload, rows.start)
        found = parts_of_windows(sums, parts, group, first, length, (low, high))
        columns = [take_column(rows.payload.column(name), found.row) for name in self._keys]
        columns += sums.results(found.parts)
        return self._stamped(pa.RecordBatch.from_arrays(columns, schema=self.schema), found.window)

    def give(self, rows: Delta, members: Members) -> Delta:
        representative = representatives(members.cell, members.cells)
        row = members.row[representative]
        columns = [take_column(rows.payload.column(name), row) for name in self._keys]
        columns += self._arguments.reduce(
            rows.payload.column, rows.start, members.row, members.cell, members.cells, self.schema
        )
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return self._stamped(payload, members.window[representative])


class HoppingTopKKernel(HoppingRowsKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).tumbling(10).top_k(1, by="v")
    >>> tw.table(query, {"s": [tw.point({"v": 1}, 2), tw.point({"v": 3}, 7)]})
    [(0, 10, {'v': 3})]
    """

    what = "HoppingTopK"

    def __init__(self, node: TopK, consistency: Consistency) -> None:
        assert isinstance(node.window, HoppingWindow)
        self._ranking = Ranking(node)
        super().__init__(node.schema, self._ranking.schema, node.keys, node.window, consistency)

    def project(self, batch: Batch) -> Delta:
        return self._ranking.project(batch)

    def give(self, rows: Delta, members: Members) -> Delta:
        order = rows.payload.column(ORDER)
        best, rank = self._ranking.best(order, members.row, members.cell)
        which = members.row[best]
        columns = [take_column(column, which) for column in rows.payload.columns[:-1]]
        return self._stamped(self._ranking.answer(columns, rank), members.window[best])

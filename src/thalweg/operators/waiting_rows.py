"""The rows that wait at a gate: a few as they are, many in a row set.

A row set finds the rows that leave by time and a row that is taken back by what it is, at a cost
that does not grow with the rows held but is worth a hundred calls. So few rows that they can be
looked at with every batch are kept as one delta, in the order in which they leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta, Weights
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, greatest, least
from thalweg.operators.base import Slices, StateSize
from thalweg.state import Hits, RowSet

__all__ = ["WaitingRows"]

_FEW = 256
"""So many rows are looked at with every batch."""


class WaitingRows:
    """Rows of positive weight. A row waits for its end or, with `by_start`, for its start.

    >>> waiting = WaitingRows(pa.schema([("v", pa.int64())]), by_start=False)
    >>> rows = pa.RecordBatch.from_pydict({"v": [1, 2]})
    >>> delta = Delta(rows, np.array([0, 3]), np.array([9, 5]), np.ones(2, np.int64))
    >>> len(waiting.divide(delta, np.arange(2), delta.weight, leaves=np.zeros(2, np.bool_)))
    0
    >>> waiting.rows().end, waiting.first(), waiting.latest_end(before=3)
    (array([5, 9]), 0, 9)
    >>> waiting.change(delta.take(np.array([0])).negate())
    >>> waiting.release(until=5).end, waiting.is_empty()
    (array([5]), True)
    """

    def __init__(self, schema: pa.Schema, *, by_start: bool) -> None:
        self._schema, self._by_start = schema, by_start
        self._none = self._few = Delta.empty(schema)
        self._many = self._row_set()
        self._written: tuple[Delta, Slices] | None = None

    def _row_set(self) -> RowSet:
        """Rows over the time until which each waits; where that is its start, its end is a mark."""
        return RowSet(self._schema, marks=int(self._by_start), what="gate")

    def is_empty(self) -> bool:
        return not len(self._few) and self._many.is_empty()

    def few(self, more: int) -> Delta | None:
        """All rows that wait, in the order in which they leave; None where they, or as many `more`,
        are not few."""
        if more > _FEW or not self._many.is_small:
            return None
        if not self._many.is_empty():
            rows = self.rows()
            if len(rows) > _FEW:
                return None
            self._many.clear()
            none = np.zeros(len(rows), np.bool_)
            self.divide(rows, np.arange(len(rows)), rows.weight, none)
        return self._few

    def divide(self, rows: Delta, which: Codes, weight: Weights, leaves: Bools) -> Delta:
        """Of some rows, with these weights, those that leave. The others wait, instead of the few
        that did, if their weight is positive."""
        leaving, waiting = leaves.nonzero()[0], (~leaves & (weight > 0)).nonzero()[0]
        until = (rows.start if self._by_start else rows.end)[which[waiting]]
        at = np.concatenate([leaving, waiting[until.argsort(kind="stable")]])
        rows, cut = rows.reweighted(which[at], weight[at]), len(leaving)
        self._few = rows.slice(cut, len(rows))
        if len(self._few) > _FEW:
            self._move()
        return rows.slice(0, cut)

    def change(self, rows: Delta) -> None:
        """Add rows and take rows away. One that is not there is not taken: a gate that a running
        query got later has not seen rows from before."""
        few, self._few = self._few, self._none
        _change(self._many, few, by_start=self._by_start)
        _change(self._many, rows, by_start=self._by_start)

    def release(self, until: int) -> Delta:
        """The rows that wait until this time at the latest; they wait no longer."""
        self._move()
        return self._shown(self._many.release(until))

    def release_where(self, leaves: Callable[[Delta], Bools]) -> Delta:
        """Some of the rows; they wait no longer."""
        self._move()
        found = self._many.between(self._many.purged, INFINITY)
        found = found.filter(leaves(self._shown(found)))
        rows = self._shown(found)
        found.set_weight(np.zeros(len(found), np.int64))
        self._many.drop(self._many.purged)
        return rows

    def _move(self) -> None:
        if len(self._few):
            self.change(self._none)

    def rows(self) -> Delta:
        """All rows that wait."""
        if self._many.is_empty():
            return self._few
        many = self._shown(self._many.between(self._many.purged, INFINITY))
        return Delta.concat([self._few, many], self._schema)

    def first(self) -> int:
        """The earliest start of a row."""
        return min(least(self._few.start) if len(self._few) else INFINITY, self._many.first())

    def latest_end(self, before: int) -> int:
        """The latest end of the rows that start before a time; MIN_TIME: there is none."""
        rows = self.rows() if self._by_start else self._few
        ends = rows.end[rows.start < before]
        few = greatest(ends) if len(ends) else MIN_TIME
        return few if self._by_start else max(few, self._many.latest_end(before))

    def _shown(self, found: Hits) -> Delta:
        if not self._by_start:
            return found.delta()
        return Delta(found.payload(), found.start, found.mark(0), found.weight)

    def snapshot(self, name: str) -> Slices:
        """Few rows are written as a row set that holds few."""
        if not len(self._few):
            return self._many.snapshot(name)
        if self._written is None or self._written[0] is not self._few:
            held = self._row_set()
            _change(held, self._few, by_start=self._by_start)
            self._written = self._few, held.snapshot(name)
        return self._written[1]

    def restore(self, name: str, slices: Mapping[str, Rows], until: int) -> None:
        """The inverse of `snapshot`; rows that waited until this time have left."""
        self._few = self._none
        self._many.restore(name, slices)
        self._many.purge(until)

    def size(self) -> StateSize:
        return self._many.size() + StateSize(len(self._few), self._few.nbytes)


def _change(held: RowSet, rows: Delta, *, by_start: bool) -> None:
    if not by_start:
        held.change(rows, strict=False)
        return
    until = Delta(rows.payload, rows.start, rows.start + 1, rows.weight)
    held.change(until, (rows.end,), strict=False)

"""Chop: each row is cut at every grid point offset + k * period strictly inside its lifetime.

A row that never ends is cut as far as the CTI reaches; its last piece stays open and is cut further
as the CTI moves. So a row without an end is never held back, and once it ends its pieces are those
of the definition. State: the rows without an end. Progress passes: a cut beyond the CTI changes
nothing before it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.rows import Rows, take_rows
from thalweg.model.time import INFINITY, MIN_TIME, greatest, least
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    delta_of_slice,
    progress_of_slice,
    slice_of_delta,
    slice_of_progress,
)
from thalweg.operators.groups import ranges, refuse_negative
from thalweg.plan.nodes import Chop

__all__ = ["ChopKernel"]


class ChopKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).chop(10)
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 7, 25)]})
    [(7, 10, {'v': 1}), (10, 20, {'v': 1}), (20, 25, {'v': 1})]
    """

    def __init__(self, node: Chop) -> None:
        self.schema = node.schema
        self._period, self._offset = node.period, node.offset
        self._open = Delta.empty(node.schema)
        self._progress = NO_PROGRESS
        self._settled = MIN_TIME
        """The grid point at or before the promise."""

    def process(self, port: int, batch: Batch) -> Batch:
        delta = Delta.of_batch(batch)
        here = self._settled
        changes = [self._pieces(delta, here, here)]
        if len(delta) and greatest(delta.end) == INFINITY:
            endless = delta.filter(delta.end == INFINITY)
            self._open = Delta.concat([self._open, endless], self.schema).consolidate()
            refuse_negative(self._open, "chop")
        progress = self._progress.advance(batch.progress)
        if progress is not self._progress:
            self._progress, self._settled = progress, self._grid(progress.cti)
        there = self._settled
        if len(self._open) and there > here and there != INFINITY:
            changes += [
                self._pieces(self._open, here, here).negate(),
                self._pieces(self._open, here, there),
            ]
        if progress.ended:
            self._open = Delta.empty(self.schema)
        # An endless row is cut where the common promise stands, so promises for one group alone
        # cannot pass.
        return Delta.concat(changes, self.schema).to_batch(progress.without_scopes())

    def _grid(self, cti: int) -> int:
        """The grid point at or before a promise."""
        if cti in (MIN_TIME, INFINITY):
            return cti
        return (cti - self._offset) // self._period * self._period + self._offset

    def _pieces(self, rows: Delta, since: int, upto: int) -> Delta:
        """The pieces that begin at or after the settled grid point `since`; endless rows are cut up
        to the grid point `upto`.

        With cell(t) = floor((t - offset) / period), a row that lasts is cut into the cells from
        that of its start to that of its last tick, an endless one to that of `upto`.
        """
        if not len(rows):
            return rows
        begin, end = rows.start, rows.end
        if least(begin) < since:
            begin = np.maximum(begin, since)
            lasts = begin < end
            rows, begin = rows.filter(lasts), begin[lasts]
            if not len(rows):
                return rows
            end = rows.end
        last = end - 1
        if greatest(end) == INFINITY:
            last = np.where(end == INFINITY, np.maximum(begin, upto), last)
        period, offset = self._period, self._offset
        first, beyond = (begin - offset) // period, (last - offset) // period + 1
        which, cell = ranges(first, beyond - first)
        grid = cell * period + offset
        start = np.maximum(begin[which], grid)
        end = np.where(cell + 1 == beyond[which], end[which], grid + period)
        return Delta(take_rows(rows.payload, which), start, end, rows.weight[which])

    def snapshot(self) -> Slices:
        return {"open": slice_of_delta(self._open), "progress": slice_of_progress([self._progress])}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._open = delta_of_slice(slices["open"])
        self._progress = progress_of_slice(slices["progress"])[0]
        self._settled = self._grid(self._progress.cti)

    def state_size(self) -> StateSize:
        return StateSize(len(self._open), self._open.nbytes)

"""Chop: each row is cut at every grid point offset + k * period strictly inside its lifetime.

A row that never ends is cut as far as the CTI reaches; its last piece stays open and is cut further
as the CTI moves. So a row whose end is not known yet is never held back, and once it ends its
pieces are those of the definition. State: the rows without an end. Progress passes: a cut beyond
the CTI changes nothing before it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MIN_TIME, ceil_to_grid, floor_to_grid
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

    def process(self, port: int, batch: Batch) -> Batch:
        delta = Delta.of_batch(batch)
        here = self._grid(self._progress.cti)
        changes = [self._pieces(delta, here, here)]
        endless = delta.filter(delta.end == INFINITY)
        if len(endless):
            self._open = Delta.concat([self._open, endless], self.schema).consolidate()
            refuse_negative(self._open, "chop")
        progress = self._progress.advance(batch.progress)
        there = self._grid(progress.cti)
        if len(self._open) and there > here and there != INFINITY:
            changes += [
                self._pieces(self._open, here, here).negate(),
                self._pieces(self._open, here, there),
            ]
        if progress.ended:
            self._open = Delta.empty(self.schema)
        self._progress = progress
        # An endless row is cut where the common promise stands, so promises for one group alone
        # cannot pass.
        return Delta.concat(changes, self.schema).to_batch(progress.without_scopes())

    def _grid(self, cti: int) -> int:
        return (
            cti
            if cti in (MIN_TIME, INFINITY)
            else int(floor_to_grid(np.array([cti]), self._period, self._offset)[0])
        )

    def _pieces(self, rows: Delta, since: int, upto: int) -> Delta:
        """The pieces that begin at or after the settled grid point `since`; endless rows are cut up
        to the grid point `upto`."""
        begin = np.maximum(rows.start, since)
        rows, begin = rows.filter(begin < rows.end), begin[begin < rows.end]
        if not len(rows):
            return rows
        cut_until = np.where(rows.end == INFINITY, np.maximum(begin, upto), rows.end)
        first_cut = floor_to_grid(begin, self._period, self._offset) + self._period
        # Endless rows are cut at `upto` itself; others only strictly inside.
        last_cut = np.where(
            rows.end == INFINITY,
            floor_to_grid(cut_until, self._period, self._offset),
            ceil_to_grid(cut_until, self._period, self._offset) - self._period,
        )
        cuts = np.maximum((last_cut - first_cut) // self._period + 1, 0)
        which, number = ranges(np.zeros(len(rows), np.int64), cuts + 1)
        start = np.where(number == 0, begin[which], first_cut[which] + (number - 1) * self._period)
        end = np.where(
            number == cuts[which], rows.end[which], first_cut[which] + number * self._period
        )
        pieces = rows.take(which)
        return Delta(pieces.payload, start, end, pieces.weight)

    def snapshot(self) -> Slices:
        return {"open": slice_of_delta(self._open), "progress": slice_of_progress([self._progress])}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._open = delta_of_slice(slices["open"])
        self._progress = progress_of_slice(slices["progress"])[0]

    def state_size(self) -> StateSize:
        return StateSize(len(self._open), self._open.nbytes)

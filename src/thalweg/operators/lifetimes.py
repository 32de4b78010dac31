"""Operators that rewrite lifetimes row by row: (s, e, p) -> (s', e', p), the row vanishing when e'
<= s'.

A subclass gives the two functions `lifetimes` (of starts and ends) and `promise` (of a CTI). For an
adjust both the old and the new lifetime are mapped: if only the end differs it stays an adjust, if
nothing differs it disappears, if one side is empty it becomes an insert or a removal, and if the
start moved too it becomes a removal and an insert.

A `promise` t' for t must satisfy: every insert with s >= t gives s' >= t', and every adjust with e,
n >= t changes the result only at or after t'.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Rows
from thalweg.model.time import Times
from thalweg.operators.base import Operator, least_promise, map_progress

__all__ = ["LifetimeKernel"]


class LifetimeKernel(Operator):
    """The shared part of all lifetime operators."""

    row_by_row = True

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    @abstractmethod
    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        """The new starts and ends."""

    def promise(self, cti: int) -> int:
        """The promise that a finite promise of the input becomes."""
        return cti

    def progress(self, before: Progress) -> Progress:
        """The progress that progress of the input becomes."""
        return map_progress(before, self.promise)

    def needs(self, time: int) -> tuple[int, ...]:
        return (least_promise(lambda cti: self.progress(Progress(cti)).cti, time),)

    def process(self, port: int, batch: Batch) -> Batch:
        progress = self.progress(batch.progress)
        if not len(batch):
            return Batch.empty(self.schema, progress)
        start, end = self.lifetimes(batch.payload, batch.start, batch.end)
        if batch.is_adjust is None or batch.new_end is None:
            return Batch(batch.payload, start, end, progress=progress).filter(start < end)
        new_start, new_end = self.lifetimes(batch.payload, batch.start, batch.new_end)
        if (batch.is_adjust & (start != new_start)).any():
            return self._through_delta(batch).to_batch(progress)
        before, after = start < end, (new_start < new_end) & (batch.new_end > batch.start)
        adjusts = batch.is_adjust & before
        new_end = np.where(batch.is_adjust & after, new_end, start)
        # An adjust whose old lifetime was empty is an insert of the new one.
        end = np.where(batch.is_adjust & ~before, new_end, end)
        keep = np.where(batch.is_adjust, (before | after) & (~before | (end != new_end)), before)
        return Batch(batch.payload, start, end, new_end, adjusts, progress).filter(keep)

    def _through_delta(self, batch: Batch) -> Delta:
        delta = Delta.of_batch(batch)
        start, end = self.lifetimes(delta.payload, delta.start, delta.end)
        return Delta(delta.payload, start, end, delta.weight).filter(start < end)

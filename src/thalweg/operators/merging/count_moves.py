"""The changes of counts that the elements of a batch make: at a slot, one row more or less with
some end. An adjust takes a row from its old end before it gives one to the new end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import Times
from thalweg.operators.merging.end_counts import EndCounts

__all__ = ["CountMoves"]


@dataclass(frozen=True, slots=True)
class CountMoves:
    """By element, but first all that take a row; see `first_unfounded`."""

    slots: Codes
    ends: Times
    weights: Codes
    """1 or -1."""
    elements: Codes
    """The position in the batch."""

    @classmethod
    def of_batch(cls, batch: Batch, slots: Codes) -> CountMoves:
        """Of the elements of a batch by their slots, without those that have none (-1)."""
        held = np.flatnonzero(slots >= 0)
        if batch.is_adjust is None or batch.new_end is None:
            here = held[batch.end[held] > batch.start[held]]
            return cls(slots[here], batch.end[here], np.ones(len(here), np.int64), here)
        leaving = held[batch.is_adjust[held]]
        last = np.where(batch.is_adjust, batch.new_end, batch.end)
        coming = held[last[held] > batch.start[held]]
        which = np.concatenate([leaving, coming])
        ends = np.concatenate([batch.end[leaving], last[coming]])
        weights = np.ones(len(which), np.int64)
        weights[: len(leaving)] = -1
        return cls(slots[which], ends, weights, which)

    def filter(self, mask: Bools) -> CountMoves:
        return CountMoves(
            self.slots[mask], self.ends[mask], self.weights[mask], self.elements[mask]
        )

    def without_unknown(self, counts: EndCounts) -> CountMoves:
        """Without those that take a row which is not counted and does not come in this batch."""
        leaving = self.weights < 0
        counted = counts.count(self.slots, self.ends) > 0
        return self.filter(~leaving | counted | np.isin(self.slots, self.slots[~leaving]))

    def first_unfounded(self, counts: EndCounts, capacity: int) -> int:
        """The position of the first element that takes a row which is not there then; -1 if there
        is none. Slots from `capacity` on are of rows that come with this batch."""
        if not len(self.slots):
            return -1
        turns = 2 * self.elements + (self.weights > 0)
        order = np.lexsort((turns, self.ends, self.slots))
        slots, ends, weights = self.slots[order], self.ends[order], self.weights[order]
        new = np.ones(len(slots), np.bool_)
        new[1:] = (slots[1:] != slots[:-1]) | (ends[1:] != ends[:-1])
        before = np.zeros(len(slots), np.int64)
        held = slots < capacity
        before[held] = counts.count(slots[held], ends[held])
        running = np.cumsum(weights)
        first = np.maximum.accumulate(np.where(new, np.arange(len(slots)), 0))
        running = running - (running[first] - weights[first]) + before
        bad = running < 0
        return int(self.elements[order[bad]].min()) if bad.any() else -1

"""The elements of a batch as changes of counts by slot and end. An adjust is a removal at the old
end, then an addition at the new end."""

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
    """Parallel columns, all removals before all additions."""

    slots: Codes
    ends: Times
    weights: Codes
    """1 or -1."""
    elements: Codes
    """The position in the batch."""

    @classmethod
    def of_batch(cls, batch: Batch, slots: Codes) -> CountMoves:
        """The changes of a batch, whose elements have these slots; those without one (-1) are left
        out."""
        held = np.flatnonzero(slots >= 0)
        if batch.is_adjust is None or batch.new_end is None:
            here = held[batch.end[held] > batch.start[held]]
            return cls(slots[here], batch.end[here], np.ones(len(here), np.int64), here)
        removed = held[batch.is_adjust[held]]
        last_end = np.where(batch.is_adjust, batch.new_end, batch.end)
        added = held[last_end[held] > batch.start[held]]
        elements = np.concatenate([removed, added])
        ends = np.concatenate([batch.end[removed], last_end[added]])
        weights = np.ones(len(elements), np.int64)
        weights[: len(removed)] = -1
        return cls(slots[elements], ends, weights, elements)

    def filter(self, mask: Bools) -> CountMoves:
        return CountMoves(
            self.slots[mask], self.ends[mask], self.weights[mask], self.elements[mask]
        )

    def without_unknown(self, counts: EndCounts) -> CountMoves:
        """Without removals of rows that are neither counted nor added by this batch."""
        removed = self.weights < 0
        counted = counts.count(self.slots, self.ends) > 0
        return self.filter(~removed | counted | np.isin(self.slots, self.slots[~removed]))

    def first_unfounded(self, counts: EndCounts, capacity: int) -> int:
        """The position of the first element that removes a row which is not there by then; -1 if
        there is none. Slots from `capacity` on are of rows that this batch adds."""
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

"""A change of the left rows of a chronicle, while the queues are matched again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import INFINITY, Times, greatest, least
from thalweg.operators.patterns.chronicle_queues import Look
from thalweg.state import Hits

__all__ = ["LeftChange"]


@dataclass(frozen=True, slots=True)
class LeftChange:
    """Left rows that are added and removed, each by itself, with their groups; removed ones with
    the time at which they would have left the queue."""

    rows: Delta
    group: Codes
    leaves: Times
    removed: Bools

    @classmethod
    def none(cls, schema: pa.Schema) -> LeftChange:
        nothing = np.empty(0, np.int64)
        return cls(Delta.empty(schema), nothing, nothing, np.empty(0, np.bool_))

    @classmethod
    def adding(cls, delta: Delta, group: Codes) -> LeftChange:
        """The rows that a change adds."""
        if greatest(delta.weight) > 1 or least(delta.weight) < 1:
            unit = np.repeat(np.arange(len(delta)), np.maximum(delta.weight, 0))
            delta, group = delta.take(unit), group[unit]
        size = len(delta)
        return cls(delta, group, np.full(size, INFINITY), np.zeros(size, np.bool_))

    def and_removing(self, removed: Hits) -> LeftChange:
        """The same change, and held rows that it removes."""
        held = removed.delta()
        rows = Delta(held.payload, held.start, removed.mark(0), held.weight)
        return LeftChange(
            Delta.concat([self.rows, rows], self.rows.schema),
            np.concatenate([self.group, removed.group]),
            np.concatenate([self.leaves, held.end]),
            np.concatenate([self.removed, np.ones(len(held), np.bool_)]),
        )

    def during(self, look: Look) -> tuple[LeftChange, Codes]:
        """The rows that are in the queue during a look, and the number of their key there."""
        which, key = look.contains(self.group, self.leaves, self.rows.start)
        if len(which) == len(self.group):
            return self, key
        part = LeftChange(
            self.rows.take(which), self.group[which], self.leaves[which], self.removed[which]
        )
        return part, key

"""The changes that a merge makes to its output, gathered by slot and turned into elements once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import Times

__all__ = ["Changes"]


@dataclass(slots=True)
class Changes:
    """Adjusts (a removal is an adjust to the start), then inserts. They refer to slots, so they are
    turned into a batch before any of the slots is freed."""

    adjusted: list[tuple[Codes, Times, Times]] = field(default_factory=list)
    inserted: list[tuple[Codes, Times]] = field(default_factory=list)

    def adjust(self, slots: Codes, end: Times, new_end: Times) -> None:
        if len(slots):
            self.adjusted.append((slots, end, new_end))

    def insert(self, slots: Codes, end: Times) -> None:
        if len(slots):
            self.inserted.append((slots, end))

    def to_batch(self, start: Times, take: Callable[[Codes], Rows], schema: pa.Schema) -> Batch:
        """The changes as elements; `start` is by slot and `take` returns the payloads of slots."""
        if not self.adjusted and not self.inserted:
            return Batch.empty(schema)
        slots = np.concatenate([s for s, *_ in self.adjusted] + [s for s, _ in self.inserted])
        end = np.concatenate([e for _, e, _ in self.adjusted] + [e for _, e in self.inserted])
        payload = take(slots)
        if not self.adjusted:
            return Batch(payload, start[slots], end)
        new_end = np.concatenate([n for *_, n in self.adjusted] + [e for _, e in self.inserted])
        count = sum(len(s) for s, *_ in self.adjusted)
        return Batch(payload, start[slots], end, new_end, np.arange(len(slots)) < count)

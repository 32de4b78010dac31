"""The types of snapshots and of the size of state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from thalweg.model.rows import Rows

__all__ = ["Slices", "StateSize"]

Slices: TypeAlias = dict[str, Rows]
"""A snapshot: named Arrow record batches. A slice that did not change is the same object as in the
snapshot before, so that a runner writes only the others."""


@dataclass(frozen=True, slots=True)
class StateSize:
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: StateSize) -> StateSize:
        return StateSize(self.rows + other.rows, self.bytes + other.bytes)

"""A chunk of payloads: immutable rows, and the slot of each.

Rows are dropped one by one, without moving the others. Mostly the oldest are dropped first, so that
`dropped` counts the leading places of which no row is left.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.model.rows import Rows, copy_rows, take_rows
from thalweg.operators.merging.slot_ranges import (
    Slots,
    as_slice,
    bytes_of,
    count_of,
    listed,
    part_of,
)

__all__ = ["Chunk", "same_rows"]


@dataclass(slots=True)
class Chunk:
    rows: Rows
    slots: Slots
    """By place. A slot that was reused has its row in another chunk."""
    live: int
    """How many rows have not been dropped."""
    dropped: int = 0
    """All rows at places before this one were dropped."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + bytes_of(self.slots)

    @property
    def whole(self) -> bool:
        """Whether no row from the place `dropped` on was dropped."""
        return self.live == len(self) - self.dropped

    def between(self, begin: int, end: int) -> Slots:
        """The slots of the places in [begin, end)."""
        return part_of(self.slots, slice(begin, min(end, len(self))))

    def take(self, places: Slots) -> Rows:
        """The rows at some places. A small part is copied, so that it does not hold the rest."""
        places = as_slice(places)
        if not isinstance(places, slice):
            return take_rows(self.rows, places)
        rows = self.rows.slice(places.start, count_of(places))
        return rows if 2 * rows.num_rows >= len(self) else copy_rows(rows)


def same_rows(held: Rows, places: Slots, rows: Rows, positions: Slots) -> bool:
    """Whether the rows at some places equal those at as many positions. Where the gaps between
    them are the same on both sides, the rows in the gaps are compared too, which saves a copy."""
    if isinstance(places, slice) and isinstance(positions, slice):
        return _equal(held, places.start, rows, positions.start, count_of(places))
    here, there = listed(places), listed(positions)
    if not len(here):
        return True
    first, span = int(here[0]), int(here[-1] - here[0]) + 1
    begin = int(there[0])
    if (there - here == begin - first).all() and _equal(held, first, rows, begin, span):
        return True
    if span == len(here) == there[-1] - there[0] + 1:
        return False
    return bool(take_rows(held, here).equals(take_rows(rows, there)))


def _equal(held: Rows, first: int, rows: Rows, begin: int, count: int) -> bool:
    return bool(held.slice(first, count).equals(rows.slice(begin, count)))

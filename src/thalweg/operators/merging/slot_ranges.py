"""Consecutive slots as a slice: columns are read and written several times as fast by a slice as by
an array of positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, overload

import numpy as np

from thalweg.model.rows import Bools, Codes

__all__ = [
    "Slots",
    "as_slice",
    "bytes_of",
    "copied",
    "count_of",
    "joined",
    "listed",
    "part_of",
    "slot_at",
    "where",
]

Slots: TypeAlias = Codes | slice
"""Slots, or positions: an index of a NumPy column."""

_FEW = 64
"""Fewer slots than this are read as fast by an array as by a slice."""


@overload
def as_slice(slots: slice) -> slice: ...
@overload
def as_slice(slots: Slots) -> Slots: ...
def as_slice(slots: Slots) -> Slots:
    """Consecutive slots as a slice; others as they are.

    >>> as_slice(np.arange(100, 200)), as_slice(np.array([3, 5]))
    (slice(100, 200, None), array([3, 5]))
    """
    if isinstance(slots, slice):
        return slots
    count = len(slots)
    if count < _FEW or int(slots[-1]) - int(slots[0]) != count - 1:
        return slots
    first = int(slots[0])
    return slice(first, first + count) if (slots[1:] - slots[:-1] == 1).all() else slots


def where(mask: Bools) -> Slots:
    """The positions at which a mask holds; a slice where they are the first or the last ones.

    >>> where(np.array([False, True, True])), where(np.array([True, False, True]))
    (slice(1, 3, None), array([0, 2]))
    """
    size, count = len(mask), int(np.count_nonzero(mask))
    if mask[size - count :].all():
        return slice(size - count, size)
    return slice(0, count) if mask[:count].all() else np.flatnonzero(mask)


def listed(slots: Slots) -> Codes:
    """The slots as an array."""
    return np.arange(slots.start, slots.stop) if isinstance(slots, slice) else slots


def count_of(slots: Slots) -> int:
    return slots.stop - slots.start if isinstance(slots, slice) else len(slots)


def bytes_of(slots: Slots) -> int:
    """The bytes of the slots as an array, so that sizes do not depend on the representation."""
    return 8 * count_of(slots)


def slot_at(slots: Slots, position: int) -> int:
    return int(slots.start + position if isinstance(slots, slice) else slots[position])


def copied(slots: Slots) -> Slots:
    """The slots in memory of their own, if they are a view of a larger array."""
    return slots if isinstance(slots, slice) else slots.copy()


def joined(parts: Sequence[Slots]) -> Slots:
    """The parts as one, in order.

    >>> joined([slice(10, 20), slice(20, 30)]), joined([slice(8, 9), slice(2, 3)])
    (slice(10, 30, None), array([8, 2]))
    """
    full = [part for part in parts if count_of(part)]
    first, last = (full[0], full[-1]) if full else (slice(0, 0), slice(0, 0))
    if isinstance(first, slice) and isinstance(last, slice):
        ends = [getattr(part, "stop", None) for part in full]
        if ends[:-1] == [getattr(part, "start", None) for part in full[1:]]:
            return slice(first.start, last.stop)
    return np.concatenate([*map(listed, full)])


def part_of(slots: Slots, positions: Slots) -> Slots:
    """The slots at some positions.

    >>> part_of(slice(10, 20), slice(2, 4)), part_of(slice(10, 20), np.array([1, 7]))
    (slice(12, 14, None), array([11, 17]))
    """
    if not isinstance(slots, slice):
        return slots[positions]
    if isinstance(positions, slice):
        return slice(slots.start + positions.start, slots.start + positions.stop)
    listing: Codes = slots.start + positions
    return listing

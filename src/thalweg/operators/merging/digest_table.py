"""A hash table from digests to slots, for many keys at a time.

Open addressing with linear probing, in NumPy: a lookup takes as many rounds as the longest probe,
and every round works on all keys that are not settled yet. At most half of the places are used, so
a key costs a constant number of steps whatever the table holds.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from thalweg.model.digests import Digests
from thalweg.model.rows import Bools, Codes
from thalweg.operators.merging.slot_ranges import Slots, as_slice, listed

__all__ = ["ABSENT_SLOT", "DigestTable", "grown"]

T = TypeVar("T", bound=np.generic)

ABSENT_SLOT = -1
_EMPTY, _DELETED = -1, -2
_SMALLEST = 64
_LARGE = 8
"""Slots for a batch should be consecutive if they are at least an eighth of all slots."""


class DigestTable:
    """Slots by digest. Slots are small numbers that the table assigns and reuses.

    >>> from thalweg.model.digests import digest_rows
    >>> table = DigestTable()
    >>> digests = digest_rows([np.array([5, 6, 7])], 3)
    >>> slots = table.add(digests)
    >>> table.remove(slots[:1])
    >>> table.find(digests).tolist() == [-1, *slots[1:].tolist()]
    True
    """

    def __init__(self) -> None:
        self.high = np.zeros(_SMALLEST, np.uint64)
        self.low = np.zeros(_SMALLEST, np.uint64)
        self._place = np.zeros(_SMALLEST, np.int32)
        self.linked: Bools = np.zeros(_SMALLEST, np.bool_)
        """By slot: whether a lookup of its digest finds it."""
        self._free: Codes = np.arange(_SMALLEST)
        """A ring buffer: free slots are reused in the order in which they were freed, so that rows
        that are added and removed together have consecutive slots, which are read faster."""
        self._next_free = 0
        self._free_count = _SMALLEST
        self._table: npt.NDArray[np.int32] = np.full(4 * _SMALLEST, _EMPTY, np.int32)
        self._deleted = 0
        self.operations = 0
        """Places that were looked at, for measurements."""

    def __len__(self) -> int:
        return len(self.low) - self._free_count

    @property
    def capacity(self) -> int:
        """Slots are below this number. Columns that are kept by slot grow with it."""
        return len(self.low)

    @property
    def nbytes(self) -> int:
        columns = (self.high, self.low, self._place, self.linked, self._free, self._table)
        return sum(column.nbytes for column in columns)

    def used(self) -> Codes:
        """The slots whose digests are found, in order."""
        return np.flatnonzero(self.linked)

    def find(self, digests: Digests) -> Codes:
        """The slot of each digest; -1 where there is none."""
        high, low = digests.high, digests.low
        mask = np.int64(len(self._table) - 1)
        at = low.view(np.int64) & mask
        self.operations += len(digests)
        slot = self._table[at]
        hit = (slot >= 0) & (self.low[slot] == low) & (self.high[slot] == high)
        found = np.where(hit, slot, ABSENT_SLOT).astype(np.int64)
        open_ = np.flatnonzero((slot != _EMPTY) & ~hit)
        at = (at[open_] + 1) & mask
        while len(open_):
            self.operations += len(open_)
            slot = self._table[at]
            hit = (slot >= 0) & (self.low[slot] == low[open_]) & (self.high[slot] == high[open_])
            found[open_[hit]] = slot[hit]
            on = (slot != _EMPTY) & ~hit
            open_, at = open_[on], (at[on] + 1) & mask
        return found

    def add(self, digests: Digests) -> Codes:
        """Add digests, which differ from each other and from those in the table; returns a slot for
        each."""
        slots = self.reserve(len(digests))
        self.link(slots, digests)
        return slots

    def reserve(self, count: int) -> Codes:
        """Slots for rows whose digests are made later (`link`)."""
        if count > self._free_count:
            self._grow(count)
        slots = self._free_slots(count)
        if _LARGE * count >= self.capacity and not isinstance(as_slice(slots), slice):
            self._order_free(count)
            slots = self._free_slots(count)
        self._next_free = (self._next_free + count) & (self.capacity - 1)
        self._free_count -= count
        return slots

    def _free_slots(self, count: int) -> Codes:
        """The slots that are assigned next."""
        slots = self._free[self._next_free : self._next_free + count].copy()
        if len(slots) == count:
            return slots
        return np.concatenate([slots, self._free[: count - len(slots)]])

    def _order_free(self, count: int) -> None:
        """Sort the free slots, and begin with the first run of `count` consecutive ones."""
        free = np.sort(self._free_slots(self._free_count), kind="stable")  # a few runs
        begins = np.flatnonzero(np.diff(free, prepend=-2) != 1)
        enough = begins[np.diff(begins, append=len(free)) >= count]
        first = int(enough[0]) if len(enough) else 0
        self._free[: len(free)] = np.concatenate([free[first:], free[:first]])
        self._next_free = 0

    def link(self, slots: Codes, digests: Digests) -> None:
        """Set the digests of reserved slots. They must differ as those for `add`."""
        self.high[slots], self.low[slots] = digests.high, digests.low
        self.linked[slots] = True
        if 2 * (len(self) + self._deleted) > len(self._table):
            self._rebuild()
        else:
            self._put(slots)

    def add_at(self, slots: Codes, digests: Digests) -> None:
        """Fill an empty table with the slots of a saved one."""
        if not len(slots):
            return
        if int(slots.max()) >= self.capacity:
            self._grow(int(slots.max()) + 1)
        used = np.zeros(self.capacity, np.bool_)
        used[slots] = True
        free = np.flatnonzero(~used)
        self._free[: len(free)] = free
        self._next_free, self._free_count = 0, len(free)
        self.high[slots], self.low[slots] = digests.high, digests.low
        self.linked[slots] = True
        self._rebuild()

    def remove(self, slots: Codes) -> None:
        """Remove digests and free their slots."""
        self.unlink(slots)
        self.free(slots)

    def unlink(self, slots: Codes) -> None:
        """Remove digests; their slots stay reserved until `free`."""
        self._table[self._place[slots]] = _DELETED
        self._deleted += len(slots)
        self.linked[slots] = False

    def free(self, slots: Slots) -> None:
        """Let slots be assigned again."""
        slots = listed(slots)
        begin = (self._next_free + self._free_count) & (self.capacity - 1)
        room = self.capacity - begin
        self._free[begin : begin + len(slots)] = slots[:room]
        if len(slots) > room:
            self._free[: len(slots) - room] = slots[room:]
        self._free_count += len(slots)

    def _put(self, slots: Codes) -> None:
        mask = np.int64(len(self._table) - 1)
        at = self.low[slots].view(np.int64) & mask
        while len(slots):
            self.operations += len(slots)
            before = self._table[at]
            free = before < 0
            self._table[at[free]] = slots[free]  # the last of several slots for a place gets it
            placed = self._table[at] == slots
            self._deleted -= int(np.count_nonzero(before[placed] == _DELETED))
            self._place[slots[placed]] = at[placed]
            slots, at = slots[~placed], (at[~placed] + 1) & mask

    def _rebuild(self) -> None:
        size = len(self._table)
        while 2 * len(self) > size // 2:
            size *= 2
        while size > 4 * _SMALLEST and 16 * len(self) < size:
            size //= 2
        self._table = np.full(size, _EMPTY, np.int32)
        self._deleted = 0
        self._put(self.used())

    def _grow(self, count: int) -> None:
        old = self.capacity
        new = old
        while new - (old - self._free_count) < count:
            new *= 2
        self.high = grown(self.high, new)
        self.low = grown(self.low, new)
        self._place = grown(self._place, new)
        self.linked = grown(self.linked, new)
        free = np.empty(new, np.int64)
        kept = np.roll(self._free, -self._next_free)[: self._free_count]
        free[: len(kept)] = kept
        free[len(kept) : len(kept) + new - old] = np.arange(old, new)
        self._free, self._next_free = free, 0
        self._free_count += new - old


def grown(column: npt.NDArray[T], size: int, fill: int = 0) -> npt.NDArray[T]:
    """A column, or the columns of a matrix, extended to `size` entries."""
    if column.shape[-1] >= size:
        return column
    larger = np.full((*column.shape[:-1], size), fill, column.dtype)
    larger[..., : column.shape[-1]] = column
    return larger

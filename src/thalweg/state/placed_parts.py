"""Items in columns, each of a group and at a place: a part of a slice, and the tail.

A part is searched by place and by key. The tail holds the items of small batches, which are joined
when they are first read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from thalweg.model.rows import Codes, Rows
from thalweg.model.time import least

__all__ = ["Found", "Part", "Placed", "Tail", "key_of"]

_FEW = 64
"""Up to this many items are compared with every probe; more are sorted once and searched."""


class Placed(Protocol):
    """Items in columns."""

    @property
    def group(self) -> Codes: ...

    @property
    def place(self) -> Codes: ...

    @property
    def nbytes(self) -> int: ...

    def __len__(self) -> int: ...

    def take(self, which: Codes | slice) -> Self: ...

    def renumbered(self, moved: Codes) -> Self:
        """The same items with other numbers of groups."""


T = TypeVar("T", bound=Placed)
Found = tuple[T, Codes, Codes]
"""Hits: items, positions among them, and the probe of each position."""


@dataclass(slots=True, eq=False)
class Part(Generic[T]):
    items: T
    in_order: bool = False
    """Whether the items are known to be in the order of their places."""
    name: str = ""
    """The name of its slice in snapshots."""
    written: Rows | None = None
    """That slice; None: it must be written."""
    skipped: int = 0
    """How many leading items of that slice were dropped since."""
    by_key: _ByKey | None = None
    """The index of keys, made with the first search."""

    def find(self, key: Codes) -> tuple[Codes, Codes]:
        """Positions of the items with some keys, and which of the keys each has."""
        if len(self.items) * len(key) <= _FEW * _FEW:
            which, at = np.nonzero(key[:, None] == key_of(self.items.group, self.items.place))
            return at, which
        if self.by_key is None:
            self.by_key = _ByKey(key_of(self.items.group, self.items.place))
        return self.by_key.find(key)

    def arrange(self) -> None:
        """Sort the items by place."""
        if self.in_order:
            return
        place = self.items.place
        if (place[1:] < place[:-1]).any():
            self.change(self.items.take(np.argsort(place, kind="stable")))
        self.in_order = True

    def change(self, items: T) -> None:
        self.items = items
        self.written = self.by_key = None
        self.skipped = 0

    def skip(self, count: int) -> T:
        """Remove and return the first items; the written slice stays valid."""
        first = self.items.take(slice(0, count))
        self.items = self.items.take(slice(count, len(self.items)))
        self.skipped += count
        if self.by_key is not None:
            self.by_key.skipped += count
        return first

    def renumber(self, moved: Codes) -> None:
        """Change the numbers of groups to `moved[old]`, in the same order. The written slice stays
        valid: it holds keys."""
        self.items = self.items.renumbered(moved)
        self.by_key = None

    def until(self, place: int) -> int:
        """How many items lie before a place."""
        self.arrange()
        return int(self.items.place.searchsorted(place))


class _ByKey:
    """Sorted keys, and the position of each. For leading items that were dropped, their number is
    subtracted."""

    def __init__(self, key: Codes) -> None:
        self._order = np.argsort(key, kind="stable")
        self._keys = key.take(self._order)
        self._distinct = bool((self._keys[1:] != self._keys[:-1]).all())
        self.skipped = 0

    def find(self, key: Codes) -> tuple[Codes, Codes]:
        """Positions of the items with some keys, and which of the keys each has."""
        low = self._keys.searchsorted(key)
        if self._distinct:
            which = (self._keys.take(low, mode="clip") == key).nonzero()[0]
            at = self._order.take(low.take(which))
        else:
            count = self._keys.searchsorted(key, "right") - low
            which = np.repeat(np.arange(len(key)), count)
            offset = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
            at = self._order.take(low.take(which) + offset)
        if not self.skipped:
            return at, which
        left = (at >= self.skipped).nonzero()[0]
        return at.take(left) - self.skipped, which.take(left)


class Tail(Generic[T]):
    """The items of small batches, until they are divided among slices."""

    def __init__(self, concat: Callable[[Sequence[T]], T]) -> None:
        self._concat = concat
        self._items: T | None = None
        self._part: Part[T] | None = None
        self._added: list[T] = []
        """Items that were added since the last join."""
        self._passed: int | None = None
        """Items up to this place are dropped at the next join."""
        self.count = 0
        """An upper bound of the number of items."""

    def add(self, items: T) -> None:
        if self._passed is not None and least(items.place) <= self._passed:
            self.items()
        self._added.append(items)
        self.count += len(items)

    def items(self) -> T | None:
        """All items, or None."""
        if self._added:
            parts = self._added if self._items is None else [self._items, *self._added]
            self._hold(self._concat(parts))
        passed, self._passed = self._passed, None
        if passed is not None and self._items is not None:
            after = self._items.place > passed
            if np.count_nonzero(after) < len(after):
                self.replace(self._items.take(after.nonzero()[0]))
        return self._items

    def part(self) -> Part[T] | None:
        """All items as a part, or None."""
        items = self.items()
        if self._part is None and items is not None:
            self._part = Part(items)
        return self._part

    def replace(self, items: T | None, written: Rows | None = None) -> None:
        """Replace all items."""
        self._passed = None
        self._hold(None if items is None or not len(items) else items)
        if self._items is not None and written is not None:
            self._part = Part(self._items, written=written)

    def _hold(self, items: T | None) -> None:
        self._items, self._part, self._added = items, None, []
        self.count = 0 if items is None else len(items)

    def renumber(self, moved: Codes) -> None:
        """Change the numbers of groups to `moved[old]`. The written slice stays valid: it holds
        keys."""
        part = self.part()
        if part is not None:
            part.renumber(moved)
            self._items = part.items

    def drop_until(self, place: int) -> None:
        """Forget the items up to and including a place."""
        if self.count:
            self._passed = place if self._passed is None else max(place, self._passed)

    def take_until(self, place: int) -> T | None:
        """Remove and return the items up to and including a place."""
        items = self.items()
        if items is None:
            return None
        before = items.place <= place
        count = np.count_nonzero(before)
        if not count:
            return None
        if count == len(before):
            self._hold(None)
            return items
        self._hold(items.take((~before).nonzero()[0]))
        return items.take(before.nonzero()[0])


def key_of(group: Codes, place: Codes) -> Codes:
    """Group and place as one number, distinct unless they are too large for 32 bits each."""
    return (group << 32) + place

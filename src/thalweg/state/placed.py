"""Items of groups, each at a place, in slices of neighbouring places.

A place is a window or a time. A slice is a list of parts that are put together now and then, so that
adding costs what is added. A slice is a power of two wide; where there are too many, neighbours are
joined. What a batch touches is written again by the slice; the places behind a CTI go with theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from thalweg.model.rows import Bools, Codes, Rows, used_codes
from thalweg.model.time import greatest, least
from thalweg.state.slices import Slices, StateSize

__all__ = ["Found", "Placed", "PlacedSlices"]

_MOST = 192
"""Slices; when there are more, they become twice as wide."""
_PARTS = 16
"""Parts of a slice that are kept apart before they are put together."""
_FEW = 64
"""So few items are compared with every probe; more are sorted once and searched."""


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
        """The same with other numbers of groups."""


T = TypeVar("T", bound=Placed)
Found = tuple[T, Codes, Codes]
"""Items, positions among them, and the probe that found each."""


@dataclass(slots=True, eq=False)
class _Part(Generic[T]):
    items: T
    order: Codes | None = None
    """Positions by key, once the part was searched; and the keys in that order."""
    keys: Codes | None = None

    def find(self, key: Codes, begin: int, bits: int) -> tuple[Codes, Codes]:
        """Positions of the items with some keys, and which of the keys each has."""
        if len(self.items) * len(key) <= _FEW * _FEW:
            which, at = np.nonzero(key[:, None] == _keys_of(self.items, begin, bits))
            return at, which
        if self.order is None or self.keys is None:
            every = _keys_of(self.items, begin, bits)
            self.order = np.argsort(every, kind="stable")
            self.keys = every[self.order]
        low, high = np.searchsorted(self.keys, key), np.searchsorted(self.keys, key, "right")
        count = high - low
        which = np.repeat(np.arange(len(key)), count)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        return self.order[low[which] + offset], which


@dataclass(slots=True, eq=False)
class _Slice(Generic[T]):
    parts: list[_Part[T]]
    written: Rows | None = None


class PlacedSlices(Generic[T]):
    """`joined` makes one part of several: of those of equal group and place one item, where it
    can."""

    def __init__(self, joined: Callable[[Sequence[T]], T]) -> None:
        self._joined = joined
        self.clear()

    def clear(self) -> None:
        self._slices: dict[int, _Slice[T]] = {}
        self._bits = 0

    def __bool__(self) -> bool:
        return bool(self._slices)

    def __len__(self) -> int:
        return sum(len(part.items) for each in self._slices.values() for part in each.parts)

    # ----------------------------------------------------------------------------------------------
    # change

    def add(self, items: T) -> None:
        if not len(items):
            return
        if not self._slices:
            span = greatest(items.place) - least(items.place)
            self._bits = (span // (_MOST // 2)).bit_length()
        for number, part in self._cut(items):
            known = self._slices.get(number)
            if known is None:
                self._slices[number] = _Slice([_Part(part)])
                continue
            known.parts.append(_Part(part))
            known.written = None
            if len(known.parts) >= _PARTS:
                self._gather(known)
        if len(self._slices) > _MOST:
            self._widen()

    def _cut(self, items: T) -> Iterator[tuple[int, T]]:
        """The items of each slice."""
        number = items.place >> self._bits
        low, high = least(number), greatest(number)
        if low == high:
            yield low, items
            return
        order = np.argsort(number, kind="stable")
        ordered, numbers = items.take(order), number[order]
        cuts = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
        for begin, end in pairwise([0, *cuts, len(numbers)]):
            yield int(numbers[begin]), ordered.take(slice(begin, end))

    def _gather(self, each: _Slice[T]) -> T:
        """All items of a slice as one part."""
        if len(each.parts) > 1:
            each.parts = [_Part(self._joined([part.items for part in each.parts]))]
        return each.parts[0].items

    def _widen(self) -> None:
        while len(self._slices) > _MOST // 2:
            self._bits += 1
            slices, self._slices = self._slices, {}
            for number, each in slices.items():
                half = self._slices.setdefault(number >> 1, _Slice([]))
                half.parts += [_Part(part.items) for part in each.parts]
        for each in self._slices.values():
            self._gather(each)

    def take_until(self, place: int) -> list[T]:
        """Remove and return the items up to and including a place."""
        taken: list[T] = []
        for number in [n for n in self._slices if n << self._bits <= place]:
            each = self._slices.pop(number)
            if ((number + 1) << self._bits) - 1 <= place:
                taken += [part.items for part in each.parts]
                continue
            items = self._gather(each)
            over = items.place <= place
            if not over.any():
                self._slices[number] = each
                continue
            taken.append(items.take(np.flatnonzero(over)))
            if not over.all():
                self._slices[number] = _Slice([_Part(items.take(np.flatnonzero(~over)))])
        return taken

    def drop(
        self, gone: Callable[[T], Bools], low: int | None = None, beyond: int | None = None
    ) -> None:
        """Forget items, of all places or of some."""
        near = list(self._slices.items())
        if low is not None and beyond is not None:
            near = self._near(low, beyond)
        for number, each in near:
            kept: list[_Part[T]] = []
            for part in each.parts:
                over = gone(part.items)
                if not over.any():
                    kept.append(part)
                    continue
                each.written = None
                if not over.all():
                    kept.append(_Part(part.items.take(np.flatnonzero(~over))))
            each.parts = kept
            if not kept:
                del self._slices[number]

    def renumber(self, moved: Codes) -> None:
        """Groups have got new numbers, in the same order. What was written stays as it is: keys."""
        for each in self._slices.values():
            each.parts = [_Part(part.items.renumbered(moved)) for part in each.parts]

    # ----------------------------------------------------------------------------------------------
    # find

    def _near(self, low: int, beyond: int) -> list[tuple[int, _Slice[T]]]:
        first, last = low >> self._bits, (beyond - 1) >> self._bits
        if last - first >= len(self._slices):
            return [(n, each) for n, each in self._slices.items() if first <= n <= last]
        numbers = range(first, last + 1)
        return [(n, self._slices[n]) for n in numbers if n in self._slices]

    def between(self, low: int, beyond: int, *, gather: bool = False) -> list[T]:
        """Items with low <= place < beyond. With `gather` each slice is put together first."""
        found: list[T] = []
        for number, each in self._near(low, beyond):
            if gather:
                self._gather(each)
            whole = number << self._bits >= low and (number + 1) << self._bits <= beyond
            for part in each.parts:
                if whole:
                    found.append(part.items)
                    continue
                place = part.items.place
                inside = np.flatnonzero((place >= low) & (place < beyond))
                if len(inside):
                    found.append(part.items.take(inside))
        return found

    def find(self, group: Codes, place: Codes, *, change: bool = False) -> list[Found[T]]:
        """The items of some groups at some places. With `change` the caller changes them in
        place."""
        found: list[Found[T]] = []
        if not len(group):
            return found
        for number, each in self._near(int(place.min()), int(place.max()) + 1):
            probes = np.flatnonzero(place >> self._bits == number)
            if not len(probes):
                continue
            begin = number << self._bits
            key = (group[probes] << self._bits) + (place[probes] - begin)
            for part in each.parts:
                at, which = part.find(key, begin, self._bits)
                # Keys that do not fit into 64 bits are cut off: those found are looked at.
                which = probes[which]
                equal = (part.items.group[at] == group[which]) & (
                    part.items.place[at] == place[which]
                )
                if equal.any():
                    found.append((part.items, at[equal], which[equal]))
                    each.written = None if change else each.written
        return found

    def first(self, since: int | None = None) -> int | None:
        """The earliest place, of all or from one on, at which something is."""
        for number in sorted(self._slices):
            if since is not None and ((number + 1) << self._bits) <= since:
                continue
            place = self._gather(self._slices[number]).place
            place = place if since is None else place[place >= since]
            if len(place):
                return int(place.min())
        return None

    def last(self, before: int | None = None) -> int | None:
        """The latest place, of all or before one, at which something is."""
        for number in sorted(self._slices, reverse=True):
            if before is not None and number << self._bits >= before:
                continue
            place = self._gather(self._slices[number]).place
            place = place if before is None else place[place < before]
            if len(place):
                return int(place.max())
        return None

    def all(self, *, gather: bool = False) -> list[T]:
        if gather:
            return [self._gather(each) for each in self._slices.values()]
        return [part.items for each in self._slices.values() for part in each.parts]

    def groups(self) -> Codes:
        """The groups of which something is held."""
        return used_codes([items.group for items in self.all()])

    # ----------------------------------------------------------------------------------------------
    # snapshots

    def snapshot(self, name: str, write: Callable[[T], Rows]) -> Slices:
        """A slice under `<name>/<bits of its width>/<number>`."""
        slices: Slices = {}
        for number, each in list(self._slices.items()):
            if each.written is None:
                items = self._gather(each)
                if not len(items):
                    del self._slices[number]
                    continue
                each.written = write(items)
            slices[f"{name}/{self._bits}/{number}"] = each.written
        return slices

    def restore(self, name: str, slices: Mapping[str, Rows], read: Callable[[Rows], T]) -> None:
        """The inverse of `snapshot`."""
        self.clear()
        for key, rows in slices.items():
            owner, *marks = key.split("/")
            if owner == name:
                self._bits = int(marks[0])
                self._slices[int(marks[1])] = _Slice([_Part(read(rows))], rows)

    def size(self) -> StateSize:
        parts = self.all()
        return StateSize(sum(map(len, parts)), sum(part.nbytes for part in parts))


def _keys_of(items: Placed, begin: int, bits: int) -> Codes:
    """Group and place within a slice as one number."""
    return (items.group << bits) + (items.place - begin)

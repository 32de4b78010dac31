"""Items of groups, each at a place, in slices of neighbouring places.

A place is a window or a time. A slice is a power of two wide; where there are too many, neighbours
are joined. A slice is a list of parts. When there are many, the later parts are merged, and with an
older part once they have grown to its size, so that an item is copied a few times only. The items
of small batches wait in one tail for all slices.

The items that a batch adds are written as parts of their own. Places before a CTI are dropped with
their slices; for a slice that a CTI divides, only the number of dropped items is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Bools, Codes, Rows, used_codes
from thalweg.model.time import greatest, least
from thalweg.state.placed_parts import Found, Part, Placed, Tail, key_of
from thalweg.state.slices import Slices, StateSize

__all__ = ["PlacedSlices"]

_MOST = 64
"""The most slices; when there are more, they become twice as wide."""
_PARTS = 8
"""The most parts of a slice; when there are more, the later ones are merged."""
_TAIL = 256
"""The most items that wait before they are divided among slices."""

T = TypeVar("T", bound=Placed)


class PlacedSlices(Generic[T]):
    """`concat` joins several batches of items. `summed` merges items of equal group and place,
    where it can, and drops those that add up to nothing."""

    def __init__(
        self, concat: Callable[[Sequence[T]], T], summed: Callable[[T], T] | None = None
    ) -> None:
        self._concat = concat
        self._summed = _as_it_is if summed is None else summed
        self.clear()

    def clear(self) -> None:
        self._tail = Tail(self._concat)
        self._slices: dict[int, list[Part[T]]] = {}
        self._bits = 0
        self._serial = 0
        self._skipped: tuple[dict[str, int], Rows | None] = {}, None

    def __bool__(self) -> bool:
        return bool(self._slices) or self._tail.part() is not None

    def __len__(self) -> int:
        return sum(len(part.items) for part in self._parts())

    def _parts(self) -> Iterator[Part[T]]:
        tail = self._tail.part()
        if tail is not None:
            yield tail
        for parts in self._slices.values():
            yield from parts

    # --------------------------------------------------------------------------------------------
    # change

    def add(self, items: T) -> None:
        if not len(items):
            return
        if len(items) > _TAIL:
            self._divide(items)
            return
        self._tail.add(items)
        if self._tail.count > _TAIL:
            tail = self._tail.part()
            if tail is not None and len(tail.items) > _TAIL:
                self._tail.replace(None)
                self._divide(self._summed(tail.items))

    def _divide(self, items: T) -> None:
        """Give each slice its items."""
        if not len(items):
            return
        if not self._slices:
            span = greatest(items.place) - least(items.place)
            self._bits = (span // (_MOST // 2)).bit_length()
        for number, more in self._cut(items):
            parts = self._slices.setdefault(number, [])
            parts.append(Part(more))
            if len(parts) > _PARTS:
                self._tidy(parts)
                if not parts:  # all that it held adds up to nothing
                    del self._slices[number]
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

    def _tidy(self, parts: list[Part[T]]) -> None:
        """Merge the later half of the parts with each earlier part that is not much larger."""
        begin = len(parts) // 2
        size = sum(len(part.items) for part in parts[begin:])
        while begin and len(parts[begin - 1].items) <= 2 * size:
            begin -= 1
            size += len(parts[begin].items)
        parts[begin:] = self._together(parts[begin:])

    def _together(self, parts: list[Part[T]]) -> list[Part[T]]:
        """Several parts as one; no part if their items add up to nothing."""
        if len(parts) < 2:
            return parts
        items = self._summed(self._concat([part.items for part in parts]))
        return [Part(items)] if len(items) else []

    def _gather(self, number: int) -> None:
        """Merge all parts of a slice."""
        parts = self._slices[number] = self._together(self._slices[number])
        if not parts:
            del self._slices[number]

    def _widen(self) -> None:
        while len(self._slices) > _MOST // 2:
            self._bits += 1
            slices, self._slices = self._slices, {}
            for number, parts in slices.items():
                half = self._slices.setdefault(number >> 1, [])
                half += [Part(part.items, part.in_order) for part in parts]
        for number in list(self._slices):
            self._gather(number)

    def take_until(self, place: int) -> list[T]:
        """Remove and return the items up to and including a place."""
        of_tail = self._tail.take_until(place)
        removed = self._take_of_slices(place)
        return removed if of_tail is None else [of_tail, *removed]

    def _take_of_slices(self, place: int) -> list[T]:
        removed: list[T] = []
        if not self._slices:
            return removed
        for number in [n for n in self._slices if n << self._bits <= place]:
            parts = self._slices.pop(number)
            if ((number + 1) << self._bits) - 1 <= place:
                removed += [part.items for part in parts]
                continue
            others: list[Part[T]] = []
            for part in parts:
                count = part.until(place + 1)
                if count == len(part.items):
                    removed.append(part.items)
                    continue
                others.append(part)
                if count:
                    removed.append(part.skip(count))
            if others:
                self._slices[number] = others
        return removed

    def drop_until(self, place: int) -> None:
        """Forget the items up to and including a place."""
        self._tail.drop_until(place)
        self._take_of_slices(place)

    def drop(
        self, drops: Callable[[T], Bools], low: int | None = None, beyond: int | None = None
    ) -> None:
        """Drop the items for which `drops` holds, at all places or at low <= place < beyond."""
        tail = self._tail.part()
        if tail is not None:
            dropped = drops(tail.items)
            if dropped.any():
                self._tail.replace(tail.items.take(np.flatnonzero(~dropped)))
        near = list(self._slices.items())
        if low is not None and beyond is not None:
            near = self._near(low, beyond)
        for number, parts in near:
            kept: list[Part[T]] = []
            for part in parts:
                dropped = drops(part.items)
                if dropped.all():
                    continue
                if dropped.any():
                    part.change(part.items.take(np.flatnonzero(~dropped)))
                kept.append(part)
            self._slices[number] = kept
            if not kept:
                del self._slices[number]

    def renumber(self, moved: Codes) -> None:
        """Change the numbers of groups to `moved[old]`, in the same order. Written slices stay
        valid: they hold keys."""
        self._tail.renumber(moved)
        for parts in self._slices.values():
            for part in parts:
                part.renumber(moved)

    # --------------------------------------------------------------------------------------------
    # find

    def _near(self, low: int, beyond: int) -> list[tuple[int, list[Part[T]]]]:
        first, last = low >> self._bits, (beyond - 1) >> self._bits
        if last - first >= len(self._slices):
            return [(n, each) for n, each in self._slices.items() if first <= n <= last]
        numbers = range(first, last + 1)
        return [(n, self._slices[n]) for n in numbers if n in self._slices]

    def between(self, low: int, beyond: int, *, summed: bool = False) -> list[T]:
        """Items with low <= place < beyond. With `summed` items of equal group and place are
        merged, given that each batch had at most one of them."""
        found: list[T] = []
        for number, parts in self._near(low, beyond):
            whole = number << self._bits >= low and (number + 1) << self._bits <= beyond
            for part in parts:
                if whole:
                    found.append(part.items)
                    continue
                begin, end = part.until(low), part.until(beyond)
                if begin < end:
                    found.append(part.items.take(slice(begin, end)))
        distinct = len(found) < 2
        tail = self._tail.part()
        if tail is not None:
            place = tail.items.place
            inside = ((place >= low) & (place < beyond)).nonzero()[0]
            if len(inside):
                found.append(tail.items.take(inside))
                distinct = False
        if summed and not distinct:
            found = [self._summed(self._concat(found))]
        return found

    def find(self, group: Codes, place: Codes) -> list[Found[T]]:
        """The items of some groups at some places."""
        found: list[Found[T]] = []
        if not len(group):
            return found
        key = key_of(group, place)

        def look(part: Part[T], probes: Codes | None) -> None:
            at, which = part.find(key if probes is None else key.take(probes))
            if not len(at):
                return
            which = which if probes is None else probes.take(which)
            # Large groups or places overflow the key, so that hits must be compared.
            equal = part.items.group.take(at) == group.take(which)
            equal &= part.items.place.take(at) == place.take(which)
            if np.count_nonzero(equal) < len(equal):
                at, which = at[equal], which[equal]
            found.append((part.items, at, which))

        tail = self._tail.part()
        if tail is not None:
            look(tail, None)
        near = self._near(least(place), greatest(place) + 1)
        if len(near) == 1:
            for part in near[0][1]:
                look(part, None)
            return found
        number = place >> self._bits
        order = np.argsort(number, kind="stable")
        numbers = np.array([each for each, _ in near], np.int64)
        ordered = number.take(order)
        begins, ends = ordered.searchsorted(numbers), ordered.searchsorted(numbers, "right")
        for begin, end, (_, parts) in zip(begins.tolist(), ends.tolist(), near, strict=True):
            if begin < end:
                for part in parts:
                    look(part, order[begin:end])
        return found

    def first(self, since: int | None = None) -> int | None:
        """The earliest place, of all or from `since` on, whose items add up to something."""
        while (place := self._lowest(since)) is not None and not self._is_at(place):
            since = place + 1
        return place

    def last(self, before: int | None = None) -> int | None:
        """The latest place, of all or before `before`, whose items add up to something."""
        while (place := self._highest(before)) is not None and not self._is_at(place):
            before = place
        return place

    def _is_at(self, place: int) -> bool:
        """Whether the items at a place add up to something; if not, they are dropped."""
        if any(len(items) for items in self.between(place, place + 1, summed=True)):
            return True
        if place >> self._bits in self._slices:
            self._gather(place >> self._bits)
        return False

    def _lowest(self, since: int | None) -> int | None:
        found = []
        tail = self._tail.part()
        if tail is not None:
            place = tail.items.place
            place = place if since is None else place[place >= since]
            found += [least(place)] if len(place) else []
        for number in sorted(self._slices):
            parts = self._arranged(number)
            begins = [0 if since is None else part.until(since) for part in parts]
            inside = [
                int(part.items.place[begin])
                for begin, part in zip(begins, parts, strict=True)
                if begin < len(part.items)
            ]
            if inside:
                return min([*found, *inside])
        return min(found, default=None)

    def _highest(self, before: int | None) -> int | None:
        found = []
        tail = self._tail.part()
        if tail is not None:
            place = tail.items.place
            place = place if before is None else place[place < before]
            found += [greatest(place)] if len(place) else []
        for number in sorted(self._slices, reverse=True):
            parts = self._arranged(number)
            ends = [len(part.items) if before is None else part.until(before) for part in parts]
            inside = [
                int(part.items.place[end - 1]) for end, part in zip(ends, parts, strict=True) if end
            ]
            if inside:
                return max([*found, *inside])
        return max(found, default=None)

    def _arranged(self, number: int) -> list[Part[T]]:
        parts = self._slices[number]
        for part in parts:
            part.arrange()
        return parts

    def all(self, *, gather: bool = False) -> list[T]:
        if gather:
            tail = self._tail.part()
            if tail is not None:
                self._tail.replace(None)
                self._divide(self._summed(tail.items))
            for number in list(self._slices):
                self._gather(number)
        return [part.items for part in self._parts()]

    def groups(self) -> Codes:
        """The groups of all items."""
        return used_codes([items.group for items in self.all()])

    # --------------------------------------------------------------------------------------------
    # snapshots

    def snapshot(self, name: str, write: Callable[[T], Rows]) -> Slices:
        """Each part as `<name>/<bits of the width of its slice>/<number of the slice>/<part>`, the
        tail as `<name>/tail`, and in `<name>/skipped` how many leading items of each part were
        dropped since it was written."""
        slices: Slices = {}
        skipped: dict[str, int] = {}
        for number, parts in self._slices.items():
            for part in parts:
                if part.written is None:
                    self._serial += 1
                    part.name = f"{name}/{self._bits}/{number}/{self._serial}"
                    part.arrange()
                    part.written, part.skipped = write(part.items), 0
                if part.skipped:
                    skipped[part.name] = part.skipped
                slices[part.name] = part.written
        tail = self._tail.part()
        if tail is not None:
            if tail.written is None:
                tail.written = write(tail.items)
            slices[f"{name}/tail"] = tail.written
        if skipped:
            if skipped != self._skipped[0]:
                columns = [pa.array([*skipped]), pa.array([*skipped.values()], pa.int64())]
                rows = pa.RecordBatch.from_arrays(columns, names=["part", "skipped"])
                self._skipped = skipped, rows
            assert self._skipped[1] is not None
            slices[f"{name}/skipped"] = self._skipped[1]
        return slices

    def restore(self, name: str, slices: Mapping[str, Rows], read: Callable[[Rows], T]) -> None:
        """The inverse of `snapshot`."""
        self.clear()
        skipped: dict[str, int] = {}
        if f"{name}/skipped" in slices:
            rows = slices[f"{name}/skipped"]
            skipped = dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))
            self._skipped = skipped, rows
        for key, rows in slices.items():
            owner, *marks = key.split("/")
            if owner != name or marks == ["skipped"]:
                continue
            items = read(rows)
            if marks == ["tail"]:
                self._tail.replace(items, written=rows)
                continue
            bits, number, *serial = map(int, marks)
            self._bits = bits
            self._serial = max(self._serial, *serial, 0)
            part = Part(items, name=key, written=rows)
            if key in skipped:
                part.skip(skipped[key])
            self._slices.setdefault(number, []).append(part)
        for parts in self._slices.values():  # a store may return parts in any order
            parts.sort(key=lambda part: -len(part.items))

    def size(self) -> StateSize:
        parts = self.all()
        return StateSize(sum(map(len, parts)), sum(part.nbytes for part in parts))


def _as_it_is(items: T) -> T:
    return items

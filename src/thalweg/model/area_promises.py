"""Area promises: for groups that are described and not listed, the time up to which they are
complete.

An area has for each of the columns that name groups a value, a range or anything:

    src = 'a'   0 <= port < 1024   any host:      100

promises 100 to every group in it, seen or not. Areas that give values of the same columns, and
ranges of the same, stand together: for each tuple of values one promise over the ranges (see
`range_promises`), or one time where there are no ranges. A group has the latest promise of all the
areas that it lies in.

Dropped are areas that the common promise has passed, and those that a wider one covers: what is
kept follows the areas that are ahead. Null and NaN lie in no range, but are values like others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.area_entries import (
    Entries,
    Shape,
    entries_above,
    find_entries,
    meet_entries,
    new_entries,
    promise_at,
    uncovered_entries,
)
from thalweg.model.range_promises import (
    Limits,
    Promised,
    RangePromises,
    find_promised,
    join_promised,
)
from thalweg.model.time import MIN_TIME, Times

__all__ = ["NO_AREAS", "AreaPromises", "Shape"]


@dataclass(frozen=True, slots=True)
class AreaPromises:
    """
    >>> low = AreaPromises.over({"src": "a"}, {"port": (0, 1024)}, 100)
    >>> both = low.merge(AreaPromises.over({}, {"port": (512, None)}, 70), 0)
    >>> [both.of({"src": src, "port": 600}) for src in ("a", "b")]
    [100, 70]
    """

    entries: Mapping[Shape, Entries] = field(default_factory=dict)

    @classmethod
    def over(
        cls, values: Mapping[str, Any], ranges: Mapping[str, Limits], time: int
    ) -> AreaPromises:
        """The promise of one area."""
        promised: Promised = time
        for low, high in reversed([*ranges.values()]):
            promised = RangePromises.over(low, high, promised)
        return cls({Shape(tuple(values), tuple(ranges)): {tuple(values.values()): promised}})

    def __bool__(self) -> bool:
        return bool(self.entries)

    # --------------------------------------------------------------------------------------------
    # what is promised

    def of(self, group: Mapping[str, Any]) -> int:
        """What is promised to one group."""
        found = MIN_TIME
        for shape, entries in self.entries.items():
            promised = entries.get(tuple(group[name] for name in shape.values), MIN_TIME)
            if not isinstance(promised, int):
                promised = promised.of(*(group[name] for name in shape.ranges))
            found = max(found, promised)
        return found

    def of_columns(self, columns: Mapping[str, pa.Array], size: int) -> Times:
        """What is promised to each of `size` groups, given by a column of values for each name."""
        found = np.full(size, MIN_TIME)
        for shape, entries in self.entries.items():
            which = find_entries(shape.values, entries, columns, size)
            ranges = [columns[name] for name in shape.ranges]
            np.maximum(found, find_promised([*entries.values()], which, ranges), out=found)
        return found

    def least_within(self, values: Mapping[str, Any], ranges: Mapping[str, Limits]) -> int:
        """What is promised to every group that has these values and lies in these ranges."""
        promised: Promised = MIN_TIME
        for shape, entries in self.entries.items():
            if {*shape.values} <= {*values} and {*shape.ranges} <= {*values, *ranges}:
                each = entries.get(tuple(values[name] for name in shape.values), MIN_TIME)
                each = promise_at(each, shape.ranges, tuple(ranges), values)
                promised = join_promised(promised, each, max)
        if isinstance(promised, int):
            return promised
        [(low, high), *inner] = ranges.values()
        return promised.least_within(low, high, *inner)

    @property
    def most(self) -> int:
        """The latest time that is promised to some group."""
        every = (each for entries in self.entries.values() for each in entries.values())
        return max(
            (each if isinstance(each, int) else each.most for each in every), default=MIN_TIME
        )

    # --------------------------------------------------------------------------------------------
    # two promises

    def merge(self, other: AreaPromises, cti: int) -> AreaPromises:
        """Both promises together, as far as they go beyond the common one; the same object where
        that is nothing new."""
        earlier = self._above(cti)
        merged = dict(earlier.entries)
        for shape, entries in other.entries.items():
            newer = new_entries(merged.get(shape, {}), entries, cti)
            if newer:
                merged[shape] = {**merged.get(shape, {}), **newer}
        if all(entries is earlier.entries.get(shape) for shape, entries in merged.items()):
            return earlier
        return AreaPromises(merged if len(merged) == 1 else uncovered_entries(merged))

    def _above(self, cti: int) -> AreaPromises:
        """Without what a common promise covers."""
        kept = {shape: entries_above(each, cti) for shape, each in self.entries.items()}
        if all(each is self.entries[shape] for shape, each in kept.items()):
            return self
        return AreaPromises({shape: each for shape, each in kept.items() if each})

    def meet(
        self, other: AreaPromises, ctis: tuple[int, int], columns: Sequence[str]
    ) -> AreaPromises:
        """What both promise, where these are their common promises, and the columns of all areas in
        their order."""
        cti = min(ctis)
        met = self._at_most(ctis[1]).merge(other._at_most(ctis[0]), cti)
        for left, ones in self.entries.items():
            for right, twos in other.entries.items():
                shape, entries = meet_entries((left, ones), (right, twos), columns)
                met = met.merge(AreaPromises({shape: entries}), cti)
        return met

    def _at_most(self, cti: int) -> AreaPromises:
        return self.map(lambda time: min(time, cti))

    # --------------------------------------------------------------------------------------------
    # other times, other names

    def map(self, move: Callable[[int], int]) -> AreaPromises:
        """The times moved by a function that keeps their order, and the beginning of time."""
        moved = {
            shape: {values: _map(each, move) for values, each in entries.items()}
            for shape, entries in self.entries.items()
        }
        return AreaPromises(moved)._above(MIN_TIME)

    def lower(self, columns: Mapping[str, pa.Array], starts: Times) -> AreaPromises:
        """The same areas, each step promising no more than the least start of the rows in it."""
        lowered = {}
        for shape, entries in self.entries.items():
            times: list[int] = []
            steps = {values: _number(each, times) for values, each in entries.items()}
            at = AreaPromises({shape: steps}).of_columns(columns, len(starts))
            least = np.array(times, np.int64)
            np.minimum.at(least, at[at >= 0], starts[at >= 0])
            times = least.tolist()
            lowered[shape] = {v: _map(each, times.__getitem__) for v, each in steps.items()}
        return AreaPromises(lowered)._above(MIN_TIME)

    def rename(self, names: Mapping[str, str]) -> AreaPromises:
        """The same areas of columns with other names."""
        return AreaPromises(
            {
                Shape(*(tuple(names[name] for name in part) for part in shape)): entries
                for shape, entries in self.entries.items()
            }
        )

    def within(self, columns: Sequence[str]) -> AreaPromises:
        """The areas of these columns alone, in their order."""
        kept = {s: entries for s, entries in self.entries.items() if s.is_within(columns)}
        return self if len(kept) == len(self.entries) else AreaPromises(kept)


NO_AREAS = AreaPromises()


def _map(promised: Promised, move: Callable[[int], int]) -> Promised:
    return move(promised) if isinstance(promised, int) else promised.map(move)


def _number(promised: Promised, times: list[int]) -> Promised:
    """A promise with each time replaced by its index in `times`, to which it is appended."""

    def number(time: int) -> int:
        times.append(time)
        return len(times) - 1

    return _map(promised, number)

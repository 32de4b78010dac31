"""Range promises: for each value of one column, the time up to which its rows are complete.

"No later row has ts < 100 and 0 <= port < 1024" promises 100 to every group of that range, seen or
not. All such promises about one column are one step function:

    values     ... c1) [c1 ... c2) [c2 ... cn) [cn ...
    promised    t0       t1           ...        tn         MIN_TIME where nothing is promised

Promises that stand beside each other are their pointwise maximum, those of two streams that meet
their minimum. Neighbours with equal times are one step and steps that the common promise has passed
are dropped, so that what is kept follows the ranges that are ahead. A null or NaN lies in no range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.rows import Codes
from thalweg.model.time import MIN_TIME, Times

__all__ = ["RangePromises", "Ranges", "map_ranges", "meet_ranges", "merge_ranges"]


@dataclass(frozen=True, slots=True)
class RangePromises:
    """
    >>> low = RangePromises.over(None, 1024, 100)
    >>> both = low.merge(RangePromises.over(512, None, 70))
    >>> both.cuts, both.times, both.least
    ((1024,), (100, 70), 70)
    >>> both.of(80), both.of(2000), both.of(None) == MIN_TIME
    (100, 70, True)
    """

    cuts: tuple[Any, ...] = ()
    times: tuple[int, ...] = (MIN_TIME,)

    @classmethod
    def over(cls, low: Any, high: Any, time: int) -> RangePromises:
        """A promise for the values from `low` on (None: all) and below `high` (None: all)."""
        cuts = [cut for cut in (low, high) if cut is not None]
        times = [time]
        if low is not None:
            times.insert(0, MIN_TIME)
        if high is not None:
            times.append(MIN_TIME)
        return cls(tuple(cuts), tuple(times))

    def __bool__(self) -> bool:
        return len(self.times) > 1 or self.times[0] > MIN_TIME

    @property
    def least(self) -> int:
        """What is promised to every value, apart from null and NaN."""
        return min(self.times)

    @property
    def most(self) -> int:
        return max(self.times)

    def least_within(self, low: Any, high: Any) -> int:
        """What is promised to every value from `low` on and below `high`."""
        first = 0 if low is None else bisect_right(self.cuts, low)
        last = len(self.cuts) if high is None else bisect_left(self.cuts, high)
        return min(self.times[first : last + 1])

    def of(self, value: Any) -> int:
        """What is promised to one value."""
        if value is None or value != value:
            return MIN_TIME
        return self.times[bisect_right(self.cuts, value)]

    def of_values(self, values: pa.Array) -> Times:
        """What is promised to each value of a column."""
        at = self.steps(values)
        return np.where(at < 0, MIN_TIME, np.array(self.times, np.int64)[at])

    def steps(self, values: pa.Array) -> Codes:
        """The step of each value of a column; -1 for null and NaN."""
        if pa.types.is_decimal(values.type):  # which Arrow does not search
            coded = values.dictionary_encode()
            dictionary_steps = [
                bisect_right(self.cuts, value) for value in coded.dictionary.to_pylist()
            ]
            at = pa.array(dictionary_steps, pa.int64()).take(coded.indices)
        elif self.cuts:
            at = pc.search_sorted(pa.array(self.cuts, values.type), values, side="right")
        else:
            at = pc.if_else(values.is_valid(), 0, pa.scalar(None, pa.int64()))
        if pa.types.is_floating(values.type):
            at = pc.if_else(pc.is_nan(values), pa.scalar(None, at.type), at)
        return at.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)

    def merge(self, other: RangePromises) -> RangePromises:
        """Both promises together."""
        return self if self == other else self._pointwise(other, max)

    def meet(self, other: RangePromises) -> RangePromises:
        """What both promise."""
        return self if self == other else self._pointwise(other, min)

    def map(self, move: Callable[[int], int]) -> RangePromises:
        """The times moved by a function that keeps their order."""
        return RangePromises(self.cuts, tuple(map(move, self.times)))._normal()

    def above(self, cti: int) -> RangePromises:
        """The promises that are later than a common promise."""
        if all(time > cti or time == MIN_TIME for time in self.times):
            return self
        return self.map(lambda time: time if time > cti else MIN_TIME)

    def lowered(self, values: pa.Array, starts: Times) -> RangePromises:
        """No later, in each step, than the starts of the values that lie in it."""
        at = self.steps(values)
        inside = at >= 0
        times = np.array(self.times, np.int64)
        np.minimum.at(times, at[inside], starts[inside])
        return RangePromises(self.cuts, tuple(times.tolist()))._normal()

    def _pointwise(self, other: RangePromises, choose: Callable[[int, int], int]) -> RangePromises:
        cuts = tuple(sorted({*self.cuts, *other.cuts}))
        times = [choose(self.times[0], other.times[0])]
        times += [choose(self.of(cut), other.of(cut)) for cut in cuts]
        return RangePromises(cuts, tuple(times))._normal()

    def _normal(self) -> RangePromises:
        """Neighbours with equal times are one step."""
        kept = [at for at in range(len(self.cuts)) if self.times[at] != self.times[at + 1]]
        if len(kept) == len(self.cuts):
            return self
        return RangePromises(
            tuple(self.cuts[at] for at in kept),
            (self.times[0], *(self.times[at + 1] for at in kept)),
        )


Ranges: TypeAlias = Mapping[str, RangePromises]
"""Range promises by the column that they speak of."""


def merge_ranges(left: Ranges, right: Ranges, cti: int) -> Ranges:
    """The later of both promises, range by range; those that the common promise `cti` covers are
    left out."""
    if not right and all(ranges.above(cti) is ranges for ranges in left.values()):
        return left
    empty = RangePromises()
    both = {
        name: left.get(name, empty).merge(right.get(name, empty)).above(cti)
        for name in (*left, *(name for name in right if name not in left))
    }
    both = {name: ranges for name, ranges in both.items() if ranges}
    return left if both == left else both


def meet_ranges(left_promises: Ranges, right_promises: Ranges, ctis: tuple[int, int]) -> Ranges:
    """The promises that hold on both sides; `ctis` are the common promises of the sides."""
    cti = min(ctis)
    empty = RangePromises()
    names = (*left_promises, *(name for name in right_promises if name not in left_promises))
    sides = [
        (
            left_promises.get(name, empty).merge(RangePromises(times=(ctis[0],))),
            right_promises.get(name, empty).merge(RangePromises(times=(ctis[1],))),
        )
        for name in names
    ]
    met = {
        name: left_ranges.meet(right_ranges).above(cti)
        for name, (left_ranges, right_ranges) in zip(names, sides, strict=True)
    }
    return {name: ranges for name, ranges in met.items() if ranges}


def map_ranges(ranges: Ranges, move: Callable[[int], int]) -> Ranges:
    """Times moved by a function that keeps their order."""
    return {name: each.map(move) for name, each in ranges.items()}

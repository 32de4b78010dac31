"""Range promises: for each value of a column, the time up to which its rows are complete.

"No later row has ts < 100 and 0 <= port < 1024" promises 100 to every group of that range, seen or
not. All such promises about one column are one step function:

    values     ... c1) [c1 ... c2) [c2 ... cn) [cn ...
    promised    t0       t1           ...        tn         MIN_TIME where nothing is promised

Ranges of several columns together are steps within steps: what a step of the first column promises
is a step function over the second, and so on, or MIN_TIME.

Promises that stand beside each other are their pointwise maximum, those of two streams that meet
their minimum. Neighbours with equal promises are one step and steps that the common promise has
passed are dropped, so that what is kept follows the ranges that are ahead: at most the product of
the numbers of cuts, and as many steps as ranges where they divide the columns. A null or NaN lies
in no range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.rows import Codes
from thalweg.model.time import MIN_TIME, Times

__all__ = ["Limits", "Promised", "RangePromises", "find_promised", "join_promised"]

Limits: TypeAlias = tuple[Any, Any]
"""Values from the first on (None: all) and below the second (None: all)."""


@dataclass(frozen=True, slots=True)
class RangePromises:
    """
    >>> low = RangePromises.over(None, 1024, 100)
    >>> both = low.merge(RangePromises.over(512, None, 70))
    >>> both.cuts, both.times, both.least
    ((1024,), (100, 70), 70)
    >>> both.of(80), both.of(2000), both.of(None) == MIN_TIME
    (100, 70, True)
    >>> RangePromises.over(0, 10, both).of(5, 2000)
    70
    """

    cuts: tuple[Any, ...] = ()
    times: tuple[Promised, ...] = (MIN_TIME,)

    @classmethod
    def over(cls, low: Any, high: Any, time: Promised) -> RangePromises:
        """A promise for the values from `low` on (None: all) and below `high` (None: all)."""
        cuts = [cut for cut in (low, high) if cut is not None]
        times = [time]
        if low is not None:
            times.insert(0, MIN_TIME)
        if high is not None:
            times.append(MIN_TIME)
        return cls(tuple(cuts), tuple(times))

    def __bool__(self) -> bool:
        return any(not isinstance(time, int) or time > MIN_TIME for time in self.times)

    @property
    def leaves(self) -> Iterator[int]:
        """The times of all steps."""
        for time in self.times:
            if isinstance(time, int):
                yield time
            else:
                yield from time.leaves

    @property
    def least(self) -> int:
        """What is promised to every value, apart from null and NaN."""
        return min(self.leaves)

    @property
    def most(self) -> int:
        return max(self.leaves)

    def least_within(self, low: Any, high: Any, *inner: Limits) -> int:
        """What is promised to every value from `low` on and below `high`, and so on for the columns
        after the first."""
        first = 0 if low is None else bisect_right(self.cuts, low)
        last = len(self.cuts) if high is None else bisect_left(self.cuts, high)
        return min(
            time if isinstance(time, int) else time.least_within(*inner[0], *inner[1:])
            for time in self.times[first : last + 1]
        )

    def at(self, value: Any) -> Promised:
        """What is promised to one value of the first column."""
        if value is None or value != value:
            return MIN_TIME
        return self.times[bisect_right(self.cuts, value)]

    def of(self, value: Any, *inner: Any) -> int:
        """What is promised to one value of each column."""
        found = self.at(value)
        return found if isinstance(found, int) else found.of(*inner)

    def merge(self, other: RangePromises) -> RangePromises:
        """Both promises together."""
        return _ranges(join_promised(self, other, max))

    def meet(self, other: RangePromises) -> RangePromises:
        """What both promise."""
        return _ranges(join_promised(self, other, min))

    def map(self, move: Callable[[int], int]) -> RangePromises:
        """The times moved by a function that keeps their order, and the beginning of time."""
        return RangePromises(
            self.cuts,
            tuple(move(time) if isinstance(time, int) else time.map(move) for time in self.times),
        ).joined()

    def above(self, cti: int) -> RangePromises:
        """The promises that are later than a common promise."""
        if all(time > cti or time == MIN_TIME for time in self.leaves):
            return self
        return self.map(lambda time: time if time > cti else MIN_TIME)

    def joined(self) -> RangePromises:
        """Neighbours with equal promises are one step; steps of nothing are none."""
        times = [time if isinstance(time, int) or time else MIN_TIME for time in self.times]
        kept = [at for at in range(len(self.cuts)) if times[at] != times[at + 1]]
        return RangePromises(
            tuple(self.cuts[at] for at in kept), (times[0], *(times[at + 1] for at in kept))
        )


Promised: TypeAlias = "int | RangePromises"
"""A time, or times by ranges of columns."""


def _ranges(promised: Promised) -> RangePromises:
    return RangePromises(times=(promised,)) if isinstance(promised, int) else promised


def join_promised(one: Promised, two: Promised, choose: Callable[[int, int], int]) -> Promised:
    """Two promises about the same columns, value by value; a time stands for all values."""
    if one is two or one == two:
        return one
    if isinstance(one, int) and isinstance(two, int):
        return choose(one, two)
    left, right = _ranges(one), _ranges(two)
    cuts = tuple(sorted({*left.cuts, *right.cuts}))
    times = [join_promised(left.times[0], right.times[0], choose)]
    times += [join_promised(left.at(cut), right.at(cut), choose) for cut in cuts]
    joined = RangePromises(cuts, tuple(times)).joined()
    return joined or MIN_TIME


def find_promised(promised: Sequence[Promised], which: Codes, columns: Sequence[pa.Array]) -> Times:
    """For each row the promise that `which` names of some (-1: none), at the row's values of these
    columns.

    The steps of all promises stand in one sorted array, by (promise, rank of the cut); a row is
    searched there once for each column.
    """
    if all(isinstance(each, int) for each in promised):
        return np.array([*promised, MIN_TIME], np.int64)[which]
    every = [_ranges(each) for each in promised]
    cuts = sorted({cut for each in every for cut in each.cuts})
    rank = {cut: at + 1 for at, cut in enumerate(cuts)}
    width = len(cuts) + 1
    begins = [
        number * width + at
        for number, each in enumerate(every)
        for at in (0, *(rank[cut] for cut in each.cuts))
    ]
    at = _ranks(columns[0], cuts)
    if len(every) == 1:
        step = np.where(which < 0, -1, at)
    else:
        step = np.searchsorted(np.array(begins, np.int64), which * width + at, side="right") - 1
        step[(at < 0) | (which < 0)] = -1
    return find_promised([time for each in every for time in each.times], step, columns[1:])


def _ranks(values: pa.Array, cuts: Sequence[Any]) -> Codes:
    """How many cuts are not above each value; -1 for null and NaN."""
    if pa.types.is_decimal(values.type):  # which Arrow does not search
        coded = values.dictionary_encode()
        steps = [bisect_right(cuts, value) for value in coded.dictionary.to_pylist()]
        at = pa.array(steps, pa.int64()).take(coded.indices)
    elif cuts:
        at = pc.search_sorted(pa.array(cuts, values.type), values, side="right")
    else:
        at = pc.if_else(values.is_valid(), 0, pa.scalar(None, pa.int64()))
    if pa.types.is_floating(values.type):
        at = pc.if_else(pc.is_nan(values), pa.scalar(None, at.type), at)
    return at.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)

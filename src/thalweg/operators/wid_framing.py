"""How each kind of window frames the rows a kernel holds: the windows there are, and what a CTI
lets go of.

A row is settled when the CTI has passed its start: it cannot be taken back, and no earlier one can
come. `frames` gives the windows of the rows that are held, `settle` the rows that later windows
still need and the promise that can be made.

    slide by tuple       a window that ends at w is settled with the rows at w; it needs rows after w - range.
                         By rank, the rows that are gone are counted, in each partition
    sliding over rows    a window is settled when its last row is, and all rows in front of it. A change among unsettled rows, which
                         start at or after the CTI, moves only windows that are complete after them:
                         their answers start there too
                         Where rows were filtered after they got their numbers, a window is complete when the promise on
                         numbers passes its last one, and its answer stands where the last row that it has was there: at a
                         settled row, perhaps, which the promise must not pass
    first origin         windows begin with the smallest start of all rows, which is settled like any other
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.model.rows import Bools, Codes
from thalweg.model.time import MIN_TIME, Times
from thalweg.operators.extents import Frames
from thalweg.operators.groups import ranges
from thalweg.windows import SlideByTuple, SlidingRows, SlidingTime

__all__ = [
    "Framing",
    "Ordered",
    "RowFraming",
    "Settled",
    "TimeFraming",
    "TupleFraming",
    "framing_of",
]


@dataclass(frozen=True, slots=True)
class Ordered:
    """Rows sorted by partition, then by what orders them: time, or their number."""

    partition: Codes
    start: Times
    number: Codes
    """The position in the partition, from 1, where the kind counts rows."""
    at: Times
    """When the row counts: its start, or, by arrival, the largest start so far."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Which rows are still needed, and the promise."""

    keep: Bools
    promise: int


class Framing:
    """What a kernel asks a kind. `coordinate` orders the rows in a window. A change at t touches
    only windows that end after t."""

    def coordinate(self, rows: Ordered) -> Codes:
        return rows.start

    def frames(self, rows: Ordered, anchor: int, reached: int) -> Frames:
        """The windows of rows; all numbers up to `reached` have been given and are settled."""
        raise NotImplementedError

    def settle(self, rows: Ordered, cti: int, anchor: int, reached: int) -> Settled:
        raise NotImplementedError

    def needs(self, time: int, anchor: int) -> int:
        """The least CTI with which a time can be promised."""
        return time


class TupleFraming(Framing):
    def __init__(self, kind: SlideByTuple) -> None:
        self._range, self._every = kind.range, kind.every

    def frames(self, rows: Ordered, anchor: int, reached: int) -> Frames:
        chosen = (
            np.flatnonzero(rows.number % self._every == 0)
            if self._every > 1
            else np.arange(len(rows.start))
        )
        partition, window = rows.partition[chosen], rows.start[chosen]
        order = np.lexsort((window, partition))
        partition, window = partition[order], window[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (partition[1:] != partition[:-1]) | (window[1:] != window[:-1])
        partition, window = partition[new], window[new]
        return Frames(
            partition,
            window - self._range + 1,
            window + 1,
            window - self._range + 1,
            window + 1,
            window,
        )

    def settle(self, rows: Ordered, cti: int, anchor: int, reached: int) -> Settled:
        return Settled(rows.start > cti - self._range, max(cti - self._range + 1, MIN_TIME))

    def needs(self, time: int, anchor: int) -> int:
        return time + self._range - 1


class RowFraming(Framing):
    def __init__(self, kind: SlidingRows, *, sparse: bool) -> None:
        self._range, self._slide, self._sparse = kind.range, kind.slide, sparse

    def coordinate(self, rows: Ordered) -> Codes:
        return rows.number

    def frames(self, rows: Ordered, anchor: int, reached: int) -> Frames:
        begins, ends = _partitions(rows.partition)
        if not len(begins):
            return Frames(*(np.empty(0, np.int64) for _ in range(6)))
        first, top = (rows.number[begins] - 1) // self._slide, rows.number[ends - 1]
        if self._sparse:  # a window beyond the range of the last row has none
            behind = -(-top // self._slide) * self._slide if self._range is None else top
            top = np.maximum(top, np.minimum(reached, behind + (self._range or 0)))
        which, window = ranges(first, np.maximum(top // self._slide - first, 0))
        last = (window + 1) * self._slide
        span = int(top.max()) + 1
        complete = np.searchsorted(
            rows.partition * span + rows.number,
            rows.partition[begins][which] * span + last,
            side="right" if self._sparse else "left",
        )
        if self._sparse:
            complete = complete - 1
            if self._range is None:  # everything so far answers where something new came
                new = rows.number[complete] > last - self._slide
                which, window, last, complete = which[new], window[new], last[new], complete[new]
        at = rows.at[complete]
        lo = np.zeros(len(last), np.int64) if self._range is None else last + 1 - self._range
        return Frames(rows.partition[begins][which], lo, last + 1, at, at + 1, window)

    def settled_numbers(self, rows: Ordered, cti: int) -> Codes:
        """For each row the number up to which all rows of its partition are settled."""
        begins, ends = _partitions(rows.partition)
        if not len(begins):
            return np.empty(0, np.int64)
        unsettled = np.where(rows.start >= cti, np.arange(len(rows.start)), len(rows.start))
        first = np.minimum(np.minimum.reduceat(unsettled, begins), ends)
        upto = np.where(
            first > begins, rows.number[np.maximum(first - 1, 0)], rows.number[begins] - 1
        )
        return np.repeat(upto, ends - begins)

    def settle(self, rows: Ordered, cti: int, anchor: int, reached: int) -> Settled:
        upto = np.maximum(self.settled_numbers(rows, cti), reached)
        next_last = (upto // self._slide + 1) * self._slide
        needed = next_last + 1 - (self._slide if self._range is None else self._range)
        promise = cti
        if self._sparse:
            waiting = (rows.number <= upto) & (rows.number >= needed)
            waiting[:-1] &= ~waiting[1:] | (rows.partition[1:] != rows.partition[:-1])
            promise = min(cti, int(rows.at[waiting].min(initial=cti)))
        if self._range is None and not self._sparse:
            return Settled(rows.number > upto, promise)
        return Settled((rows.number >= needed) | (rows.number > upto), promise)


class TimeFraming(Framing):
    """Sliding over time from the first row of all: `anchor` is its start."""

    def __init__(self, kind: SlidingTime) -> None:
        self._range, self._slide = kind.range, kind.slide

    def frames(self, rows: Ordered, anchor: int, reached: int) -> Frames:
        since = np.sort(rows.start) - anchor
        first, beyond = np.maximum(since // self._slide, 0), (since + self._range) // self._slide
        new = np.ones(len(since), np.bool_)
        new[1:] = first[1:] > beyond[:-1]
        begins = np.flatnonzero(new)
        ends = np.append(begins[1:], len(since)) - 1
        _, window = (
            ranges(first[begins], np.maximum(beyond[ends] - first[begins], 0))
            if len(since)
            else (None, np.empty(0, np.int64))
        )
        end = anchor + (window + 1) * self._slide
        return Frames(
            np.zeros(len(window), np.int64), end - self._range, end, end - self._range, end, window
        )

    def settle(self, rows: Ordered, cti: int, anchor: int, reached: int) -> Settled:
        if anchor >= cti:
            return Settled(
                np.ones(len(rows.start), np.bool_),
                max(min(cti + self._slide - self._range, cti), MIN_TIME),
            )
        needed = anchor + ((cti - anchor) // self._slide + 1) * self._slide - self._range
        return Settled(rows.start >= needed, min(needed, cti))

    def needs(self, time: int, anchor: int) -> int:
        unsettled = max(time + self._range - self._slide, time)
        if anchor >= unsettled:
            return unsettled
        slides = -((anchor - time - self._range) // self._slide)
        return max(anchor + (slides - 1) * self._slide, anchor + 1, time)


def _partitions(partition: Codes) -> tuple[Codes, Codes]:
    """Where the rows of each partition begin and end."""
    if not len(partition):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    begins = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), partition[1:] != partition[:-1]]))
    return begins, np.append(begins[1:], len(partition))


def framing_of(kind: SlideByTuple | SlidingRows | SlidingTime, *, sparse: bool) -> Framing:
    """`sparse`: not every number that was given arrives here."""
    if isinstance(kind, SlideByTuple):
        return TupleFraming(kind)
    return RowFraming(kind, sparse=sparse) if isinstance(kind, SlidingRows) else TimeFraming(kind)

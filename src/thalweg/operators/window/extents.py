"""Windows as ranges in an order of rows: the groups that have rows in each window, and where.

A window of a partition covers the rows whose coordinate lies in [lo, hi): a time, or a number of
rows. In each partition lo and hi never decrease from one window to the next, so that the windows of
a row are consecutive, and the rows of a group in a window, sorted by coordinate, are consecutive
too. So both are ranges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.model.rows import Bools, Codes
from thalweg.model.sorting import rank_codes, run_begins, sort_pairs
from thalweg.model.time import Times, greatest, least
from thalweg.operators.groups import ranges

__all__ = ["NO_FRAMES", "Frames", "Occupied", "Places", "next_after", "occupied"]


@dataclass(slots=True)
class Places:
    """The rows of windows: those of window i are rows[first[i]:beyond[i]]."""

    rows: Codes
    first: Codes
    beyond: Codes

    def filter(self, mask: Bools) -> Places:
        return Places(self.rows, self.first[mask], self.beyond[mask])


@dataclass(slots=True)  # made several times a batch: a frozen one takes five times as long
class Frames:
    """Windows by partition and in order: the interval each covers, the lifetime of its answer, and
    its id. An answer is complete at `over`, or at its end. `places` are known where the kind has to
    sort the rows anyway to find its windows."""

    partition: Codes
    lo: Codes
    hi: Codes
    start: Times
    end: Times
    wid: Codes
    over: Times | None = None
    places: Places | None = None

    def __len__(self) -> int:
        return len(self.wid)

    @property
    def leaves(self) -> Times:
        """The time at which each answer is complete."""
        return self.end if self.over is None else self.over

    def filter(self, mask: Bools) -> Frames:
        if np.count_nonzero(mask) == len(mask):
            return self
        return Frames(
            self.partition[mask],
            self.lo[mask],
            self.hi[mask],
            self.start[mask],
            self.end[mask],
            self.wid[mask],
            None if self.over is None else self.over[mask],
            None if self.places is None else self.places.filter(mask),
        )

    def between(self, low: int, high: int) -> Frames:
        """The windows that end after `low` and not after `high`."""
        return self.filter((self.end > low) & (self.end <= high))


_NO = np.empty(0, np.int64)
NO_FRAMES = Frames(_NO, _NO, _NO, _NO, _NO, _NO)


def next_after(begins: Codes, end: int) -> Codes:
    """Where the next run begins, of runs that lie one after the other up to an end.

    >>> next_after(np.array([0, 2, 3]), 7).tolist()
    [2, 3, 7]
    """
    beyond = np.empty(len(begins), np.int64)
    beyond[:-1], beyond[-1:] = begins[1:], end
    return beyond


@dataclass(slots=True)
class Occupied:
    """Pairs of a group and a window in which the group has rows: a row of the group, and [lo, hi)
    its rows in the order `rows`."""

    rows: Codes
    representative: Codes
    frame: Codes
    lo: Codes
    hi: Codes


def occupied(frames: Frames, partition: Codes, group: Codes, coordinate: Codes) -> Occupied:
    """All pairs of a group and a window with rows, in time linear in the rows and the pairs."""
    places = frames.places
    if places is not None and group is partition:
        representative = places.rows[places.first]
        return Occupied(
            places.rows, representative, np.arange(len(frames)), places.first, places.beyond
        )
    if group is not partition and len(frames) * len(coordinate) <= _FEW:
        return _compared(frames, partition, group, coordinate)
    at, lo, hi, span = _comparable(frames, group, coordinate)
    order = sort_pairs(group, at)
    base = frames.partition * span
    if group is partition:
        key = (group * span + at)[order]
        low, high = key.searchsorted(base + lo), key.searchsorted(base + hi)
        frame = (low < high).nonzero()[0]
        low, high = low[frame], high[frame]
        return Occupied(order, order[low], frame, low, high)
    at, group = at[order], group[order]
    place = partition[order] * span + at
    first = (base + hi).searchsorted(place, side="right")
    beyond = (base + lo).searchsorted(place, side="right")
    inside = (first < beyond).nonzero()[0]
    if not len(inside):
        none = np.empty(0, np.int64)
        return Occupied(order, none, none, none, none)
    some, first, beyond = group[inside], first[inside], beyond[inside]
    new = np.ones(len(inside), np.bool_)
    new[1:] = (some[1:] != some[:-1]) | (first[1:] > beyond[:-1])
    begins = new.nonzero()[0]
    ends = next_after(begins, len(inside)) - 1
    run, frame = ranges(first[begins], beyond[ends] - first[begins])
    owner = some[begins][run]
    key = group * span + at
    low = key.searchsorted(owner * span + lo[frame], side="left")
    high = key.searchsorted(owner * span + hi[frame], side="left")
    return Occupied(order, order[inside[begins][run]], frame, low, high)


def _compared(frames: Frames, partition: Codes, group: Codes, coordinate: Codes) -> Occupied:
    """As `occupied`, by comparing each window with each row."""
    inside = (coordinate >= frames.lo[:, None]) & (coordinate < frames.hi[:, None])
    inside &= partition == frames.partition[:, None]
    frame, row = inside.nonzero()
    order = np.lexsort((coordinate[row], frame, group[row]))
    frame, row = frame[order], row[order]
    begins = run_begins(group[row], frame)
    return Occupied(row, row[begins], frame[begins], begins, next_after(begins, len(row)))


def _comparable(frames: Frames, group: Codes, coordinate: Codes) -> tuple[Codes, Codes, Codes, int]:
    """Coordinates and bounds as numbers in [0, span) of the same order, so small that a group and a
    coordinate pack into one int64."""
    if len(coordinate):
        low, high = least(coordinate), greatest(coordinate) + 1
        if (high - low + 1) * (1 + max(greatest(group), greatest(frames.partition))) < _LARGEST:
            lo, hi = (
                np.minimum(np.maximum(bound, low), high) - low for bound in (frames.lo, frames.hi)
            )
            return coordinate - low, lo, hi, high - low + 1
    rank = rank_codes(np.concatenate([coordinate, frames.lo, frames.hi]))
    size, beyond_lo = len(coordinate), len(coordinate) + len(frames)
    span = int(rank.max(initial=0)) + 1
    return rank[:size], rank[size:beyond_lo], rank[beyond_lo:], span


_LARGEST = 2**62
_FEW = 4_096
"""Up to this many pairs of a window and a row are compared directly."""

"""Overlap joins: all pairs of rows of two sides with equal codes whose lifetimes share an instant.

One side is sorted by code and start. For a row [s, e) of the other side, the candidates start
before e, and before s by less than their duration. So the sorted side is divided into classes of
durations within a factor of two, and each class is searched back from s by its longest duration. At
least half of the candidates overlap, whatever the durations are; rows without an end are a class of
their own, where every candidate overlaps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thalweg.model.rows import Codes
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import INFINITY, Times

__all__ = ["overlapping_pairs"]

_ONE_NUMBER = 2**62
_FEW = 64
"""A side of at most this many rows is not divided into classes."""

Pairs = tuple[Codes, Codes]


def overlapping_pairs(
    left: Codes,
    left_start: Times,
    left_end: Times,
    right: Codes,
    right_start: Times,
    right_end: Times,
) -> tuple[Codes, Codes]:
    """Every pair of positions with equal codes of 0 or more whose lifetimes overlap.

    >>> codes = np.array([0, 0])
    >>> left = codes, np.array([1, 5]), np.array([2, 9])
    >>> left_at, right_at = overlapping_pairs(*left, codes, np.array([0, 6]), np.array([4, 7]))
    >>> list(zip(left_at.tolist(), right_at.tolist()))
    [(0, 0), (1, 1)]
    """
    if len(left) < len(right):  # the smaller side is sorted, the larger one searches it
        right_at, left_at = _pairs(right, right_start, right_end, left, left_start, left_end)
        return left_at, right_at
    return _pairs(left, left_start, left_end, right, right_start, right_end)


def _pairs(
    left: Codes,
    left_start: Times,
    left_end: Times,
    right: Codes,
    right_start: Times,
    right_end: Times,
) -> Pairs:
    none = np.empty(0, np.int64)
    if not len(left) or not len(right):
        return none, none
    found = [
        _pairs_of_class(left, left_start, left_end, which, right, right_start, right_end, longest)
        for which, longest in _classes(right_start, right_end)
    ]
    if len(found) == 1:
        return found[0]
    return np.concatenate([left_at for left_at, _ in found]), np.concatenate(
        [right_at for _, right_at in found]
    )


def _classes(start: Times, end: Times) -> Iterator[tuple[Codes | None, int | None]]:
    """Positions of the rows of each class (None: all), and the longest duration in it (None:
    without end)."""
    endless = end == INFINITY
    if endless.all():
        yield None, None
        return
    duration = np.where(endless, 0, end - start)
    longest, shortest = int(duration.max()), int(duration[~endless].min())
    if not endless.any() and (longest <= 2 * shortest or len(start) <= _FEW):
        yield None, longest
        return
    # A float's exponent is the class; where it rounds up at a power of two, the longest of the
    # class is still looked up.
    exponent = np.frexp(duration.astype(np.float64))[1]
    exponent[endless] = 0
    for number in np.unique(exponent).tolist():
        which = np.flatnonzero(exponent == number)
        yield which, None if number == 0 else int(duration[which].max())


def _pairs_of_class(
    left: Codes,
    left_start: Times,
    left_end: Times,
    which: Codes | None,
    right: Codes,
    right_start: Times,
    right_end: Times,
    longest: int | None,
) -> Pairs:
    if which is not None:
        right, right_start, right_end = right[which], right_start[which], right_end[which]
    first, last = int(right_start.min()), int(right_start.max())
    span = last - first + 2
    if (int(max(left.max(), right.max())) + 2) * span < _ONE_NUMBER:
        at = right_start - first
        back = 0 if longest is None else longest
        earliest = np.clip(np.minimum(left_start, last + back) - (back - 1 + first), 0, span - 1)
        until = np.clip(left_end, first, last + 1) - first
    else:  # code and time do not fit one number: the rank of the time will
        points = np.unique(right_start)
        span = len(points) + 1
        at = np.searchsorted(points, right_start)
        back = 0 if longest is None else longest
        # Further back than the first point nothing is, and the time may be none.
        earliest = np.searchsorted(points, np.maximum(left_start, first + back - 1) - back, "right")
        until = np.searchsorted(points, left_end, "left")
    if longest is None:
        earliest = np.zeros(len(left), np.int64)
    place = right * span + at
    order = sort_pairs(right, at)
    place = place[order]
    begin = left * span + earliest
    # In order, each search begins where the last one ended: in the cache.
    probe = sort_pairs(left, earliest)
    low = np.searchsorted(place, begin[probe])
    high = np.searchsorted(place, (left * span + until)[probe])
    count = np.where(left[probe] >= 0, np.maximum(high - low, 0), 0)
    owner = np.repeat(np.arange(len(left)), count)
    other = order[low[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)]
    owner = probe[owner]
    overlap = np.flatnonzero(right_end[other] > left_start[owner])
    owner, other = owner[overlap], other[overlap]
    return owner, other if which is None else which[other]

"""The statistics monitor: how often each key updates, and what serving a key costs.

The rate of a key is measured over its latest `memory` to 2 `memory` updates: an anchor is set at
every `memory`-th update, and the rate at time t is the number of updates since the anchor before
last, divided by the time since then. So the estimate follows a change of rate within 2 `memory`
updates, and the rate of a key without updates falls by itself as t grows. Counting updates instead
of decaying weights makes the estimate a function of integers: a batch leads to the same bits as its
rows one by one.

A few updates are little evidence and the first is none, so the estimate adds `PRIOR` updates at the
mean rate of all keys. A new key has the mean rate.
"""

from __future__ import annotations

import math

import numpy as np

from thalweg.freshness._arrays import NEVER, Floats, Ints, Mask, enlarge, keep
from thalweg.freshness.arrivals import Arrivals

__all__ = ["CLASSES", "CostMonitor", "RateMonitor", "class_of", "class_rates", "classes_of"]

CLASSES = 128
PRIOR = 4.0
_HALF_POWER = math.sqrt(0.5)
_ZERO_CLASS = 126
"""The class of rates in [sqrt(1/2), 1) updates a tick."""


class RateMonitor:
    """
    >>> monitor = RateMonitor(memory=2)
    >>> monitor.grow(1)
    >>> [round(monitor.arrive_one(0, t), 3) for t in (0, 10, 20, 30, 32, 34, 36, 38)]
    [1.0, 0.167, 0.129, 0.117, 0.139, 0.191, 0.219, 0.28]
    """

    def __init__(self, memory: int = 64) -> None:
        self.memory = memory
        self.updates = 0
        self.key_count = 0
        self.began = NEVER
        self._anchor = np.empty(0, np.int64)
        self._older_anchor = np.empty(0, np.int64)
        self._count = np.empty(0, np.int64)

    def grow(self, size: int) -> None:
        self._anchor = enlarge(self._anchor, size, NEVER)
        self._older_anchor = enlarge(self._older_anchor, size, NEVER)
        self._count = enlarge(self._count, size, 0)

    def keep(self, kept: Ints, updates: int) -> None:
        """Forget all keys but these, which had `updates` updates."""
        keep(self._anchor, kept, NEVER)
        keep(self._older_anchor, kept, NEVER)
        keep(self._count, kept, 0)
        self.key_count = int((self._anchor != NEVER).sum())
        self.updates = updates

    def arrive_one(self, cell: int, time: int) -> float:
        """Count an update; returns the key's rate at this update."""
        if self.began == NEVER:
            self.began = time
        self.updates += 1
        anchor = int(self._anchor[cell])
        if anchor == NEVER:
            self.key_count += 1
            self._anchor[cell] = time
            return _estimate_one(0, 0, self._mean_gap(time))
        older, count = int(self._older_anchor[cell]), int(self._count[cell]) + 1
        if older == NEVER:
            rate = _estimate_one(count, time - anchor, self._mean_gap(time))
        else:
            rate = _estimate_one(count + self.memory, time - older, self._mean_gap(time))
        if count == self.memory:
            self._older_anchor[cell], self._anchor[cell], self._count[cell] = anchor, time, 0
        else:
            self._count[cell] = count
        return rate

    def arrive(self, batch: Arrivals) -> tuple[Floats, Ints]:
        """Count a batch; returns each distinct key's rate at its first row, and the number of keys
        up to that row."""
        if not len(batch.cells):
            return np.empty(0), np.empty(0, np.int64)
        if self.began == NEVER:
            self.began = int(batch.times[0])
        cells, times = batch.distinct, batch.times[batch.first]
        new = self._anchor[cells] == NEVER
        key_counts: Ints = self.key_count + np.cumsum(new)
        count, span = self._measured(cells, times)
        rates = _estimate(
            np.where(new, 0, count + 1),
            np.where(new, 0, span),
            self._mean_gaps(times, self.updates + batch.first + 1, key_counts),
        )
        self.updates += len(batch.cells)
        self.key_count = int(key_counts[-1])
        self._count_updates(batch, new)
        return rates, key_counts

    def rates_of_rows(self, batch: Arrivals) -> Floats:
        """The rate of each row's key at that row; to be called before `arrive`.

        With `before` updates counted since the anchor, the row of rank r is update number
        j = before + r + 1, and q = (j - 1) // memory anchors were set on the way to it.
        """
        if not len(batch.cells):
            return np.empty(0)
        if self.began == NEVER:
            self.began = int(batch.times[0])
        memory, cells, times = self.memory, batch.cells, batch.times
        anchor, older = self._anchor[cells], self._older_anchor[cells]
        new = anchor == NEVER
        anchor = np.where(new, times[batch.first][batch.group], anchor)
        number = self._count[cells] + batch.rank + 1 - new
        turns = np.maximum(number - 1, 0) // memory
        full = (turns > 0) | (older != NEVER)
        count = number - turns * memory + np.where(full, memory, 0)
        base = np.where((turns == 0) & full, older, anchor)
        far = np.flatnonzero(turns > 1)
        if len(far):
            order = np.argsort(batch.group, kind="stable")
            begin = np.concatenate([[0], np.cumsum(batch.counts)[:-1]])[batch.group[far]]
            rank = (turns[far] - 1) * memory - self._count[cells[far]] - 1 + new[far]
            base[far] = times[order[begin + rank]]
        key_counts = self.key_count + np.cumsum(new & (batch.rank == 0))
        updates = self.updates + 1 + np.arange(len(cells))
        return _estimate(count, times - base, self._mean_gaps(times, updates, key_counts))

    def rates(self, cells: Ints, time: int) -> Floats:
        """Rates of keys at `time`, between updates."""
        if not self.updates:
            return np.zeros(len(cells))
        times = np.full(len(cells), time, np.int64)
        count, span = self._measured(cells, times)
        return _estimate(count, span, np.full(len(cells), self._mean_gap(time)))

    def _measured(self, cells: Ints, times: Ints) -> tuple[Ints, Ints]:
        """The number of updates since the anchor before last, and the time since then."""
        older = self._older_anchor[cells]
        full = older != NEVER
        count = self._count[cells] + np.where(full, self.memory, 0)
        return count, times - np.where(full, older, self._anchor[cells])

    def _mean_gap(self, time: int) -> float:
        """The mean time between updates of one key."""
        return float(self.key_count) * max(time - self.began, 1) / max(self.updates, 1)

    def _mean_gaps(self, times: Ints, updates: Ints, key_counts: Ints) -> Floats:
        gaps: Floats = key_counts.astype(np.float64) * np.maximum(times - self.began, 1) / updates
        return gaps

    def _count_updates(self, batch: Arrivals, new: Mask) -> None:
        """Advance counts and anchors: each multiple of `memory` updates sets an anchor."""
        cells, memory = batch.distinct, self.memory
        self._anchor[cells[new]] = batch.times[batch.first[new]]
        total = self._count[cells] + batch.counts - new
        turns = total // memory
        turning = np.flatnonzero(turns)
        before = self._count[cells]
        self._count[cells] = total - turns * memory
        if not len(turning):
            return
        rows = np.flatnonzero((turns > 0)[batch.group])
        rows = rows[np.argsort(batch.group[rows], kind="stable")]
        begin = np.concatenate([[0], np.cumsum(batch.counts[turning])[:-1]])
        # Row `begin + i` is the i-th update of the cell in this batch; a new cell's row 0 only
        # set its first anchor, and counts from row 1.
        newest = begin + turns[turning] * memory - before[turning] - 1 + new[turning]
        older = newest - memory
        inside = older >= begin
        at = cells[turning]
        self._older_anchor[at] = np.where(
            inside, batch.times[rows[np.maximum(older, 0)]], self._anchor[at]
        )
        self._anchor[at] = batch.times[rows[newest]]


def _estimate_one(count: int, span: int, mean_gap: float) -> float:
    return (count + PRIOR) / (span + PRIOR * mean_gap)


def _estimate(count: Ints, span: Ints, mean_gaps: Floats) -> Floats:
    rates: Floats = (count + PRIOR) / (span + PRIOR * mean_gaps)
    return rates


def class_of(rate: float) -> int:
    """The class of a rate: two classes for each power of two."""
    mantissa, exponent = math.frexp(rate)
    return min(max(_ZERO_CLASS - 1 + 2 * exponent + (mantissa >= _HALF_POWER), 0), CLASSES - 1)


def classes_of(rates: Floats) -> Ints:
    """
    >>> classes_of(np.array([1.0, 0.9, 0.6, 0.3])), class_of(0.3)
    (array([127, 126, 125, 123]), 123)
    """
    mantissa, exponent = np.frexp(rates)
    classes = _ZERO_CLASS - 1 + 2 * exponent.astype(np.int64) + (mantissa >= _HALF_POWER)
    clipped: Ints = np.clip(classes, 0, CLASSES - 1)
    return clipped


def class_rates() -> Floats:
    """The rate in the middle of each class, by ratio."""
    rates: Floats = 2.0 ** ((np.arange(CLASSES) - _ZERO_CLASS - 0.5) / 2)
    return rates


class CostMonitor:
    """The cost of serving one key, as an exponentially weighted mean: each measured row has weight
    `forget`.

    >>> monitor = CostMonitor(first=10.0, forget=0.5)
    >>> monitor.observe(20.0)
    >>> monitor.cost
    15.0
    """

    def __init__(self, first: float = 1.0, forget: float = 1 / 64) -> None:
        self.cost = first
        self._forget = forget

    def observe(self, duration: float, rows: int = 1) -> None:
        """Add a measurement: `rows` rows took `duration` together."""
        kept = (1 - self._forget) ** rows
        self.cost = kept * self.cost + (1 - kept) * duration / rows

"""Slack from observed disorder: the newest time minus the lateness that a named share of the rows
stays within.

    lateness of a row = the newest time before it - its own time, at least 0
    slack = the smallest value that at least a share p of the rows so far does not exceed, rounded
    up to a class

Lateness is counted in classes, sixteen for each doubling, so the slack is at most a sixteenth too
large. Counts are halved as rows come, so that the past fades. The slack changes only after certain
numbers of rows (256, 512, ... then each 4,096): it does not depend on how the stream is cut into
batches. A row that breaks the promise is counted; when there are clearly more of them than the
share allows, reality has broken the estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from thalweg.model.clocks import Clock, shown_duration, shown_time
from thalweg.model.rows import Codes
from thalweg.model.time import MIN_TIME, Times
from thalweg.progress.summary import Sighting
from thalweg.progress.trackers import Tracker

__all__ = ["EstimateTracker", "class_of", "classes_quantile", "sample_of", "upper_edge"]

_FINE = 16
_CLASSES = _FINE + 60 * _FINE
_FIRST, _MOST = 256, 4_096
_FADES = 64 * _MOST
"""After so many rows all counts are halved."""

Counts = npt.NDArray[np.float64]


def class_of(lateness: Times) -> Codes:
    """The class of each lateness: exact below 16, then sixteen classes for each doubling."""
    _, exponent = np.frexp(lateness.astype(np.float64))
    shift = np.maximum(exponent.astype(np.int64) - 5, 0)
    shift = np.where(
        lateness >> shift < _FINE, np.maximum(shift - 1, 0), shift
    )  # a double may have been rounded up to the next power
    return np.where(lateness < _FINE, lateness, _FINE * shift + (lateness >> shift))


def upper_edge(number: int) -> int:
    """The largest lateness in a class.

    >>> [upper_edge(int(c)) for c in class_of(np.array([0, 7, 16, 33, 1000]))]
    [0, 7, 16, 33, 1023]
    """
    if number < 2 * _FINE:
        return number
    shift = number // _FINE - 1
    return ((number % _FINE + _FINE + 1) << shift) - 1


def classes_quantile(counts: Counts, share: float) -> int:
    """The upper edge of the class that the share of all rows stays within."""
    running = np.cumsum(counts)
    return upper_edge(int(np.searchsorted(running, share * running[-1] * (1 - 1e-12), side="left")))


def _no_counts() -> Counts:
    return np.zeros(_CLASSES + _FINE)


@dataclass(frozen=True, slots=True, eq=False)
class EstimateTracker(Tracker):
    percentile: float
    warmup: int
    counts: Counts = field(default_factory=_no_counts)
    newest: int = MIN_TIME
    seen: int = 0
    slack: int | None = None
    judged: float = 0.0
    late: float = 0.0
    promised: int = MIN_TIME
    """The latest promise: a slack that grows does not take it back."""

    @property
    def promise(self) -> int:
        return self.promised

    @property
    def broken(self) -> bool:
        """Whether clearly more rows were late than the share allows: twice as many, and more than
        chance explains."""
        expected = (1 - self.percentile) * self.judged
        return self.late > 2 * expected + 4 * math.sqrt(expected)

    @property
    def broken_reason(self) -> str | None:
        if not self.broken:
            return None
        return (
            f"{self.late:.0f} of {self.judged:.0f} rows came later than the slack {self.slack} "
            f"that was estimated for a share of {self.percentile:.6g}. Disorder has grown; name a "
            "larger share, or give disorder=."
        )

    def after(self, sync: Times) -> tuple[Times, EstimateTracker]:
        promises: list[Times] = []
        tracker, begin = self, 0
        while begin < len(sync):
            until = begin + _next_change(tracker.seen) - tracker.seen
            promise, tracker = tracker._stretch(sync[begin:until])
            promises.append(promise)
            begin = until
        return np.concatenate(promises) if promises else sync, tracker

    def _stretch(self, sync: Times) -> tuple[Times, EstimateTracker]:
        """Rows between two changes of the slack."""
        before = np.maximum.accumulate(np.concatenate([[self.newest], sync]))
        promise = np.full(len(sync), self.promised)
        if self.slack is not None:
            promise = np.maximum(
                promise, np.maximum(before[:-1], MIN_TIME + self.slack) - self.slack
            )
        tracker = self._counted(before[:-1], sync, promise, None)
        tracker = replace(
            tracker, newest=int(before[-1]), promised=max(self.promised, int(promise[-1]))
        )
        return promise, tracker._advanced()

    def _counted(
        self, newest: Times, sync: Times, promise: Times, weight: float | None
    ) -> EstimateTracker:
        """Rows counted by their lateness (the very first has none), and those that break a
        promise."""
        has_newest = newest > MIN_TIME
        lateness = np.maximum(newest[has_newest] - sync[has_newest], 0)
        classes = np.bincount(class_of(lateness), minlength=len(self.counts)).astype(np.float64)
        counts = self.counts + (classes if weight is None else classes * weight)
        seen = self.seen + (len(sync) if weight is None else round(len(sync) * weight))
        judged, late = self.judged, self.late
        if self.slack is not None:
            judged += len(sync) * (weight or 1)
            late += float((sync < promise).sum()) * (weight or 1)
        if self.seen // _FADES != seen // _FADES:
            counts, judged, late = counts / 2, judged / 2, late / 2
        return replace(self, counts=counts, seen=seen, judged=judged, late=late)

    def _advanced(self) -> EstimateTracker:
        """The tracker with a new slack if it changes after this row, and with the promise."""
        tracker = self
        if (
            tracker.seen >= tracker.warmup
            and tracker.seen == _last_change(tracker.seen)
            and tracker.counts.any()
        ):
            tracker = replace(tracker, slack=classes_quantile(tracker.counts, tracker.percentile))
        if tracker.slack is None or tracker.newest == MIN_TIME:
            return tracker
        return replace(
            tracker, promised=max(tracker.promised, tracker.newest - tracker.slack, MIN_TIME)
        )

    def absorb(self, sighting: Sighting) -> EstimateTracker:
        """The tracker after a chunk of which there is a summary alone: a sample of its rows (newest
        time before each in the chunk, its time; rows for each)."""
        sample = sighting.sample or [[], [], 0.0]
        before, sync, weight = (
            np.array(sample[0], np.int64),
            np.array(sample[1], np.int64),
            float(sample[2]),
        )
        tracker = self
        if len(sync):
            tracker = self._counted(
                np.maximum(before, self.newest), sync, np.full(len(sync), self.promised), weight
            )
        tracker = replace(tracker, newest=max(tracker.newest, sighting.newest))
        has_passed_change = _last_change(tracker.seen) > self.seen
        if has_passed_change and tracker.seen >= tracker.warmup and tracker.counts.any():
            tracker = replace(tracker, slack=classes_quantile(tracker.counts, tracker.percentile))
        return tracker._advanced()

    def needed(self, time: int, clock: Clock = None) -> str:
        if self.slack is None:
            return f"{self.warmup} rows to estimate the slack from; {self.seen} have come"
        row = shown_time(time + self.slack, clock)
        return f"a row at {row} or later (estimated slack {shown_duration(self.slack, clock)})"

    def to_json(self) -> Any:
        filled = np.flatnonzero(self.counts)
        classes = [filled.tolist(), self.counts[filled].tolist()]
        return [classes, self.newest, self.seen, self.slack, self.judged, self.late, self.promised]

    def from_json(self, state: Any) -> EstimateTracker:
        (classes, numbers), newest, seen, slack, judged, late, promised = state
        counts = _no_counts()
        counts[np.array(classes, np.int64)] = numbers
        return EstimateTracker(
            self.percentile, self.warmup, counts, newest, seen, slack, judged, late, promised
        )


def _next_change(seen: int) -> int:
    """The first number of rows after `seen` at which the slack changes."""
    if seen >= _MOST:
        return (seen // _MOST + 1) * _MOST
    return max(_FIRST, 1 << seen.bit_length())


def _last_change(seen: int) -> int:
    """The last number of rows, up to `seen`, at which the slack changes."""
    if seen >= _MOST:
        return seen // _MOST * _MOST
    return 0 if seen < _FIRST else 1 << (seen.bit_length() - 1)


def sample_of(sync: Times, most: int = 256) -> list[Any]:
    """A chunk as a sample for `absorb`: evenly spaced rows, each with the newest time before it in
    the chunk."""
    before = np.maximum.accumulate(np.concatenate([[MIN_TIME], sync]))[:-1]
    size = min(len(sync), most)
    which = (
        (np.arange(size) * len(sync) + len(sync) // 2) // size if size else np.empty(0, np.int64)
    )
    return [before[which].tolist(), sync[which].tolist(), len(sync) / size if size else 0.0]

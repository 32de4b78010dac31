"""At most n rows late: nothing will come that n rows have not yet overtaken.

    after m rows the promise is max(t[1] .. t[m - n]), and nothing while m <= n

Equal to `ordered` for n = 0. State: the running maxima of the last n + 1 rows as steps (value, how
many rows), oldest first; the first step is the promise once they are all there. Summaries of chunks
have fewer steps than rows; a step may only be set too low, so what follows from them is a weaker
promise, never a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thalweg.model.clocks import Clock, shown_time
from thalweg.model.rows import Codes
from thalweg.model.time import MIN_TIME, Times
from thalweg.progress.summary import Sighting
from thalweg.progress.trackers import Tracker

__all__ = ["RowsTracker", "steps_of"]


def _nothing() -> Times:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RowsTracker(Tracker):
    """
    >>> promises, after = RowsTracker(1).after(np.array([5, 9, 7, 12]))
    >>> [int(p) if p > MIN_TIME else None for p in promises], after.promise
    ([None, None, 5, 9], 9)
    """

    rows: int
    values: Times = field(default_factory=_nothing)
    counts: Codes = field(default_factory=_nothing)

    @property
    def promise(self) -> int:
        return int(self.values[0]) if int(self.counts.sum()) > self.rows else MIN_TIME

    def after(self, sync: Times) -> tuple[Times, RowsTracker]:
        if not len(sync):
            return sync, self
        held = int(self.counts.sum())
        newest = np.maximum.accumulate(np.concatenate([[self._last], sync]))[1:]
        # The row whose time is the promise, numbered from the oldest row that is held.
        row_numbers = np.arange(len(sync)) + held - (self.rows + 1)
        promise = np.full(len(sync), MIN_TIME)
        old = (row_numbers >= 0) & (row_numbers < held)
        promise[old] = self.values[
            np.searchsorted(np.cumsum(self.counts), row_numbers[old], side="right")
        ]
        new = row_numbers >= held
        promise[new] = newest[row_numbers[new] - held]
        return promise, self._with(*_runs(newest))

    def absorb(self, sighting: Sighting) -> RowsTracker:
        """The tracker after a chunk of which there is a summary alone: its steps [rows, running
        maximum]."""
        if not sighting.steps:
            return self
        counts, values = (
            np.array(column, np.int64) for column in zip(*sighting.steps, strict=True)
        )
        return self._with(np.maximum.accumulate(np.maximum(values, self._last)), counts)

    @property
    def _last(self) -> int:
        return int(self.values[-1]) if len(self.values) else MIN_TIME

    def _with(self, values: Times, counts: Codes) -> RowsTracker:
        values, counts = (
            np.concatenate([self.values, values]),
            np.concatenate([self.counts, counts]),
        )
        below = np.cumsum(counts[::-1])[::-1] - counts  # rows after each step
        keep = below <= self.rows
        counts = np.minimum(counts, self.rows + 1 - below)[keep]
        return RowsTracker(self.rows, values[keep], counts)

    def needed(self, time: int, clock: Clock = None) -> str:
        reached = np.flatnonzero(self.values >= time)
        if not len(reached):
            return f"a row at {shown_time(time, clock)} or later, and {self.rows} rows after it"
        return f"{self.rows + 1 - int(self.counts[reached[0] :].sum())} more rows"

    def to_json(self) -> Any:
        return [self.counts.tolist(), self.values.tolist()]

    def from_json(self, state: Any) -> RowsTracker:
        counts, values = (np.array(column, np.int64) for column in state)
        return RowsTracker(self.rows, values, counts)


def _runs(values: Times) -> tuple[Times, Codes]:
    begins = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return values[begins], np.diff(np.append(begins, len(values)))


def steps_of(sync: Times, rows: int, most: int = 256) -> list[list[int]]:
    """A chunk as steps [rows, running maximum] for `absorb`: at most `most` of them, each as low as
    its first row.

    >>> steps_of(np.array([5, 9, 7, 12]), 3)
    [[1, 5], [2, 9], [1, 12]]
    """
    if not len(sync):
        return []
    values, counts = _runs(np.maximum.accumulate(sync))
    tracker = RowsTracker(rows)._with(values, counts)
    values, counts = tracker.values, tracker.counts
    if len(values) > most:
        part = np.arange(len(values)) * most // len(values)
        begins = np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]]))
        values, counts = values[begins], np.add.reduceat(counts, begins)
        values = np.append(values, np.int64(sync.max()))  # the newest time itself is not to be lost
        counts = np.append(counts, 1)
        counts[-2] -= 1
    return [[int(count), int(value)] for count, value in zip(counts, values, strict=True) if count]

"""The gate of snapshot windows, which decides when they answer: see `consistency`.

The windows of a group answer in the order of time, so that the waiting windows are its last ones.
They follow from the held rows: for each group the gate keeps the first waiting window, and windows
are evaluated when they answer.

State: for each group the start and the end of that window, which are not saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import Slices, progress_of_slice, slice_of_progress
from thalweg.operators.consistency import AnswerGate, Consistency
from thalweg.operators.window.partition_values import grown, moved_to

__all__ = ["FirstWindows", "WindowGate"]


class FirstWindows:
    """By group the first window that waits: its start, and a time at or before its end. INFINITY if
    no window waits."""

    def __init__(self, keys_of: Callable[[Codes], Rows]) -> None:
        self._keys_of = keys_of
        self.clear()

    def clear(self) -> None:
        self.start = self.end = np.empty(0, np.int64)
        self._first: int | None = INFINITY

    def make_room(self, group: Codes) -> None:
        """Make room for these groups, which are ascending."""
        if len(self.start) > group[-1]:
            return
        self.start, self.end = (grown(times, group, INFINITY) for times in (self.start, self.end))

    def set(self, group: Codes, start: Times, end: Times) -> None:
        self.start[group], self.end[group], self._first = start, end, None

    def end_earlier(self, group: Codes, end: Times) -> None:
        """Lower the ends of the first windows of some groups to these times."""
        self.end[group] = np.minimum(self.end[group], end)

    def renumber(self, moved: Codes) -> None:
        self.start, self.end = (
            moved_to(times, moved, INFINITY) for times in (self.start, self.end)
        )

    def is_empty(self) -> bool:
        return self.first() == INFINITY

    def first(self) -> int:
        if self._first is None:
            self._first = int(self.start.min(initial=INFINITY))
        return self._first

    def groups(self) -> Codes:
        """The groups with a window that waits."""
        found: Codes = (self.start != INFINITY).nonzero()[0]
        return found

    def rows(self) -> Delta:
        group = self.groups()
        return Delta(self._keys_of(group), self.start[group], self.end[group], np.ones_like(group))


class WindowGate(AnswerGate):
    """A snapshot ends where the next change is, so that its end may move until it is passed."""

    def __init__(self, consistency: Consistency, keys_of: Callable[[Codes], Rows]) -> None:
        super().__init__(consistency, "past end")
        self.first = self._waiting = FirstWindows(keys_of)
        self._keys_of = keys_of
        self.is_open = consistency.is_eager
        """Whether every window answers at once."""
        self._progress, self._watermark = NO_PROGRESS, MIN_TIME
        self.threshold = MIN_TIME
        """The latest end that lets a window of any group leave."""

    def advance(self, watermark: int, progress: Progress) -> None:
        """Set the progress that decides which windows may answer."""
        self._watermark, self._progress = watermark, progress
        self.threshold = self._common_threshold(watermark, progress.cti)

    @property
    def is_common(self) -> bool:
        """Whether the threshold is the same for all groups."""
        return not (self._progress.speaks_of_groups or self._progress.column_promises)

    @property
    def lags(self) -> bool:
        """Whether there may be rows that start after the threshold."""
        return self.is_common and self.threshold < self._watermark

    def leaves(self, group: Callable[[], Codes], start: Times, end: Times) -> Bools:
        """Which windows may answer; `group` is called only if there are promises for groups."""
        return self._may_leave(
            start, end, lambda: self._keys_of(group()), self._watermark, self._progress
        )

    def leaving_groups(self) -> Codes:
        """The groups whose first waiting window may answer now."""
        if self.first.is_empty():
            return _NONE
        if self.is_common and self.threshold < INFINITY:
            found: Codes = (self.first.end <= self.threshold).nonzero()[0]
            return found
        group = self.first.groups()
        return group[self.leaves(lambda: group, self.first.start[group], self.first.end[group])]

    def needed_for(self, end: int) -> int:
        """The promise that lets a window with this end answer."""
        return end + 1 if self._consistency.is_final else end

    def promise(self) -> Progress:
        """The promise after the windows that have answered."""
        return self._promised(self._progress)

    def snapshot(self) -> Slices:
        return {"gate_progress": slice_of_progress([self._passed])}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._passed = progress_of_slice(slices["gate_progress"])[0]


_NONE = np.empty(0, np.int64)

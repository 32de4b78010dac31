"""Count windows: the settled instants that windows to come may begin with.

An instant is settled when no row can come before it or at it. The last N - 1 settled instants of a
partition may begin windows to come, so that no promise passes the first of them, and rows before it
are needed by open windows only.
"""

from __future__ import annotations

from typing import overload

import numpy as np

from thalweg.model.rows import Codes, used_codes
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.window.modules.event_index import EventIndex
from thalweg.operators.window.modules.window_frames import CountFrame
from thalweg.operators.window.partition_values import grown, moved_to
from thalweg.progress.frontier import Line

__all__ = ["CountInstants"]


class CountInstants:
    def __init__(self, frame: CountFrame, events: EventIndex) -> None:
        self._frame, self._events = frame, events
        self.clear()

    def clear(self) -> None:
        self._begins: Times = np.empty(0, np.int64)
        """By partition: the first instant that a window to come may begin with; INFINITY if there
        is none."""

    def renumber(self, moved: Codes) -> None:
        """Change the numbers of partitions to `moved[old]`."""
        self._begins = moved_to(self._begins, moved, INFINITY)

    @overload
    def line(self, cti: int) -> int: ...
    @overload
    def line(self, cti: Times) -> Times: ...
    def line(self, cti: Times | int) -> Times | int:
        """The time before which instants are settled."""
        return cti - 1 if self._frame.strict else cti

    def begins(self, partition: Codes) -> Times:
        """The first instant that a window to come may begin with, for some partitions."""
        self._begins = grown(self._begins, partition, INFINITY)
        return self._begins[partition]

    def first(self) -> int:
        """The first instant that a window to come may begin with, in any partition."""
        return int(self._begins.min(initial=INFINITY))

    def settle(self, before: Line, settled: Line, partition: Codes | None = None) -> None:
        """Find the settled instants that windows to come may begin with, after a promise for all
        partitions or for some."""
        if partition is None:
            low = MIN_TIME if before.common == MIN_TIME else self.line(before.common)
            news = self._events.between(low, self.line(settled.common))
            partition = used_codes([news.partition])
        if not len(partition):
            return
        since = self.begins(partition)
        since = np.where(since == INFINITY, MIN_TIME, since - 1)
        time = np.full(len(partition), settled.of(partition))
        rows = self._events.find(partition, since, self.line(time))
        some, first = self._frame.needed(rows.partition, rows.since)
        self._begins[partition] = INFINITY
        self._begins[some] = first
        self._begins[partition[time == INFINITY]] = INFINITY

    def first_open(self, time: int) -> int:
        """The first instant that a window to come may begin with, once a time is promised."""
        line = self.line(time)
        rows = self._events.between(MIN_TIME, line)
        _, first = self._frame.needed(rows.partition, rows.since)
        return min(line, int(first.min(initial=INFINITY)))

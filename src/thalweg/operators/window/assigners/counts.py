"""Count windows: [t(i), t(i+N-1) + 1) for distinct instants t1 < t2 < ... of a partition, the
starts of its rows or their last ticks. A row without an end has no last tick.

A window is settled when its last instant is. So of the settled instants the last N - 1 distinct
ones are needed, for windows to come; the first of them, in any partition, is what can be promised.
A change touches the windows around it: those that begin with one of the last N - 1 instants before
it or end with one of the next N - 1 after it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows, used_codes
from thalweg.model.sorting import run_begins, sort_pairs
from thalweg.model.time import INFINITY, MIN_TIME, Times, add_saturating, least
from thalweg.operators.window.assigners.changes import Change, Ordered
from thalweg.operators.window.assigners.whole_partitions import WholePartitions
from thalweg.operators.window.extents import NO_FRAMES, Frames, Places, next_after
from thalweg.operators.window.held_rows import Found
from thalweg.operators.window.partition_values import grown, moved_to
from thalweg.progress.frontier import Frontier, Line
from thalweg.windows import CountWindow

__all__ = ["CountAssigner"]

_FEW = 64
"""While few rows are held, up to this many that nothing needs may stay."""


class CountAssigner(WholePartitions):
    def __init__(self, kind: CountWindow) -> None:
        super().__init__()
        self._others = kind.count - 1
        self._by_end = kind.by == "end"
        self._lag = 1 if self._by_end else 0
        """An instant is settled this long after its tick: a row may still get an end that the CTI
        has just reached."""
        self._begins = np.empty(0, np.int64)
        """By partition: the first instant of a window to come; INFINITY if there is none."""
        self._settled = MIN_TIME
        """Instants before it are settled, in all partitions."""

    # --------------------------------------------------------------------------------------------
    # rows

    def adapt(self, delta: Delta) -> Delta:
        if not self._by_end:
            return super().adapt(delta)
        delta = delta.filter(delta.end != INFINITY)
        return delta.consolidate() if len(delta) and least(delta.weight) < 0 else delta

    def _instants(self, delta: Delta) -> Times:
        return delta.end - 1 if self._by_end else delta.start

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        instant = self._instants(delta)
        return instant, instant + 1

    def change(self, delta: Delta, partition: Codes, old_line: Line) -> Change:
        return Change.of_answered(self._instants(delta), partition, old_line)

    def leaves_from(self, delta: Delta) -> Times:
        return self._instants(delta) + (1 + self._lag)

    def fetch(self, change: Change) -> Found:
        held, partition = self.held, change.partition
        if held.is_small:
            return held.of(partition)
        until = change.last
        for _ in range(self._others + 1):
            after = held.first_after(partition, until)
            until = np.where(after == INFINITY, until + 1, after)
        return held.find(partition, self._earlier(partition, change.first), until)

    def leaving(self, old_line: Line, new_line: Line) -> Found:
        held, partition = self.held, self.waiting(new_line)
        if held.is_small:
            return held.of(partition)
        first, line = (
            add_saturating(np.full(len(partition), each.of(partition)), -self._lag)
            for each in (old_line, new_line)
        )
        after = held.first_after(partition, line)
        self._pending[partition] = np.where(after == INFINITY, after, after + self._lag)
        return held.find(partition, self._earlier(partition, first), line)

    def _earlier(self, partition: Codes, instant: Times) -> Times:
        """For each probe the first of the last N - 1 distinct instants before another."""
        for _ in range(self._others):
            before = self.held.latest_before(partition, instant)
            instant = np.where(before == MIN_TIME, instant, before)
        return instant

    # --------------------------------------------------------------------------------------------
    # windows

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        first = run_begins(rows.partition, rows.start)
        partition, instant = rows.partition[first], rows.start[first]
        last = self._others
        if len(instant) <= last:
            return NO_FRAMES
        whole = (partition[: len(instant) - last] == partition[last:]).nonzero()[0]
        low, high = instant[whole], instant[whole + last] + 1
        beyond = next_after(first, len(rows))[whole + last]
        places = Places(np.arange(len(rows)), first[whole], beyond)
        over = high + 1 if self._by_end else None
        return Frames(partition[whole], low, high, low, high, low, over, places)

    def affected(self, frames: Frames, first: Times, last: Times) -> Bools:
        reached: Bools = (frames.hi > first) & (frames.lo <= last)
        return reached

    # --------------------------------------------------------------------------------------------
    # promises

    def close(self, frontier: Frontier) -> int:
        held, settled = self.held, frontier.settled()
        before, self._settled = self._settled, frontier.cti - self._lag
        if held.is_small:
            self._settle(held.everything(), settled)
        else:
            news = used_codes([held.between(before, self._settled).partition])
            self._settle_partitions(news, settled)
        return self.promise(frontier.cti)

    def promise(self, time: int) -> int:
        return min(time - self._lag, int(self._begins.min(initial=INFINITY)))

    def promise_of_new(self, time: int) -> int:
        return time - self._lag

    def close_partitions(self, partition: Codes, settled: Line) -> Times:
        self._settle_partitions(partition, settled)
        return np.minimum(settled.of(partition) - self._lag, self._begins[partition])

    def _settle_partitions(self, partition: Codes, settled: Line) -> None:
        self._begins = grown(self._begins, partition, INFINITY)
        size = len(partition)
        until = np.full(size, settled.of(partition)) - self._lag
        self._settle(self.held.find(partition, np.full(size, MIN_TIME), until), settled)

    def _settle(self, found: Found, settled: Line) -> None:
        """Forget rows before the last N - 1 distinct settled instants of their partition."""
        over = found.start < settled.of(found.partition) - self._lag
        partition, instant = found.partition[over], found.start[over]
        if not len(partition):
            return
        self._begins = grown(self._begins, found.partition, INFINITY)
        order = sort_pairs(partition, instant)
        partition, instant = partition[order], instant[order]
        first = run_begins(partition, instant)
        partition, instant = partition[first], instant[first]
        # The last instants of a partition are needed; of them the first one is written last.
        needed = self._is_open(partition).nonzero()[0][::-1]
        self._begins[partition] = INFINITY
        self._begins[partition[needed]] = instant[needed]
        over &= found.start < self._begins[found.partition]
        if np.count_nonzero(over) > (_FEW if self.held.is_small else 0):
            self.forget(found.filter(over))

    def _is_open(self, partition: Codes) -> Bools:
        """Which distinct instants are among the last N - 1 of their partition."""
        ends = partition.searchsorted(partition, side="right")
        last: Bools = ends - np.arange(len(partition)) <= self._others
        return last

    def needs(self, time: int) -> int:
        """Windows that begin before the time must be complete and settled."""
        rows = self.order(self.held.everything())
        first = run_begins(rows.partition, rows.start)
        partition, instant = rows.partition[first], rows.start[first]
        if (instant[self._is_open(partition)] < time).any():
            return INFINITY
        frames = self.frames(rows, (partition[:0], partition[:0]), 0)
        return max(time, int(frames.leaves[frames.start < time].max(initial=time)))

    def finish(self, partition: Codes) -> None:
        super().finish(partition)
        self._begins = grown(self._begins, partition, INFINITY)
        self._begins[partition] = INFINITY

    def renumber(self, moved: Codes) -> None:
        super().renumber(moved)
        self._begins = moved_to(self._begins, moved, INFINITY)

    def clear(self) -> None:
        super().clear()
        self._begins, self._settled = np.empty(0, np.int64), MIN_TIME

    def restore(self, slices: Mapping[str, Rows], frontier: Frontier) -> None:
        super().restore(slices, frontier)
        self._begins, self._settled = np.empty(0, np.int64), MIN_TIME

"""Count windows by start: [t(i), t(i+N-1) + 1) for distinct starts t1 < t2 < ... of a partition.

A window is settled when its last start is. So of the settled starts the last N - 1 distinct ones are
needed, for windows to come; the first of them, in any partition, is what can be promised.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import INFINITY, Times
from thalweg.operators.hopping.extents import NO_FRAMES, Frames
from thalweg.operators.window.assigner import Ordered, WholePartitions, grown, moved_to
from thalweg.operators.window.held_rows import Found
from thalweg.progress.frontier import Frontier, Line
from thalweg.windows import CountWindow

__all__ = ["CountAssigner"]


class CountAssigner(WholePartitions):
    def __init__(self, kind: CountWindow) -> None:
        super().__init__()
        self._count = kind.count
        self._begins = np.empty(0, np.int64)
        """Of each partition the first start of a window to come; infinity where there is none."""

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        return delta.start, delta.start + 1

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        partition, start = _distinct(rows.partition, rows.start)
        last = self._count - 1
        if len(start) <= last:
            return NO_FRAMES
        whole = (partition[: len(start) - last] == partition[last:]).nonzero()[0]
        low, high = start[whole], start[whole + last] + 1
        return Frames(partition[whole], low, high, low, high, low)

    # ----------------------------------------------------------------------------------------------
    # promises

    def close(self, frontier: Frontier) -> int:
        self._begins = np.full(len(self._begins), INFINITY)
        self._settle(self.held.everything(), frontier.settled())
        return self.promise(frontier.cti)

    def promise(self, time: int) -> int:
        return min(time, int(self._begins.min(initial=INFINITY)))

    def close_partitions(self, partition: Codes, settled: Line) -> Times:
        self._begins = grown(self._begins, partition, INFINITY)
        self._begins[partition] = INFINITY
        self._settle(self.held.of(partition), settled)
        return np.minimum(settled.of(partition), self._begins[partition])

    def _settle(self, found: Found, settled: Line) -> None:
        """Forget rows before the last N - 1 distinct settled starts of their partition."""
        self._begins = grown(self._begins, found.partition, INFINITY)
        over = found.filter(found.start < settled.of(found.partition))
        if not len(over):
            return
        order = sort_pairs(over.partition, over.start)
        partition, start = _distinct(over.partition[order], over.start[order])
        ends = partition.searchsorted(partition, side="right")
        needed = np.arange(len(partition)) >= ends - (self._count - 1)
        np.minimum.at(self._begins, partition[needed], start[needed])
        self.forget(over.filter(over.start < self._begins[over.partition]))

    def needs(self, time: int) -> int:
        """Windows that begin before a time must be complete and settled."""
        rows = self.order(self.held.everything())
        partition, start = _distinct(rows.partition, rows.start)
        ends = partition.searchsorted(partition, side="right")
        open_ = np.arange(len(partition)) >= ends - (self._count - 1)
        if (start[open_] < time).any():
            return INFINITY
        frames = self.frames(rows, (partition[:0], partition[:0]), 0)
        return max(time, int(frames.end[frames.start < time].max(initial=time)))

    def finish(self, partition: Codes) -> None:
        super().finish(partition)
        self._begins = grown(self._begins, partition, INFINITY)
        self._begins[partition] = INFINITY

    def renumber(self, moved: Codes) -> None:
        super().renumber(moved)
        self._begins = moved_to(self._begins, moved, INFINITY)

    def clear(self) -> None:
        super().clear()
        self._begins = np.empty(0, np.int64)


def _distinct(partition: Codes, start: Times) -> tuple[Codes, Times]:
    """Each start of a partition once; both are sorted."""
    new = np.ones(len(start), np.bool_)
    new[1:] = (partition[1:] != partition[:-1]) | (start[1:] != start[:-1])
    return partition[new], start[new]

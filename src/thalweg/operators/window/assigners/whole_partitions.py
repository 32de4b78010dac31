"""Assigners that evaluate all rows of a partition when one of its windows may answer or change."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times, least
from thalweg.operators.window.assigners.assigner import Assigner
from thalweg.operators.window.assigners.changes import Change
from thalweg.operators.window.extents import Frames
from thalweg.operators.window.held_rows import Found
from thalweg.operators.window.partition_values import grown, moved_to
from thalweg.progress.frontier import Frontier, Line

__all__ = ["WholePartitions"]


class WholePartitions(Assigner):
    """Windows for which all rows of a partition are looked at.

    `_pending` has, for each partition, a time before which none of its windows can answer; infinity
    where nothing waits.
    """

    def __init__(self) -> None:
        self._pending = np.empty(0, np.int64)

    def leaves_from(self, delta: Delta) -> Times:
        """For each row the earliest time at which a window that has it may be complete."""
        return delta.start + 1

    def fetch(self, change: Change) -> Found:
        return self.held.of(change.partition)

    def affected(self, frames: Frames, first: Times, last: Times) -> Bools:
        reached: Bools = frames.leaves > first
        return reached

    def note_rows(self, delta: Delta, partition: Codes, old_line: Line) -> None:
        leaves = self.leaves_from(delta)
        self.wait(partition, leaves, old_line)
        # A late row may complete a window of later rows, none of which waits; and without a row
        # that is taken back a window may be complete earlier.
        moves = (leaves <= old_line.of(partition)) | (delta.weight < 0)
        if moves.any():
            self._pending[partition[moves]] = MIN_TIME

    def waiting(self, new_line: Line) -> Codes:
        pending = self._pending
        line = new_line.of(np.arange(len(pending))) if new_line.ahead else new_line.common
        found: Codes = ((pending <= line) & (pending != INFINITY)).nonzero()[0]
        pending[found] = INFINITY
        return found

    def leaving(self, old_line: Line, new_line: Line) -> Found:
        return self.held.of(self.waiting(new_line))

    def note_answers(self, frames: Frames, new_line: Line) -> None:
        self.wait(frames.partition, frames.leaves, new_line)

    def wait(self, partition: Codes, leaves: Times, line: Line) -> None:
        """Note windows that are complete at some times, or later: those after the line wait."""
        if not len(partition):
            return
        if len(self._pending) < len(self.held.partitions.index):
            self._pending = grown(self._pending, partition, INFINITY)
        if line.ahead or least(leaves) <= line.common:
            later = (leaves > line.of(partition)).nonzero()[0]
            if not len(later):
                return
            partition, leaves = partition[later], leaves[later]
        np.minimum.at(self._pending, partition, leaves)

    def finish(self, partition: Codes) -> None:
        super().finish(partition)
        self._pending = grown(self._pending, partition, INFINITY)
        self._pending[partition] = INFINITY

    def renumber(self, moved: Codes) -> None:
        self._pending = moved_to(self._pending, moved, INFINITY)

    def clear(self) -> None:
        self._pending = np.empty(0, np.int64)

    def restore(self, slices: Mapping[str, Rows], frontier: Frontier) -> None:
        self._pending = np.full(len(self.held.partitions.index), MIN_TIME)

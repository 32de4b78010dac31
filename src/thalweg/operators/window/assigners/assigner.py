"""An assigner is a kind of window at run time. Its methods answer

    stretch     over which positions a row is needed: times, or row numbers
    fetch       which rows the windows need that a change reaches
    affected    which windows those are
    leaving     which rows the windows need that may answer now
    frames      which windows some rows make
    close       what a CTI closes, and the promise it allows; `close_partitions` for promises that
                hold for single partitions
    needs       the least CTI with which a time can be promised

Everything else is the same for all kinds. Windows are intervals over the coordinate of the rows of
a partition (see `extents`), or sets of rows (`occupied` overridden).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import Times, least
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.groups import only_starts
from thalweg.operators.window.assigners.changes import Change, Ordered, repeated
from thalweg.operators.window.extents import Frames, Occupied, occupied
from thalweg.operators.window.held_rows import Found, HeldRows
from thalweg.operators.window.totals import Totals
from thalweg.progress.frontier import Frontier, Line

__all__ = ["Assigner"]


class Assigner(ABC):
    disjoint: bool = False
    """Whether each row is in one window."""
    chained: bool = False
    """Whether the lifetime of an answer ends where the next one begins."""
    columns: tuple[str, ...] = ()
    """Columns of the input that the kind reads, beside the start."""
    cumulative: bool = False
    """Whether windows hold all rows so far, so that forgotten rows are kept as totals."""
    moves_without_cti: bool = False
    """Whether the promise may move although no CTI has come."""
    keeps_start: bool = False
    """Whether positions are not times, so that starts must be kept beside them."""

    held: HeldRows
    totals: Totals | None = None

    def attach(self, held: HeldRows, totals: Totals | None) -> None:
        self.held, self.totals = held, totals

    # --------------------------------------------------------------------------------------------
    # rows

    def adapt(self, delta: Delta) -> Delta:
        """The changes of a batch that can change a window; by default ends are ignored."""
        return only_starts(delta) if len(delta) and least(delta.weight) < 0 else delta

    @abstractmethod
    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        """The positions [since, until) at which each row is needed at least."""

    def compact(self, rows: Delta, partition: Codes) -> tuple[Delta, Codes]:
        """Rows as they are held, where some rows can stand for others."""
        return rows, partition

    def starts(self, found: Found) -> Times:
        """The starts of rows of the store."""
        return found.start

    def order(self, found: Found) -> Ordered:
        start = self.starts(found)
        which = repeated(sort_pairs(found.partition, start), found.weight)
        return Ordered(found, which, start[which])

    # --------------------------------------------------------------------------------------------
    # windows

    def mark(self) -> int:
        """A number that windows depend on beside the rows of a partition, such as where a grid
        begins."""
        return 0

    def observe(self, batch: Batch) -> bool:
        """Update from the progress of a batch; whether that alone changes windows."""
        return False

    @abstractmethod
    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        """The windows of rows, and of totals (partition, position)."""

    def linked(self, frames: Frames) -> Frames:
        """The windows that answer, where the end of one is the start of the next."""
        return frames

    def coordinate(self, rows: Ordered) -> Codes:
        return rows.start

    def totals_coordinate(self, position: Codes) -> Codes:
        return position

    def occupied(
        self, frames: Frames, rows: Ordered, partition: Codes, group: Codes, coordinate: Codes
    ) -> Occupied:
        return occupied(frames, partition, group, coordinate)

    def has_answered(self, frames: Frames, line: Line, mark: int) -> Bools:
        """Which windows have answered."""
        has: Bools = frames.leaves <= line.of(frames.partition)
        return has

    def change(self, delta: Delta, partition: Codes, old_line: Line) -> Change:
        """The partitions in which windows that have answered may change, and where."""
        return Change.of_answered(delta.start, partition, old_line)

    def note_rows(self, delta: Delta, partition: Codes, old_line: Line) -> None:
        """Note new rows, whose windows may answer later."""
        return

    @abstractmethod
    def fetch(self, change: Change) -> Found:
        """The rows of the windows that a change may reach."""

    @abstractmethod
    def affected(self, frames: Frames, first: Times, last: Times) -> Bools:
        """Which windows a change between `first` and `last` of their partition reaches."""

    @abstractmethod
    def leaving(self, old_line: Line, new_line: Line) -> Found:
        """The rows of the windows that may answer now."""

    def waiting(self, new_line: Line) -> Codes:
        """The partitions that may have a window which answers now."""
        raise NotImplementedError

    def note_answers(self, frames: Frames, new_line: Line) -> None:
        """Note that the windows up to a line have answered, so that those after it wait."""
        return

    # --------------------------------------------------------------------------------------------
    # promises

    @abstractmethod
    def close(self, frontier: Frontier) -> int:
        """Forget what the common promise settles; returns the promise that it allows."""

    def close_partitions(self, partition: Codes, settled: Line) -> Times:
        """Forget what promises for single partitions settle; returns the promises that they
        allow."""
        found = self.held.of(partition)
        self.forget(found.filter(found.end <= settled.of(found.partition)))
        times = np.broadcast_to(settled.of(partition), partition.shape)
        return np.array([self.promise(int(time)) for time in times], np.int64)

    def promise_of_new(self, time: int) -> int:
        """The promise that a promise up to `time` allows for a partition without rows."""
        return self.promise(time)

    def forget(self, found: Found) -> None:
        """Forget rows."""
        self.held.remove(found.hits)

    def finish(self, partition: Codes) -> None:
        """Forget partitions that have ended."""
        self.held.remove(self.held.of(partition).hits)
        if self.totals is not None:
            self.totals.remove(self.totals.of(partition))

    @abstractmethod
    def promise(self, time: int) -> int:
        """The promise that a CTI allows, as far as it depends on the CTI alone."""

    @abstractmethod
    def needs(self, time: int) -> int:
        """The least CTI with which a time can be promised."""

    def lacks(self) -> tuple[str, ...]:
        return ()

    # --------------------------------------------------------------------------------------------
    # state

    def used(self) -> Codes:
        """Partitions for which something beside rows is kept."""
        return np.empty(0, np.int64)

    def renumber(self, moved: Codes) -> None:
        """Partitions have new numbers."""
        return

    def clear(self) -> None:
        """Forget everything."""
        return

    def snapshot(self) -> Slices:
        return {}

    def restore(self, slices: Mapping[str, Rows], frontier: Frontier) -> None:
        """Restore what the kind keeps, after the rows were restored."""
        return

    def size(self) -> StateSize:
        return StateSize()

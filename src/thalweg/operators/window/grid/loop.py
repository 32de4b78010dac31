"""The loop of windows on a grid: hold rows, revise, answer, close, save.

    batch    rows are held; windows that have answered and change are answered again         revise
    CTI      windows that may answer now do                                                  answer
             rows and partial results that only closed windows need are forgotten            close

A kernel is a store of rows or of partial results by group. It defines how rows are held and how
windows are evaluated; which windows answer, and when, follows from the `Release` alone. After the
last CTI nothing is held. Numbers of groups that no row refers to are reused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows, used_codes
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, greatest, least
from thalweg.operators.base import Slices
from thalweg.operators.window.grid.grid import Grid, Release
from thalweg.operators.window.window_operator import WindowOperator
from thalweg.progress.frontier import Consistency
from thalweg.windows import HoppingWindow

__all__ = ["Arrivals", "ComparingGridOperator", "GridOperator"]

R = TypeVar("R")
"""Rows in the form in which a kernel holds them."""
C = TypeVar("C")
"""Changes of answers."""


@dataclass(slots=True)
class Arrivals(Generic[R]):
    """The changes of a batch as they are held: the group of each, and its windows first .. beyond -
    1. `late` if some of these windows may have answered."""

    rows: R
    group: Codes
    first: Codes
    beyond: Codes
    late: bool = False


class GridOperator(WindowOperator, Generic[R, C]):
    """A kernel of windows on a grid."""

    def _place_on(self, window: HoppingWindow, consistency: Consistency) -> None:
        self._grid = Grid(window)
        self._release = Release(consistency, grid=self._grid)

    @property
    def release(self) -> Release:
        """The windows that are closed and released. Its watermark may be moved where groups have
        promises of their own."""
        return self._release

    # --------------------------------------------------------------------------------------------
    # the loop

    def process(self, port: int, batch: Batch) -> Batch:
        release = self._release
        changes: list[C] = []
        if len(batch):
            self._take_in(batch, changes)
        out = release.released
        ended = release.advance(batch.progress.cti)
        if release.released > out:
            changes.append(self.answer(out + 1, release.released))
        answers = self.to_batch(changes, Progress(self.promise()))
        if release.cti == INFINITY:
            self.clear()
        else:
            if ended:
                self.close(release.expired)
            self.reuse_numbers()
        return answers

    def _take_in(self, batch: Batch, changes: list[C]) -> None:
        """Hold the rows of a batch, and add the revisions of windows that have answered."""
        release = self._release
        delta = self.project(batch)
        release.see(delta.start, delta.end)
        beyond_of = self._grid.beyond if release.endless else self._grid.beyond_finite
        arrivals = self.read(delta, self._grid.first(delta.start), beyond_of(delta.end))
        if arrivals is None:
            return
        if least(arrivals.first) <= release.released:
            arrivals.late = True
            low, length = release.open_windows(arrivals.first, arrivals.beyond)
            if np.count_nonzero(length):
                changes.append(self.revise(arrivals, low, length))
                return
        self.hold(arrivals)

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        """Close windows that end before the time without answers. Promises still follow from the
        CTI alone."""
        release = self._release
        if unwanted[0] <= MIN_TIME:
            return
        last = self._grid.last_ending_by(min(time, MAX_TIME) - 1)
        if last > release.closed:
            self.pass_over(last)
            release.pass_over(last)
            self.close(self._grid.start(last + 1))
            self.reuse_numbers()

    # --------------------------------------------------------------------------------------------
    # rows in

    def project(self, batch: Batch) -> Delta:
        """The changes of a batch."""
        return Delta.of_batch(batch)

    @abstractmethod
    def read(self, delta: Delta, first: Codes, beyond: Codes) -> Arrivals[R] | None:
        """The changes in the form in which they are held, with numbers for their groups. None if
        they are in no window."""

    @abstractmethod
    def hold(self, arrivals: Arrivals[R]) -> None:
        """Add changes to the state."""

    # --------------------------------------------------------------------------------------------
    # answers

    @abstractmethod
    def revise(self, arrivals: Arrivals[R], low: Codes, length: Codes) -> C:
        """Hold changes of which some are in windows that have answered: `low` and `length` are the
        first such window of each change and their number. Returns the revisions."""

    @abstractmethod
    def answer(self, low: int, high: int) -> C:
        """The first answers of the windows low .. high."""

    @abstractmethod
    def to_batch(self, changes: Sequence[C], progress: Progress) -> Batch:
        """Changes of answers as elements."""

    def promise(self) -> int:
        """The CTI of the answers."""
        return self._grid.promise(self._release.cti)

    def needs(self, time: int) -> tuple[int, ...]:
        return (self._grid.needs(time),)

    # --------------------------------------------------------------------------------------------
    # state

    @abstractmethod
    def close(self, expired: int) -> None:
        """Forget what only the windows up to `release.closed` need, and rows that have ended by a
        time."""

    def pass_over(self, last: int) -> None:
        """The windows up to `last` close without answers."""
        return

    def groups(self) -> list[pa.Array]:
        """The keys of all groups that have numbers, in the order of the numbers."""
        return self.index.columns(np.arange(len(self.index)))

    def close_groups(self, closed: Codes) -> None:
        """Forget what only closed windows of single groups need: `closed` is the last closed window
        by number of the group, `FOREVER` where the group has ended, `NEVER` where only the common
        promise holds."""
        self.drop_closed(closed)
        self.reuse_numbers()

    @abstractmethod
    def drop_closed(self, closed: Codes) -> None:
        """`close_groups`, without reusing numbers of groups."""

    @abstractmethod
    def save(self) -> Slices:
        """The state, except the release."""

    @abstractmethod
    def load(self, slices: Mapping[str, Rows]) -> None:
        """Restore the state, after the release."""

    def snapshot(self) -> Slices:
        return {"release": self._release.to_rows(), **self.save()}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._release.restore(slices["release"])
        self.load({name: rows for name, rows in slices.items() if name != "release"})


class ComparingGridOperator(GridOperator[R, Delta]):
    """A kernel that revises windows by evaluating them before and after a change: all windows from
    the first to the last affected one, for the groups that change."""

    @abstractmethod
    def evaluate(self, low: int, high: int, groups: Codes | None = None) -> Delta:
        """The answers of the windows low .. high, of all groups or of some."""

    def shown(self, low: int, high: int, groups: Codes) -> Delta:
        """The answers of some windows and groups that have answered."""
        return self.evaluate(low, high, groups)

    def revise(self, arrivals: Arrivals[R], low: Codes, length: Codes) -> Delta:
        late = length.nonzero()[0]
        begin = low[late]
        first, last = least(begin), greatest(begin + length[late]) - 1
        touched = used_codes([arrivals.group[late]])
        before = self.shown(first, last, touched)
        self.hold(arrivals)
        after = self.evaluate(first, last, touched)
        return Delta.concat([after, before.negate()], self.schema)

    def answer(self, low: int, high: int) -> Delta:
        return self.evaluate(low, high)

    def to_batch(self, changes: Sequence[Delta], progress: Progress) -> Batch:
        return Delta.concat(changes, self.schema).to_batch(progress)

"""Hopping windows as a grid of integers: window k is [k * hop + offset, k * hop + offset + size).

    first(s)     smallest k whose window ends after s:  floor((s - offset - size) / hop) + 1
    beyond(e)    smallest k whose window starts at or after e:  ceil((e - offset) / hop)

An event [s, e) belongs to the windows first(s) .. beyond(e) - 1. Two more integers follow the
stream: windows up to `closed` end at or before the CTI, or nobody wants them any more; windows up
to `released` may have answers out (see `consistency`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Codes
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times, greatest
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.windows import HoppingWindow

__all__ = ["FOREVER", "NEVER", "Grid", "GridOperator", "Release"]

FOREVER = 2**62 + 2**61
"""A window index after all windows: times lie within 2^62 of zero."""
NEVER = -FOREVER
"""A window index before all windows."""


class Grid:
    def __init__(self, window: HoppingWindow) -> None:
        self.size, self.hop, self.offset = window.size, window.hop, window.offset

    def first(self, start: Times) -> Codes:
        first: Codes = start - (self.offset + self.size)
        np.floor_divide(first, self.hop, out=first)
        np.add(first, 1, out=first)
        return first

    def beyond(self, end: Times) -> Codes:
        if not len(end) or greatest(end) != INFINITY:
            return -((self.offset - end) // self.hop)
        endless = end == INFINITY
        return np.where(endless, FOREVER, -((self.offset - np.where(endless, 0, end)) // self.hop))

    def ending_at(self, beyond: Codes) -> Times:
        """The latest end of rows with such a first window after theirs: where it starts."""
        if not len(beyond) or greatest(beyond) != FOREVER:
            return self.start(beyond)
        endless = beyond == FOREVER
        return np.where(endless, INFINITY, self.start(np.where(endless, 0, beyond)))

    def start(self, window: Codes) -> Times:
        return window * self.hop + self.offset

    def last_ending_by(self, time: int) -> int:
        """The last window that ends at or before a time."""
        if time in (MIN_TIME, INFINITY):
            return NEVER if time == MIN_TIME else FOREVER
        return (time - self.offset - self.size) // self.hop

    def last_starting_by(self, time: int) -> int:
        """The last window that starts at or before a time."""
        if time in (MIN_TIME, INFINITY):
            return NEVER if time == MIN_TIME else FOREVER
        return (time - self.offset) // self.hop


@dataclass(slots=True)
class Release:
    """How far a stream has come on the grid. `horizon` is the largest finite time seen, where rows
    without an end stop."""

    grid: Grid
    consistency: Consistency
    watermark: int = MIN_TIME
    cti: int = MIN_TIME
    horizon: int = MIN_TIME
    closed: int = NEVER
    released: int = NEVER

    def see(self, start: Times, end: Times) -> None:
        """New rows: the watermark and the horizon move."""
        if len(start):
            self.watermark = max(self.watermark, greatest(start))
            latest = greatest(end)
            if latest == INFINITY:
                latest = int(end[end != INFINITY].max(initial=MIN_TIME))
            self.horizon = max(self.horizon, self.watermark + 1, latest)

    def advance(self, cti: int) -> tuple[int, int]:
        """A new CTI: the windows that are closed, and those that may now answer."""
        self.cti = max(self.cti, cti)
        if self.cti != INFINITY:
            self.horizon = max(self.horizon, self.cti)
        self.watermark = max(self.watermark, self.cti)
        last = self.grid.last_starting_by(self.horizon - 1) if self.horizon != MIN_TIME else NEVER
        closed = (
            min(self.grid.last_ending_by(self.cti), last)
            if self.cti == INFINITY
            else self.grid.last_ending_by(self.cti)
        )
        if self.consistency.mode == "eager":
            released = self.grid.last_starting_by(min(self.watermark, self.horizon))
        else:
            released = self.grid.last_ending_by(
                self.consistency.threshold(self.watermark, self.cti)
            )
        released = max(min(released, last), closed)
        return max(closed, self.closed), max(released, self.released)

    def needs(self, time: int) -> int:
        """The end of the last window that starts before a time: once it is closed, `time` can be
        promised."""
        if time <= MIN_TIME or time == INFINITY:
            return time
        last = -((self.grid.offset - time) // self.grid.hop) - 1
        return max(last * self.grid.hop + self.grid.offset + self.grid.size, MIN_TIME + 1)

    @property
    def promised_window(self) -> int:
        """The first window that the CTI leaves open, whether somebody wants it or not."""
        return self.grid.last_ending_by(self.cti) + 1

    def promise(self) -> int:
        """The start of the earliest window that the CTI leaves open: no answer before it changes
        any more."""
        if self.cti in (MIN_TIME, INFINITY):
            return self.cti
        return max(self.promised_window * self.grid.hop + self.grid.offset, MIN_TIME)


class GridOperator(Operator):
    """A kernel of windows on a grid."""

    _release: Release

    @property
    def release(self) -> Release:
        """How far it has come; whoever knows better than the common promise may move its
        watermark."""
        return self._release

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        """Windows that end before the time give no answer any more. A promise follows from the CTI
        alone."""
        if unwanted[0] > MIN_TIME:
            last = self._release.grid.last_ending_by(min(time, MAX_TIME) - 1)
            if last > self._release.closed:
                self.close_unwanted(last)

    @abstractmethod
    def close_unwanted(self, last: int) -> None:
        """Close the windows up to `last` without answers, and forget what only they need."""

    @abstractmethod
    def groups(self) -> list[pa.Array]:
        """The keys of all groups that it has numbers for, in the order of the numbers."""

    @abstractmethod
    def held_groups(self) -> Codes:
        """The numbers of groups of which something is held."""

    @abstractmethod
    def close_groups(self, closed: Codes) -> None:
        """Forget what windows need that are closed for a group: for the number of each group the
        last such window, `FOREVER` where the group has ended, `NEVER` where only the common promise
        holds."""

"""Hopping windows as a grid of integers: window k is [k * hop + offset, k * hop + offset + size).

    first(s)     smallest k whose window ends after s:  floor((s - offset - size) / hop) + 1
    beyond(e)    smallest k whose window starts at or after e:  ceil((e - offset) / hop)

An event [s, e) belongs to the windows first(s) .. beyond(e) - 1. Two more integers follow the
stream: windows up to `closed` end at or before the CTI, or no reader needs them any more; windows
up to `released` may have answers out (see `consistency`); `closed` never passes `released`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest
from thalweg.progress.frontier import Reached
from thalweg.windows import HoppingWindow

__all__ = ["FOREVER", "NEVER", "Grid", "Release"]

FOREVER = 2**62 + 2**61
"""A window index after all windows: times lie within 2^62 of zero."""
NEVER = -FOREVER
"""A window index before all windows."""


Window = TypeVar("Window", int, Codes)
"""The index of a window, or of several."""


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
            return self.beyond_finite(end)
        endless = end == INFINITY
        return np.where(endless, FOREVER, self.beyond_finite(np.where(endless, 0, end)))

    def beyond_finite(self, end: Times) -> Codes:
        """`beyond` for ends none of which is infinite."""
        beyond: Codes = self.offset - end
        np.floor_divide(beyond, self.hop, out=beyond)
        np.negative(beyond, out=beyond)
        return beyond

    def inside(self, first: Codes, beyond: Codes, low: int, high: int) -> tuple[Codes, Codes]:
        """The windows first .. beyond - 1 that are among low .. high: the first one, and their
        number."""
        begin = np.maximum(first, low)
        return begin, np.maximum(np.minimum(beyond, high + 1) - begin, 0)

    def ending_at(self, beyond: Codes) -> Times:
        """The latest end of a row whose first window after its own is this one: the start of that
        window."""
        if not len(beyond) or greatest(beyond) != FOREVER:
            return self.start(beyond)
        endless = beyond == FOREVER
        return np.where(endless, INFINITY, self.start(np.where(endless, 0, beyond)))

    def start(self, window: Window) -> Window:
        return window * self.hop + self.offset

    def end(self, window: Window) -> Window:
        return window * self.hop + (self.offset + self.size)

    def last_end_by(self, time: int) -> int:
        """The last end of a window at or before a time."""
        return time if time in (MIN_TIME, INFINITY) else self.end(self.last_ending_by(time))

    def over(self, closed: Codes) -> Times:
        """The time by which rows have ended that are over once these windows are closed: they are
        in no later window, and the promise has passed their ends, so that none moves into one."""
        return self.start(closed) + min(self.hop, self.size - 1)

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

    def needs(self, time: int) -> int:
        """The end of the last window that starts before a time: when that window is closed, `time`
        can be promised."""
        if time <= MIN_TIME or time == INFINITY:
            return time
        last = -((self.offset - time) // self.hop) - 1
        return max(self.end(last), MIN_TIME + 1)

    def promise(self, cti: int) -> int:
        """The start of the earliest window that a CTI leaves open: no answer before it changes any
        more."""
        if cti in (MIN_TIME, INFINITY):
            return cti
        return max(self.start(self.last_ending_by(cti) + 1), MIN_TIME)


@dataclass(slots=True)
class Release(Reached):
    """Which windows of a grid are closed, and which may have answers out. `horizon` is the largest
    finite time seen, where rows without an end stop."""

    grid: Grid = field(kw_only=True)
    horizon: int = MIN_TIME
    closed: int = NEVER
    released: int = NEVER
    endless: bool = False
    """Whether there was a row without an end."""

    def see(self, start: Times, end: Times) -> None:
        """Move the watermark and the horizon for new rows."""
        newest, latest = greatest(start), greatest(end)
        if latest == INFINITY:
            self.endless = True
            latest = int(end[end != INFINITY].max(initial=MIN_TIME))
        if newest > self.watermark:
            self.watermark = newest
        self.horizon = max(self.horizon, self.watermark + 1, latest)

    def advance(self, cti: int) -> bool:
        """Move the closed and the released windows for a new CTI; returns whether windows or rows
        are not needed any more."""
        threshold = self.move(cti)
        cti, grid, expired = self.cti, self.grid, self.expired
        if cti != INFINITY and cti > self.horizon:
            self.horizon = cti
        last = NEVER if self.horizon == MIN_TIME else grid.last_starting_by(self.horizon - 1)
        closed = grid.last_ending_by(cti)
        if cti == INFINITY:
            closed = min(closed, last)
        if self.consistency.is_eager:
            released = grid.last_starting_by(min(self.watermark, self.horizon))
        else:
            released = grid.last_ending_by(threshold)
        before = self.closed
        self.closed = max(closed, before)
        self.released = max(min(released, last), self.closed, self.released)
        return self.closed > before or self.expired > expired

    def pass_over(self, last: int) -> None:
        """Close the windows up to `last`, which no reader needs."""
        self.closed, self.released = last, max(self.released, last)

    @property
    def expired(self) -> int:
        """Rows that have ended by this time are in no open window: only an end that the CTI has not
        passed may still move into the next window."""
        if self.cti == MIN_TIME:
            return MIN_TIME
        return min(self.grid.start(self.closed + 1), self.cti - 1)

    def open_windows(self, first: Codes, beyond: Codes) -> tuple[Codes, Codes]:
        """The windows first .. beyond - 1 that may have answered and are not closed: the first one,
        and their number."""
        return self.grid.inside(first, beyond, self.closed + 1, self.released)

    @property
    def promised_window(self) -> int:
        """The first window that the CTI leaves open, needed or not."""
        return self.grid.last_ending_by(self.cti) + 1

    def to_rows(self) -> Rows:
        return pa.RecordBatch.from_arrays(
            [pa.array([getattr(self, name)], pa.int64()) for name in _MARKS], names=_MARKS
        )

    def restore(self, rows: Rows) -> None:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            setattr(self, name, column[0].as_py())


_MARKS = ["watermark", "cti", "horizon", "closed", "released"]

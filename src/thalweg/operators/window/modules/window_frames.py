"""Frames: how rows make windows for modules, and which rows are in a window; one frame for each
kind.

A batch touches regions: stretches of the time of a group. Its frame extends each region until no
window outside it can change, and makes the windows of the region (`Spans`, by region and start)
from the rows in it. All regions of a batch are handled at once. The windows are those that
`thalweg.windows` defines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from thalweg.errors import PlanError
from thalweg.model.rows import Bools, Codes
from thalweg.model.sorting import run_begins, sort_pairs
from thalweg.model.time import INFINITY, Times
from thalweg.operators.groups import ranges
from thalweg.operators.rows.sessions import chains_of
from thalweg.operators.window.grid.grid import FOREVER, Grid
from thalweg.operators.window.modules.event_index import EventIndex
from thalweg.operators.window.modules.window_index import WindowIndex
from thalweg.operators.window.snapshot.snapshots import snapshots_of
from thalweg.windows import CountWindow, HoppingWindow, SessionWindow, SnapshotWindow, Window

__all__ = ["CountFrame", "Frame", "GridFrame", "Reach", "Regions", "Spans", "frame_for"]


@dataclass(frozen=True, slots=True)
class Spans:
    """Windows, sorted by group and start."""

    code: Codes
    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.code)

    def take(self, which: Codes | Bools) -> Spans:
        return Spans(self.code[which], self.start[which], self.end[which])


@dataclass(frozen=True, slots=True)
class Regions:
    """Stretches of time of partitions, sorted and disjoint: those that a batch touches. Each window
    lies in a region or outside all of them, and windows outside stay as they are."""

    partition: Codes
    low: Times
    high: Times

    def __len__(self) -> int:
        return len(self.partition)

    def joined(self) -> tuple[Regions, Codes]:
        """Overlapping or adjacent regions as one; and for each region the number of its union."""
        size = len(self)
        if size <= 1:
            return self, np.zeros(size, np.int64)
        order = sort_pairs(self.partition, self.low)
        partition, low, high = self.partition[order], self.low[order], self.high[order]
        highs = np.sort(high)
        rank = np.searchsorted(highs, high)
        block = np.zeros(size, np.int64)
        np.cumsum(partition[1:] != partition[:-1], out=block[1:])
        # The blocks ascend, so that the largest end so far never comes from another partition.
        reached = highs[np.maximum.accumulate(block * len(highs) + rank) % len(highs)]
        new = np.ones(size, np.bool_)
        new[1:] = (block[1:] != block[:-1]) | (low[1:] > reached[:-1])
        begins = np.flatnonzero(new)
        ends = np.append(begins[1:], size) - 1
        which = np.empty(size, np.int64)
        which[order] = np.cumsum(new) - 1
        return Regions(partition[begins], low[begins], reached[ends]), which


@dataclass(frozen=True, slots=True)
class Reach:
    """How far time has advanced, which decides which windows of a grid exist."""

    limit: int
    """Windows begin before this time; infinite once the stream has ended."""
    horizon: int
    """The largest finite time seen, where rows without an end stop when the stream ends."""


class Frame(ABC):
    """Rows are given by their positions [since, until) (see `event_index`)."""

    strict = False
    """Whether a window whose end equals the CTI may still get another end."""
    by: str | None = None
    """The instant of a row that decides its windows: `start` or `end`; None: all of its
    lifetime."""

    counts: bool = False
    """Whether windows count rows, so that the reach of a change depends on other rows."""

    @abstractmethod
    def reach(self, since: Times, until: Times) -> tuple[Times, Times]:
        """The time [low, high) that a change of each row may touch: windows that overlap it."""

    @abstractmethod
    def widen(self, regions: Regions, windows: WindowIndex, events: EventIndex) -> Regions:
        """Regions with all windows that they touch, or that may come to be."""

    @abstractmethod
    def spans(
        self, code: Codes, since: Times, until: Times, regions: Regions, reach: Reach
    ) -> Spans:
        """The windows that rows of some regions make in them; `code` is the region of a row."""

    @abstractmethod
    def members(self, code: Codes, since: Times, until: Times, spans: Spans) -> tuple[Codes, Codes]:
        """Every pair (row, window) of a row and a window it is in."""

    def ended(self, end: Times, cti: Times | int) -> Bools:
        """Whether no new row can come into a window."""
        past: Bools = (end < cti) | (cti == INFINITY) if self.strict else end <= cti
        return past

    def over(self, cti: Times) -> Times:
        """Rows that have ended by then are in no window that promises leave open."""
        return cti - 1

    def closes(self, end: Times) -> Times:
        """The promise after which no new row can come into a window."""
        return np.where(end == INFINITY, end, end + 1) if self.strict else end


def frame_for(window: Window) -> Frame:
    """The frame of a kind of window."""
    match window:
        case SnapshotWindow():
            return SnapshotFrame()
        case SessionWindow(gap=gap):
            return SessionFrame(gap)
        case CountWindow(count=count, by=by):
            return CountFrame(count) if by == "start" else CountByEndFrame(count)
        case HoppingWindow():
            return GridFrame(window)
    raise PlanError(f"no module runs over {window}.")


def _keys(code: Codes, time: Times, other_code: Codes, other_time: Times) -> tuple[Codes, Codes]:
    """Pairs (group, time) as numbers that sort in the same way, comparable between the two."""
    times = np.concatenate([time, other_time])
    finite = times[times != INFINITY]
    low, high = (int(finite.min()), int(finite.max()) + 1) if len(finite) else (0, 1)
    groups = int(max(code.max(initial=0), other_code.max(initial=0))) + 1
    if groups * (high - low + 1) < 2**62:
        flat = np.where(times == INFINITY, high, times) - low
        width = high - low + 1
    else:
        _, flat = np.unique(times, return_inverse=True)
        width = len(times) + 1
    both = np.concatenate([code, other_code]) * width + flat
    return both[: len(code)], both[len(code) :]


def _covered(code: Codes, first: Times, beyond: Times, spans: Spans) -> tuple[Codes, Codes]:
    """For each row the windows of its group that begin in [first, beyond)."""
    low_key, span_key = _keys(code, first, spans.code, spans.start)
    high_key, other_key = _keys(code, beyond, spans.code, spans.start)
    low = np.searchsorted(span_key, low_key)
    return ranges(low, np.maximum(np.searchsorted(other_key, high_key) - low, 0))


def _inside(code: Codes, time: Times, spans: Spans) -> tuple[Codes, Codes]:
    """Rows whose time is in [a, b) of a window."""
    order = sort_pairs(code, time)
    row_key, low_key = _keys(code[order], time[order], spans.code, spans.start)
    other_key, high_key = _keys(code[order], time[order], spans.code, spans.end)
    low = np.searchsorted(row_key, low_key)
    window, at = ranges(low, np.searchsorted(other_key, high_key) - low)
    return order[at], window


class SnapshotFrame(Frame):
    """Between neighbouring endpoints. A change also touches windows that only meet it: they may be
    merged or divided."""

    strict = True

    def reach(self, since: Times, until: Times) -> tuple[Times, Times]:
        return since - 1, np.where(until == INFINITY, until, until + 1)

    def widen(self, regions: Regions, windows: WindowIndex, events: EventIndex) -> Regions:
        return _around(regions, windows)

    def spans(
        self, code: Codes, since: Times, until: Times, regions: Regions, reach: Reach
    ) -> Spans:
        since, until = np.maximum(since, regions.low[code]), np.minimum(until, regions.high[code])
        alive = since < until
        if not alive.any():
            return Spans(code[:0], since[:0], until[:0])
        cut = snapshots_of(code[alive], since[alive], until[alive])
        full = cut.alive > 0
        return Spans(cut.group[full], cut.start[full], cut.end[full])

    def members(self, code: Codes, since: Times, until: Times, spans: Spans) -> tuple[Codes, Codes]:
        return _covered(code, since, until, spans)


class GridFrame(Frame):
    """Hopping and tumbling windows, as far as time has advanced."""

    def __init__(self, window: HoppingWindow) -> None:
        self.grid = Grid(window)

    def over(self, cti: Times) -> Times:
        grid = self.grid
        closed = (cti - grid.offset - grid.size) // grid.hop
        return np.minimum(cti - 1, grid.start(closed + 1))

    def reach(self, since: Times, until: Times) -> tuple[Times, Times]:
        return since, until

    def widen(self, regions: Regions, windows: WindowIndex, events: EventIndex) -> Regions:
        grid = self.grid
        endless = regions.high == INFINITY
        last = grid.beyond(np.where(endless, regions.low, regions.high)) - 1
        high = np.maximum(grid.start(last) + grid.size, regions.high)
        return Regions(
            regions.partition,
            np.minimum(grid.start(grid.first(regions.low)), regions.low),
            np.where(endless, INFINITY, high),
        )

    def spans(
        self, code: Codes, since: Times, until: Times, regions: Regions, reach: Reach
    ) -> Spans:
        grid, limit = self.grid, reach.limit
        until = (
            np.minimum(until, limit)
            if limit != INFINITY
            else np.where(until == INFINITY, reach.horizon, until)
        )
        # The windows that lie in the region of a row.
        low, high = regions.low[code], regions.high[code]
        first = np.maximum(grid.first(since), -((grid.offset - low) // grid.hop))
        beyond = np.minimum(
            grid.beyond(until),
            np.where(high == INFINITY, FOREVER, (high - grid.offset - grid.size) // grid.hop + 1),
        )
        which, window = ranges(first, np.maximum(beyond - first, 0))
        if not len(which):
            return Spans(code[:0], since[:0], until[:0])
        lowest = int(window.min())
        width = int(window.max()) - lowest + 1
        cells = np.unique(code[which] * width + (window - lowest))
        begin = grid.start(cells % width + lowest)
        return Spans(cells // width, begin, begin + grid.size)

    def members(self, code: Codes, since: Times, until: Times, spans: Spans) -> tuple[Codes, Codes]:
        return _covered(code, since - (self.grid.size - 1), until, spans)


class SessionFrame(Frame):
    """Runs of starts less than a gap apart; rows belong to windows by their starts."""

    by = "start"

    def __init__(self, gap: int) -> None:
        self.gap = gap

    def reach(self, since: Times, until: Times) -> tuple[Times, Times]:
        return since, since + self.gap

    def widen(self, regions: Regions, windows: WindowIndex, events: EventIndex) -> Regions:
        return _around(regions, windows)

    def spans(
        self, code: Codes, since: Times, until: Times, regions: Regions, reach: Reach
    ) -> Spans:
        chains = chains_of(code, since, since, self.gap)
        return Spans(chains.group, chains.first, chains.last + self.gap)

    def members(self, code: Codes, since: Times, until: Times, spans: Spans) -> tuple[Codes, Codes]:
        return _inside(code, since, spans)


class CountFrame(Frame):
    """N distinct starts; rows belong to windows by their starts."""

    by = "start"
    counts = True

    def __init__(self, count: int) -> None:
        self.count = count

    def reach(self, since: Times, until: Times) -> tuple[Times, Times]:
        return since, until

    def widen(self, regions: Regions, windows: WindowIndex, events: EventIndex) -> Regions:
        """Extend regions by the last N - 1 instants before a change, which may begin a window with
        it, and the next N - 1, which may end one."""
        some = self.count - 1
        return Regions(
            regions.partition,
            events.earlier(regions.partition, regions.low, some),
            events.later(regions.partition, regions.high, some),
        )

    def spans(
        self, code: Codes, since: Times, until: Times, regions: Regions, reach: Reach
    ) -> Spans:
        counted = until != INFINITY
        group, time = _distinct(code[counted], since[counted])
        first = np.arange(max(len(group) - self.count + 1, 0))
        last = first + self.count - 1
        same = group[first] == group[last]
        first, last = first[same], last[same]
        return Spans(group[first], time[first], time[last] + 1)

    def members(self, code: Codes, since: Times, until: Times, spans: Spans) -> tuple[Codes, Codes]:
        return _inside(code, since, spans)

    def needed(self, partition: Codes, instant: Times) -> tuple[Codes, Times]:
        """For each partition with settled instants the earliest of the last N - 1, which a window
        to come may begin with: partition and instant."""
        group, times = _distinct(partition, instant)
        if self.count == 1 or not len(group):
            return group[:0], times[:0]
        bounds = np.append(np.flatnonzero(group[1:] != group[:-1]) + 1, len(group))
        begins = np.concatenate([[0], bounds[:-1]])
        first = np.maximum(bounds - (self.count - 1), begins)
        return group[first], times[first]


class CountByEndFrame(CountFrame):
    """N distinct ends; rows belong to windows by their last ticks. A row without an end has no last
    tick."""

    strict = True
    by = "end"


def _around(regions: Regions, windows: WindowIndex) -> Regions:
    """Regions with the windows that overlap them."""
    found = windows.find(regions.partition, regions.low, regions.high)
    low, high = regions.low.copy(), regions.high.copy()
    np.minimum.at(low, found.owner, found.entries.start)
    np.maximum.at(high, found.owner, found.entries.end)
    return Regions(regions.partition, low, high)


def _distinct(code: Codes, time: Times) -> tuple[Codes, Times]:
    """The distinct times of each group, in order."""
    order = sort_pairs(code, time)
    group, times = code[order], time[order]
    first = run_begins(group, times)
    return group[first], times[first]

"""How rows of groups make windows, and which rows are in which: one class for each kind of window.

All work on many groups at once. Rows have a group code, a start and an end; windows (`Spans`) are
sorted by group and start. The definitions are those of `thalweg.windows`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from thalweg.errors import PlanError
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.groups import ranges
from thalweg.operators.hopping_grid import Grid
from thalweg.operators.sessions import chains_of
from thalweg.operators.snapshots import snapshots_of
from thalweg.windows import CountWindow, HoppingWindow, SessionWindow, SnapshotWindow, Window

__all__ = ["Frame", "Reach", "Spans", "frame_for"]


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
class Reach:
    """How far time has come, which windows on a grid need to know."""

    closed: int
    """The CTI up to which windows have been closed."""
    limit: int
    """A window must begin before this time to exist; infinite once the stream has ended."""
    horizon: int
    """The largest finite time seen, where rows without an end stop when the stream ends."""


class Frame(ABC):
    strict = False
    """Whether a window whose end the CTI has just reached may still get another end."""

    @abstractmethod
    def spans(self, code: Codes, start: Times, end: Times, base: Times, reach: Reach) -> Spans:
        """The windows that these rows make; `base` is, by group, where its earliest window that is
        not closed begins."""

    @abstractmethod
    def members(self, code: Codes, start: Times, end: Times, spans: Spans) -> tuple[Codes, Codes]:
        """Every pair (row, window) of a row and a window it is in."""

    def ended(self, end: Times, cti: int) -> Bools:
        """Whether no new row can come into a window."""
        past: Bools = (end < cti) | (cti == INFINITY) if self.strict else end <= cti
        return past

    def waiting(self, code: Codes, start: Times, end: Times, cti: int) -> tuple[Bools, int]:
        """Which rows may be in windows that do not exist yet but begin before the CTI; and the
        earliest such begin."""
        return np.zeros(len(code), np.bool_), cti


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


def _inside(code: Codes, time: Times, spans: Spans, *, after_start: bool) -> tuple[Codes, Codes]:
    """Rows whose time is in [a, b) of a window, or, with `after_start`, in (a, b]."""
    side = "right" if after_start else "left"
    order = np.lexsort((time, code))
    row_key, low_key = _keys(code[order], time[order], spans.code, spans.start)
    other_key, high_key = _keys(code[order], time[order], spans.code, spans.end)
    low = np.searchsorted(row_key, low_key, side=side)  # type: ignore[call-overload]
    high = np.searchsorted(other_key, high_key, side=side)  # type: ignore[call-overload]
    window, at = ranges(low, high - low)
    return order[at], window


class SnapshotFrame(Frame):
    """Between neighbouring endpoints. What lies before the base is settled, and its rows may be
    gone."""

    strict = True

    def spans(self, code: Codes, start: Times, end: Times, base: Times, reach: Reach) -> Spans:
        since = np.maximum(start, base[code])
        alive = since < end
        if not alive.any():
            return Spans(code[:0], start[:0], end[:0])
        cut = snapshots_of(code[alive], since[alive], end[alive])
        full = cut.alive > 0
        return Spans(cut.group[full], cut.start[full], cut.end[full])

    def members(self, code: Codes, start: Times, end: Times, spans: Spans) -> tuple[Codes, Codes]:
        return _covered(code, start, end, spans)


class GridFrame(Frame):
    """Hopping and tumbling windows, as far as time has come."""

    def __init__(self, window: HoppingWindow) -> None:
        self.grid = Grid(window)

    def spans(self, code: Codes, start: Times, end: Times, base: Times, reach: Reach) -> Spans:
        limit = reach.limit
        until = (
            np.minimum(end, limit)
            if limit != INFINITY
            else np.where(end == INFINITY, reach.horizon, end)
        )
        closed = self.grid.last_ending_by(reach.closed)
        lowest = np.where(
            base > MIN_TIME, np.minimum(self.grid.beyond(base), closed + 1), closed + 1
        )
        first = np.maximum(self.grid.first(start), lowest[code])
        length = np.maximum(self.grid.beyond(until) - first, 0)
        which, window = ranges(first, length)
        if not len(which):
            return Spans(code[:0], start[:0], end[:0])
        low = int(window.min())
        width = int(window.max()) - low + 1
        cells = np.unique(code[which] * width + (window - low))
        begin = self.grid.start(cells % width + low)
        return Spans(cells // width, begin, begin + self.grid.size)

    def members(self, code: Codes, start: Times, end: Times, spans: Spans) -> tuple[Codes, Codes]:
        return _covered(code, start - (self.grid.size - 1), end, spans)


class SessionFrame(Frame):
    """Runs of starts less than a gap apart; rows belong by their start."""

    def __init__(self, gap: int) -> None:
        self.gap = gap

    def spans(self, code: Codes, start: Times, end: Times, base: Times, reach: Reach) -> Spans:
        chains = chains_of(code, start, start, self.gap)
        return Spans(chains.group, chains.first, chains.last + self.gap)

    def members(self, code: Codes, start: Times, end: Times, spans: Spans) -> tuple[Codes, Codes]:
        return _inside(code, start, spans, after_start=False)


class CountFrame(Frame):
    """N distinct starts; rows belong by their start."""

    def __init__(self, count: int) -> None:
        self.count = count

    def spans(self, code: Codes, start: Times, end: Times, base: Times, reach: Reach) -> Spans:
        group, time = _distinct(code, start)
        first, last = self._stretches(group)
        return Spans(group[first], time[first], time[last] + 1)

    def _stretches(self, group: Codes) -> tuple[Codes, Codes]:
        """Positions of the first and the last of N that follow each other in a group."""
        first = np.arange(max(len(group) - self.count + 1, 0))
        last = first + self.count - 1
        same = group[first] == group[last]
        return first[same], last[same]

    def members(self, code: Codes, start: Times, end: Times, spans: Spans) -> tuple[Codes, Codes]:
        return _inside(code, start, spans, after_start=False)

    def waiting(self, code: Codes, start: Times, end: Times, cti: int) -> tuple[Bools, int]:
        return self._last(code, start, cti)

    def _last(self, code: Codes, time: Times, cti: int) -> tuple[Bools, int]:
        """The rows at the last N - 1 times of each group before the CTI, and the earliest of those
        times."""
        group, times = _distinct(code, time)
        settled = times < cti
        group, times = group[settled], times[settled]
        if self.count == 1 or not len(group):
            return np.zeros(len(code), np.bool_), cti
        bounds = np.append(np.flatnonzero(group[1:] != group[:-1]) + 1, len(group))
        begins = np.concatenate([[0], bounds[:-1]])
        first = np.maximum(bounds - (self.count - 1), begins)
        earliest = np.full(int(code.max()) + 1, INFINITY)
        earliest[group[first]] = times[first]
        return time >= earliest[code], int(times[first].min())


class CountByEndFrame(CountFrame):
    """N distinct ends; rows belong by their last tick. A row without an end has none to count."""

    strict = True

    def spans(self, code: Codes, start: Times, end: Times, base: Times, reach: Reach) -> Spans:
        finite = end != INFINITY
        group, time = _distinct(code[finite], end[finite])
        first, last = self._stretches(group)
        return Spans(group[first], time[first] - 1, time[last])

    def members(self, code: Codes, start: Times, end: Times, spans: Spans) -> tuple[Codes, Codes]:
        return _inside(code, end, spans, after_start=True)

    def waiting(self, code: Codes, start: Times, end: Times, cti: int) -> tuple[Bools, int]:
        rows, earliest = self._last(code, end, cti)
        return rows, min(earliest, cti) - 1 if cti not in (INFINITY, MIN_TIME) else cti


def _distinct(code: Codes, time: Times) -> tuple[Codes, Times]:
    """The distinct times of each group, in order."""
    order = np.lexsort((time, code))
    group, times = code[order], time[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (times[1:] != times[:-1])
    return group[new], times[new]

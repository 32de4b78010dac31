"""Snapshots of groups of rows: their time, cut wherever one of their rows starts or ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.model.rows import Codes
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import INFINITY, Times
from thalweg.operators.groups import ranges

__all__ = ["Snapshots", "snapshots_of"]


@dataclass(slots=True)
class Snapshots:
    """The windows of some rows: window i of a group is [start[i], end[i]). In the last window of
    each group no row is alive, and its end has no meaning."""

    start: Times
    end: Times
    group: Codes
    alive: Codes
    """How many rows are alive in each window."""
    rows: Codes
    """The group of each row."""
    order: Codes
    """The order of the starts of all rows, then their ends, by group and time."""
    last: Codes
    """By window: the position in this order of the last start or end at which the window begins."""

    def members(self, windows: Codes) -> tuple[Codes, Codes]:
        """All pairs (row, window) of a row and one of some windows in which it is alive."""
        size = len(self.rows)
        begins = np.empty(2 * size, np.int64)
        begins[self.order] = self.last.searchsorted(np.arange(2 * size))
        row, window = ranges(begins[:size], begins[size:] - begins[:size])
        chosen = np.zeros(len(self.start), np.bool_)
        chosen[windows] = True
        kept = chosen[window].nonzero()[0]
        return row[kept], window[kept]

    def representatives(self, windows: Codes) -> Codes:
        """A row of the group of each of some windows."""
        row = np.empty(int(self.group[-1]) + 1, np.int64)
        row[self.rows] = np.arange(len(self.rows))
        return row[self.group[windows]]

    def sums(self, values: Codes, windows: Codes) -> Codes:
        """The sum over the rows alive in each of some windows: all that have started minus all that
        have ended (wrap-around cancels out)."""
        running = np.concatenate([values, -values])[self.order].cumsum()
        return running[self.last[windows]]


def snapshots_of(group: Codes, since: Times, end: Times) -> Snapshots:
    """Cut the time of each group at every endpoint of its rows."""
    size = len(group)
    times, groups = np.concatenate([since, end]), np.concatenate([group, group])
    order = sort_pairs(groups, times)
    times, groups = times[order], groups[order]
    closes = np.ones(2 * size, np.bool_)
    closes[:-1] = (times[1:] != times[:-1]) | (groups[1:] != groups[:-1])
    last = closes.nonzero()[0]
    starts = times[last]
    ends = np.full(len(starts), INFINITY)
    ends[:-1] = starts[1:]
    alive = np.where(order < size, 1, -1).cumsum()[last]
    return Snapshots(starts, ends, groups[last], alive, group, order, last)

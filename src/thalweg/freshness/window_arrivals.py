"""Rows of windows that arrive together, by key in order of time; and the windows that each row
starts and closes.

That follows from the time of a row and of the row before it of its key, so that a batch is handled
without a loop over its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.freshness._arrays import NEVER, Ints, Mask
from thalweg.freshness.arrivals import rank_and_running_maximum
from thalweg.freshness.window_marks import UpdateWindow

__all__ = ["KeyedRows", "closed_windows", "last_of_each", "newest_closed", "rows_by_key"]


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows in order, those of one key together."""

    row: Ints
    """The position of each row in the batch."""
    time: Ints
    previous: Ints
    """The time of the row before it of its key, NEVER for the very first one."""
    owner: Ints
    """For each row, the position of its cell in `cells`."""
    cells: Ints
    first: Ints
    """The first row of each cell."""
    counts: Ints

    @property
    def last(self) -> Ints:
        last: Ints = self.first + self.counts - 1
        return last

    def starts(self, window: UpdateWindow) -> Mask:
        """Which rows start a window."""
        starts: Mask = self.time // window.slide > self.previous // window.slide
        return starts


def rows_by_key(cells: Ints, times: Ints, newest: Ints) -> KeyedRows:
    """The rows that are younger than all rows before them of their key; `newest[cell]` is the time
    of the youngest row before this batch.

    >>> rows = rows_by_key(np.array([1, 0, 1, 1]), np.array([5, 9, 4, 6]), np.array([7, NEVER]))
    >>> rows.row, rows.cells, rows.previous.tolist() == [7, NEVER, 5]
    (array([1, 0, 3]), array([0, 1]), True)
    """
    order = np.argsort(cells, kind="stable")
    its_cells, its_times = cells[order], times[order]
    fresh = np.diff(its_cells, prepend=-1) != 0
    before = np.concatenate([[NEVER], its_times[:-1]])
    before[fresh] = newest[its_cells[fresh]]
    if not (its_times > before).all():
        younger = _younger(its_cells, its_times, fresh, newest)
        order, its_cells, its_times = order[younger], its_cells[younger], its_times[younger]
        fresh = np.diff(its_cells, prepend=-1) != 0
        before = np.concatenate([[NEVER], its_times[:-1]])[: len(order)]
        before[fresh] = newest[its_cells[fresh]]
    first = np.flatnonzero(fresh)
    return KeyedRows(
        order,
        its_times,
        before,
        np.cumsum(fresh) - 1,
        its_cells[first],
        first,
        np.diff(np.append(first, len(order))),
    )


def _younger(cells: Ints, times: Ints, fresh: Mask, newest: Ints) -> Mask:
    """Which of the sorted rows are younger than all rows before them of their cell."""
    rank, highest = rank_and_running_maximum(times, fresh)
    before = np.where(fresh, 0, np.concatenate([[0], highest[:-1]]))
    younger: Mask = (rank > before) & (times > newest[cells])
    return younger


def newest_closed(window: UpdateWindow, times: Ints) -> Ints:
    """As `UpdateWindow.newest_closed`, for each time."""
    closed: Ints = (times - window.size + 1) // window.slide * window.slide
    return closed


def closed_windows(window: UpdateWindow, rows: KeyedRows, began: Ints) -> Ints:
    """The newest window that each row closes, NEVER if it closes none; `began` is the first window
    of each of the cells."""
    previous = np.where(rows.previous == NEVER, rows.time, rows.previous)
    closed = newest_closed(window, rows.time)
    start = np.minimum(closed, previous // window.slide * window.slide)
    exact = closed + window.size - 1 == rows.time
    closes = exact | (start > newest_closed(window, previous))
    found = np.where(exact, closed, start)
    return np.where(closes & (found >= began[rows.owner]), found, NEVER)


def last_of_each(chosen: Mask, rows: KeyedRows) -> Ints:
    """For each cell, the last of its chosen rows, -1 if none is chosen."""
    last = np.full(len(rows.cells), -1)
    at = np.flatnonzero(chosen)
    last[rows.owner[at]] = at  # the last row of a cell is written last
    return last

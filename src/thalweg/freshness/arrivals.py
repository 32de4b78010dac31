"""A batch of updates, grouped by key.

Every part of a queue must end a batch in the state that its rows, one by one, would lead to. For
that it needs each key's first and last row in the batch and the number of its rows; all three come
from scattering row numbers into an array indexed by key cell, without sorting.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from thalweg.freshness._arrays import Ints, Mask

__all__ = ["Arrivals", "group_by_cell", "rank_and_running_maximum"]


@dataclass(frozen=True)
class Arrivals:
    """Rows in order of arrival, and the distinct cells in order of their first row."""

    cells: Ints
    times: Ints
    distinct: Ints
    first: Ints
    """Row of the first update of each distinct cell."""
    last: Ints
    counts: Ints
    group: Ints
    """For each row, the position of its cell in `distinct`."""

    @cached_property
    def rank(self) -> Ints:
        """For each row, how many rows of the same cell stand before it in the batch."""
        order = np.argsort(self.group, kind="stable")
        begin = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.repeat(begin, self.counts)
        return rank


def group_by_cell(cells: Ints, times: Ints, scratch: Ints) -> Arrivals:
    """`scratch` is any array with a place for every cell; its contents are lost.

    >>> rows = group_by_cell(np.array([4, 2, 4]), np.array([10, 11, 12]), np.empty(5, np.int64))
    >>> rows.distinct, rows.first, rows.last, rows.counts, rows.group
    (array([4, 2]), array([0, 1]), array([2, 1]), array([2, 1]), array([0, 1, 0]))
    """
    rows = np.arange(len(cells))
    scratch[cells[::-1]] = rows[::-1]
    first = np.flatnonzero(scratch[cells] == rows)
    distinct = cells[first]
    scratch[cells] = rows
    last = scratch[distinct]
    scratch[distinct] = np.arange(len(distinct))
    group = scratch[cells]
    counts = np.bincount(group, minlength=len(distinct))
    return Arrivals(cells, times, distinct, first, last, counts, group)


def rank_and_running_maximum(times: Ints, is_first: Mask) -> tuple[Ints, Ints]:
    """Of rows sorted by cell: the dense rank of each time, from 1, and the largest rank up to each
    row within its cell. `is_first` marks the first row of each cell.

    >>> rank_and_running_maximum(np.array([5, 3, 4, 9]), np.array([True, False, True, False]))
    (array([3, 1, 2, 4]), array([3, 3, 2, 4]))
    """
    rank = np.unique(times, return_inverse=True)[1] + 1
    # Each cell's ranks are lifted above those of the cells before it, so that one running maximum
    # over all rows starts anew with each cell.
    lift = np.cumsum(is_first) * (len(rank) + 1)
    return rank, np.maximum.accumulate(lift + rank) - lift

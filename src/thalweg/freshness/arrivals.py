"""A batch of updates, grouped by key: what every part of a queue needs to know about it.

A part that is given a batch must end in the state that the rows, one by one, would lead to. For
that it needs each key's first and last row in the batch and the number of its rows; all three come
from scattering row numbers into an array indexed by key cell, without sorting.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from thalweg.freshness._arrays import Ints

__all__ = ["Arrivals", "group_by_cell"]


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

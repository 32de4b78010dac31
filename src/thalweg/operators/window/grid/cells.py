"""Cells: partial sums of a group at a window, in one table of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.rows import Bools, Codes, encode, whole_numbers
from thalweg.model.sorting import representatives, run_begins

__all__ = ["FEW", "Cells", "Numbers", "sum_alike"]

Numbers = npt.NDArray[np.int64]

FEW = 1_024
"""Up to this many rows are summed by sorting; of more, equal rows are numbered."""


@dataclass(slots=True, eq=False)  # made ten times a batch: a frozen one takes five times as long
class Cells:
    """A column of `table` is a cell; its rows are the group, the window, and each partial. A group
    and window may have several cells until they are `summed`.

    >>> sums = np.array([[1, 1, 1], [10, 20, 30]])
    >>> cells = Cells.of(np.array([0, 1, 0]), np.array([5, 5, 5]), sums)
    >>> cells.summed().sums
    array([[ 2,  1],
           [40, 20]])
    """

    table: Numbers

    @classmethod
    def of(cls, group: Codes, window: Codes | int, sums: Numbers) -> Cells:
        table = np.empty((2 + len(sums), len(group)), np.int64)
        table[0], table[1], table[2:] = group, window, sums
        return cls(table)

    @classmethod
    def none(cls, partials: int) -> Cells:
        return cls(np.empty((2 + partials, 0), np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Cells], partials: int) -> Cells:
        tables = [part.table for part in parts if part.table.shape[1]]
        if not tables:
            return cls.none(partials)
        return cls(tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1))

    def __len__(self) -> int:
        return len(self.table[0])

    @property
    def group(self) -> Codes:
        group: Codes = self.table[0]
        return group

    @property
    def window(self) -> Codes:
        window: Codes = self.table[1]
        return window

    @property
    def sums(self) -> Numbers:
        """A row for each partial."""
        sums: Numbers = self.table[2:]
        return sums

    @property
    def place(self) -> Codes:
        """The index of a cell's window, by which cells are divided into slices."""
        return self.window

    @property
    def nbytes(self) -> int:
        return self.table.nbytes

    def take(self, which: Codes | slice) -> Cells:
        if isinstance(which, slice):
            return Cells(self.table[:, which])
        return Cells(self.table.take(which, axis=1))

    def where(self, mask: Bools) -> Cells:
        which = mask.nonzero()[0]
        return self if len(which) == len(mask) else self.take(which)

    def renumbered(self, moved: Codes) -> Cells:
        """The same with other numbers of groups."""
        return Cells.of(moved[self.group], self.window, self.sums)

    def leaving_at(self, window: Codes) -> Cells:
        """The negative cells, at the windows where the cells leave."""
        table = -self.table
        table[0], table[1] = self.table[0], window
        return Cells(table)

    def at_window(self, window: int | Codes) -> Cells:
        table = self.table.copy()
        table[1] = window
        return Cells(table)

    def summed(self) -> Cells:
        """Merge cells of equal group and window."""
        if len(self) < 2:
            return self
        representative, totals = sum_alike([self.group, self.window], len(self), self.sums)
        if len(representative) == len(self):
            return self
        table = self.table.take(representative, axis=1)
        table[2:] = totals
        return Cells(table)

    def added_up(self) -> Cells:
        """As `summed`, without cells that add up to nothing."""
        cells = self.summed()
        return cells.where(np.logical_or.reduce(cells.sums != 0, axis=0))


def sum_alike(
    columns: Sequence[pa.Array | Codes], size: int, sums: Numbers | list[Numbers]
) -> tuple[Codes, Numbers]:
    """The sums of rows that are equal in some columns, and the position of one row of each.

    >>> columns = [np.array([1, 1, 2]), np.array([5, 5, 5])]
    >>> [found.tolist() for found in sum_alike(columns, 3, np.array([[1, 2, 4], [0, 0, 1]]))]
    [[0, 2], [[3, 4], [0, 1]]]
    """
    numbers = whole_numbers(columns) if 0 < size <= FEW else None
    if numbers is None:
        return _sum_by(*encode(columns, size), sums)
    order = np.lexsort(numbers)
    begins = run_begins(*(column.take(order) for column in numbers))
    ordered = np.asarray(sums).take(order, axis=1)
    return order.take(begins), np.add.reduceat(ordered, begins, axis=1)


def _sum_by(code: Codes, size: int, sums: Numbers | list[Numbers]) -> tuple[Codes, Numbers]:
    """The position of one row of each code, and the sums by code."""
    totals = np.zeros((len(sums), size), np.int64)
    total_of: dict[int, Numbers] = {}
    columns = list(sums)  # all alive at once, so that no two have one id
    for total, column in zip(totals, columns, strict=True):
        same = total_of.get(id(column))
        if same is not None:  # counts of rows and of values are often one column
            total[:] = same
        elif np.count_nonzero(column):  # upper halves of small numbers are all zero
            np.add.at(total, code, column)
            total_of[id(column)] = total
    return representatives(code, size), totals

"""Cells: partial sums of a group at a window, in columns of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thalweg.model.rows import Bools, Codes, encode
from thalweg.model.sorting import representatives

__all__ = ["Cells", "Numbers", "sum_by"]

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)  # made ten times a batch: a frozen one takes five times as long
class Cells:
    """`sums` has a row for each partial. A group and window may have several cells until they are
    `summed`.

    >>> cells = Cells(np.array([0, 1, 0]), np.array([5, 5, 5]), np.array([[1, 1, 1], [10, 20, 30]]))
    >>> cells.summed().sums
    array([[ 2,  1],
           [40, 20]])
    """

    group: Codes
    window: Codes
    sums: Numbers

    @classmethod
    def none(cls, partials: int) -> Cells:
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, np.empty((partials, 0), np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Cells], partials: int) -> Cells:
        full = [part for part in parts if len(part.group)]
        if not full:
            return cls.none(partials)
        if len(full) == 1:
            return full[0]
        return cls(
            np.concatenate([part.group for part in full]),
            np.concatenate([part.window for part in full]),
            np.concatenate([part.sums for part in full], axis=1),
        )

    def __len__(self) -> int:
        return len(self.group)

    @property
    def place(self) -> Codes:
        """Where a cell lies in slices of neighbouring windows."""
        return self.window

    def renumbered(self, moved: Codes) -> Cells:
        """The same with other numbers of groups."""
        return Cells(moved[self.group], self.window, self.sums)

    @property
    def nbytes(self) -> int:
        return self.group.nbytes + self.window.nbytes + self.sums.nbytes

    def take(self, which: Codes | slice) -> Cells:
        sums = self.sums[:, which] if isinstance(which, slice) else self.sums.take(which, axis=1)
        return Cells(self.group[which], self.window[which], sums)

    def where(self, mask: Bools) -> Cells:
        which = mask.nonzero()[0]
        return self if len(which) == len(mask) else self.take(which)

    def negated(self) -> Cells:
        return Cells(self.group, self.window, -self.sums)

    def at_window(self, window: int | Codes) -> Cells:
        return Cells(
            self.group,
            np.full(len(self.group), window) if isinstance(window, int) else window,
            self.sums,
        )

    def summed(self) -> Cells:
        """Cells of equal group and window become one."""
        if len(self.group) < 2:
            return self
        cell, count = encode([self.group, self.window], len(self.group))
        if count == len(self.group):
            return self
        representative, totals = sum_by(cell, count, self.sums)
        return Cells(self.group[representative], self.window[representative], totals)

    def added_up(self) -> Cells:
        """The same without cells that add up to nothing."""
        cells = self.summed()
        return cells.where(np.logical_or.reduce(cells.sums != 0, axis=0))


def sum_by(cell: Codes, count: int, sums: Numbers | list[Numbers]) -> tuple[Codes, Numbers]:
    """One row of each cell, and the sums of each."""
    representative = representatives(cell, count)
    totals = np.zeros((len(sums), count), np.int64)
    done: dict[int, Numbers] = {}
    columns = list(sums)  # all alive at once, so that no two have one id
    for total, column in zip(totals, columns, strict=True):
        known = done.get(id(column))
        if known is not None:  # counts of rows and of values are often one column
            total[:] = known
        elif np.count_nonzero(column):  # upper halves of small numbers are all zero
            np.add.at(total, cell, column)
            done[id(column)] = total
    return representative, totals

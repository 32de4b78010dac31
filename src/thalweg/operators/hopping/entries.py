"""Entries: what enters or leaves the running totals at windows that have not answered yet.

The cells of small batches wait in one unsorted tail, which is cheaper to look through than to divide
among slices of neighbouring windows. A tail that is full goes to the slices.
"""

from __future__ import annotations

from thalweg.operators.hopping.cells import Cells
from thalweg.state.placed import PlacedSlices

__all__ = ["Entries"]

_TAIL = 256
"""Cells that wait unsorted."""


class Entries:
    """
    >>> import numpy as np
    >>> entries = Entries(1)
    >>> entries.add(Cells(np.array([0, 0]), np.array([4, 6]), np.array([[1, -1]])))
    >>> [cells.window.tolist() for cells in entries.take_until(5)], len(entries.slices)
    ([[4]], 1)
    """

    def __init__(self, width: int) -> None:
        """`width` is the number of partial sums of a cell."""
        self._width = width
        self._slices = PlacedSlices[Cells](lambda parts: Cells.concat(parts, width).summed())
        self._tail = self._none = Cells.none(width)

    @property
    def slices(self) -> PlacedSlices[Cells]:
        """All cells, in slices."""
        if len(self._tail):
            self._slices.add(self._tail)
            self._tail = self._none
        return self._slices

    def clear(self) -> None:
        self._slices.clear()
        self._tail = self._none

    def add(self, cells: Cells) -> None:
        cells = Cells.concat([self._tail, cells], self._width)
        if len(cells) <= _TAIL:
            self._tail = cells
        else:
            self._tail = self._none
            self._slices.add(cells)

    def take_until(self, window: int) -> list[Cells]:
        """Remove and return the cells of windows up to one."""
        taken = self._slices.take_until(window) if self._slices else []
        if len(self._tail):
            over = self._tail.window <= window
            which = over.nonzero()[0]
            if len(which):
                taken.append(self._tail.take(which))
                self._tail = self._tail.take((~over).nonzero()[0])
        return taken

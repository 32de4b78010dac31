"""Cells by window index, in slices of neighbouring windows, so that closing windows drops whole
slices.

A slice is a list of cells that are summed together now and then: adding is cheap, and the number of
cells kept is that of the distinct (group, window) pairs plus what came since the last sum.
"""

from __future__ import annotations

import numpy as np

from thalweg.operators.base import StateSize
from thalweg.operators.cells import Cells

__all__ = ["WindowSlices"]

_PARTS_BEFORE_SUM = 16


class WindowSlices:
    """Slices of `width` windows each, of cells with so many partials."""

    def __init__(self, partials: int, *, width: int) -> None:
        self._partials = partials
        self._width = width
        self._slices: dict[int, list[Cells]] = {}

    def add(self, cells: Cells) -> None:
        if not len(cells.group):
            return
        number = cells.window // self._width if self._width > 1 else cells.window
        low, high = int(number.min()), int(number.max())
        if low == high:
            self._append(low, cells)
            return
        order = np.argsort(number, kind="stable")
        ordered, sorted_ = cells.take(order), number[order]
        cuts = (np.flatnonzero(sorted_[1:] != sorted_[:-1]) + 1).tolist()
        for begin, end in zip([0, *cuts], [*cuts, len(sorted_)], strict=True):
            self._append(int(sorted_[begin]), ordered.take(slice(begin, end)))

    def _append(self, number: int, cells: Cells) -> None:
        parts = self._slices.setdefault(number, [])
        parts.append(cells)
        if len(parts) >= _PARTS_BEFORE_SUM:
            self._slices[number] = [self._sum(parts)]

    def _sum(self, parts: list[Cells]) -> Cells:
        return Cells.concat(parts, self._partials).summed()

    def take_until(self, window: int) -> Cells:
        """Remove and return all cells of windows up to and including one."""
        taken: list[Cells] = []
        for number in [n for n in self._slices if n * self._width <= window]:
            parts = self._slices.pop(number)
            if (number + 1) * self._width - 1 > window:
                cells = Cells.concat(parts, self._partials)
                due = cells.window <= window
                rest = cells.where(~due)
                parts = [cells.where(due)]
                if len(rest):
                    self._slices[number] = [rest]
            taken += parts
        return Cells.concat(taken, self._partials)

    def slices(self) -> dict[int, Cells]:
        """Every slice as one table: the same object as long as the slice is not touched."""
        for number, parts in self._slices.items():
            if len(parts) > 1:
                self._slices[number] = [self._sum(parts)]
        return {number: parts[0] for number, parts in self._slices.items()}

    def put(self, number: int, cells: Cells) -> None:
        """Back from `slices`."""
        if len(cells):
            self._slices[number] = [cells]
        else:
            self._slices.pop(number, None)

    def clear(self) -> None:
        self._slices = {}

    def size(self) -> StateSize:
        parts = [part for parts in self._slices.values() for part in parts]
        return StateSize(sum(map(len, parts)), sum(part.nbytes for part in parts))

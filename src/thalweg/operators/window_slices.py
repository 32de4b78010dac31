"""Cells by window index, in slices of neighbouring windows, so that closing windows drops whole slices.

A slice is a list of record batches that are summed together now and then: adding is cheap, and the number of cells kept
is that of the distinct (group, window) pairs plus what came since the last sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Rows, concat_rows
from thalweg.operators.base import StateSize

__all__ = ["WindowSlices"]

_PARTS_BEFORE_SUM = 16


class WindowSlices:
    """Slices of `width` windows each; `merge` sums the cells of equal group and window."""

    def __init__(self, schema: pa.Schema, *, width: int, merge: Callable[[Rows], Rows]) -> None:
        self._schema = schema
        self._width = width
        self._merge = merge
        self._slices: dict[int, list[Rows]] = {}

    def add(self, cells: Rows) -> None:
        if not cells.num_rows:
            return
        number = cells.column("_k").to_numpy() // self._width
        low, high = int(number.min()), int(number.max())
        if low == high:
            self._append(low, cells)
            return
        order = np.argsort(number, kind="stable")
        ordered = cells.take(pa.array(order))
        sorted_ = number[order]
        cuts = np.flatnonzero(sorted_[1:] != sorted_[:-1]) + 1
        begins = [0, *cuts.tolist()]
        ends = [*cuts.tolist(), len(sorted_)]
        for begin, end in zip(begins, ends, strict=True):
            self._append(int(sorted_[begin]), ordered.slice(begin, end - begin))

    def _append(self, number: int, cells: Rows) -> None:
        parts = self._slices.setdefault(number, [])
        parts.append(cells)
        if len(parts) >= _PARTS_BEFORE_SUM:
            self._slices[number] = [self._merge(concat_rows(parts, self._schema))]

    def take_until(self, window: int) -> Rows:
        """Remove and return all cells of windows up to and including one."""
        taken: list[Rows] = []
        for number in [n for n in self._slices if n * self._width <= window]:
            cells = concat_rows(self._slices.pop(number), self._schema)
            if (number + 1) * self._width - 1 > window:
                due = cells.column("_k").to_numpy() <= window
                rest = cells.filter(pa.array(~due))
                cells = cells.filter(pa.array(due))
                if rest.num_rows:
                    self._slices[number] = [rest]
            taken.append(cells)
        return concat_rows(taken, self._schema)

    def slices(self) -> dict[int, Rows]:
        """Every slice as one batch: the same object as long as the slice is not touched."""
        for number, parts in self._slices.items():
            if len(parts) > 1:
                self._slices[number] = [self._merge(concat_rows(parts, self._schema))]
        return {number: parts[0] for number, parts in self._slices.items()}

    def put(self, number: int, cells: Rows) -> None:
        """Back from `slices`."""
        self._slices[number] = [cells]

    def clear(self) -> None:
        self._slices = {}

    def size(self) -> StateSize:
        parts = [part for parts in self._slices.values() for part in parts]
        return StateSize(sum(part.num_rows for part in parts), sum(part.nbytes for part in parts))

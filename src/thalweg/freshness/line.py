"""A line of key cells: cells are pushed at the tail and removed from anywhere.

A cell has one place in line, a number that grows with every push. The old entry of a cell that is
pushed again, or removed, stays in the buffer; an entry is valid while the cell's place is the
entry's number. Invalid entries are skipped, and dropped all at once when the buffer is full, so
pushing and removing cost O(1) on average, in batches and one by one.
"""

from __future__ import annotations

import numpy as np

from thalweg.freshness._arrays import Ints, Mask

__all__ = ["Line", "Places"]

_SKIP = 512


class Places:
    """The place of each cell, -1 for a cell that waits nowhere. Several lines share one."""

    def __init__(self) -> None:
        self.of = np.empty(0, np.int64)
        self._next = 0

    def grow(self, size: int) -> None:
        of = np.full(size, -1, np.int64)
        of[: len(self.of)] = self.of
        self.of = of

    def assign(self, cells: Ints) -> Ints:
        """New places, in the order of `cells`."""
        places = np.arange(self._next, self._next + len(cells))
        self._next += len(cells)
        self.of[cells] = places
        return places

    def assign_one(self, cell: int) -> int:
        place = self._next
        self._next += 1
        self.of[cell] = place
        return place


class Line:
    """
    >>> places = Places()
    >>> places.grow(3)
    >>> line = Line(places)
    >>> line.push(np.array([2, 0, 1]))
    >>> line.push_one(2)  # to the tail
    >>> line.head(), line.tail(), line.first(5)
    (0, 2, array([0, 1, 2]))
    >>> places.of[0] = -1   # 0 leaves
    >>> line.head()
    1
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._cells = np.empty(16, np.int64)
        self._numbers = np.empty(16, np.int64)
        self._begin = self._end = 0

    def push(self, cells: Ints) -> None:
        if self._end + len(cells) > len(self._cells):
            self._make_room(len(cells))
        end = self._end + len(cells)
        self._cells[self._end : end] = cells
        self._numbers[self._end : end] = self._places.assign(cells)
        self._end = end

    def push_one(self, cell: int) -> None:
        if self._end == len(self._cells):
            self._make_room(1)
        self._cells[self._end] = cell
        self._numbers[self._end] = self._places.assign_one(cell)
        self._end += 1

    def head(self) -> int:
        """The first cell in line, -1 if there is none."""
        of, cells, numbers = self._places.of, self._cells, self._numbers
        begin = self._begin
        stop = min(begin + 8, self._end)
        while begin < stop:
            cell = int(cells[begin])
            if of[cell] == numbers[begin]:
                self._begin = begin
                return cell
            begin += 1
        while begin < self._end:
            valid = self._valid(begin, min(begin + _SKIP, self._end))
            found = int(valid.argmax())
            if valid[found]:
                self._begin = begin + found
                return int(cells[self._begin])
            begin += len(valid)
        self._begin = self._end = 0
        return -1

    def tail(self) -> int:
        """The last cell in line, -1 if there is none."""
        while self._end > self._begin:
            cell = int(self._cells[self._end - 1])
            if self._places.of[cell] == self._numbers[self._end - 1]:
                return cell
            self._end -= 1
        self._begin = self._end = 0
        return -1

    def first(self, count: int) -> Ints:
        """Up to `count` cells from the head, which stay in line."""
        parts: list[Ints] = []
        begin, missing = self._begin, count
        while missing > 0 and begin < self._end:
            stop = min(begin + max(missing, _SKIP), self._end)
            part = self._cells[begin:stop][self._valid(begin, stop)][:missing]
            parts.append(part)
            missing -= len(part)
            begin = stop
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def renumber(self, moved: Ints) -> None:
        """Cells have new numbers; places in line stay. To be called before those of `Places`
        change."""
        self._make_room(0)
        self._cells[: self._end] = moved[self._cells[: self._end]]

    def _valid(self, begin: int, end: int) -> Mask:
        valid: Mask = self._places.of[self._cells[begin:end]] == self._numbers[begin:end]
        return valid

    def _make_room(self, count: int) -> None:
        valid = self._valid(self._begin, self._end)
        cells = self._cells[self._begin : self._end][valid]
        numbers = self._numbers[self._begin : self._end][valid]
        size = max(len(self._cells), 16)
        while size < 2 * (len(cells) + count):
            size *= 2
        self._cells, self._numbers = np.empty(size, np.int64), np.empty(size, np.int64)
        self._cells[: len(cells)], self._numbers[: len(cells)] = cells, numbers
        self._begin, self._end = 0, len(cells)

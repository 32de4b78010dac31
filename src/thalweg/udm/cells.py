"""Windows of groups, and the rows of each: what a module is called with."""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Codes, Rows, take_rows
from thalweg.model.time import Times

__all__ = ["Cells"]


class Cells:
    """Windows of groups and their rows: cell i has the rows offsets[i] .. offsets[i + 1] and the
    window [start[i], end[i])."""

    def __init__(
        self, rows: Rows, row_start: Times, row_end: Times, offsets: Codes, start: Times, end: Times
    ) -> None:
        self.rows, self.row_start, self.row_end = rows, row_start, row_end
        self.offsets, self.start, self.end = offsets, start, end

    def __len__(self) -> int:
        return len(self.start)

    def without_nulls(self) -> Cells:
        """Only the rows in which no column is null."""
        if not any(column.null_count for column in self.rows.columns):
            return self
        valid = np.ones(self.rows.num_rows, np.bool_)
        for column in self.rows.columns:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
        before = np.concatenate([[0], np.cumsum(valid)])
        which = np.flatnonzero(valid)
        return Cells(
            take_rows(self.rows, which),
            self.row_start[which],
            self.row_end[which],
            before[self.offsets],
            self.start,
            self.end,
        )

    def some(self, which: Codes) -> Cells:
        """Only these cells, in order; the others must have no rows."""
        offsets = np.append(self.offsets[:-1][which], self.offsets[-1:])
        return Cells(
            self.rows, self.row_start, self.row_end, offsets, self.start[which], self.end[which]
        )

    def one(self, cell: int) -> Cells:
        begin, stop = int(self.offsets[cell]), int(self.offsets[cell + 1])
        return Cells(
            self.rows.slice(begin, stop - begin),
            self.row_start[begin:stop],
            self.row_end[begin:stop],
            np.array([0, stop - begin]),
            self.start[cell : cell + 1],
            self.end[cell : cell + 1],
        )

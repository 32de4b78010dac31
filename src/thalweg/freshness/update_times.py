"""Which updates are outdated, by a time column of the data.

An update is outdated when its key has had a younger one. In a union, whose inputs are trusted or
not, a key has one row for each time: the first to arrive, or a trusted one that arrives while the
first still waits.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.freshness._arrays import NEVER, Ints, Mask, enlarge, keep
from thalweg.freshness.arrivals import rank_and_running_maximum

__all__ = ["UpdateTimes"]


class UpdateTimes:
    """Per cell: the largest time seen of the key."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._newest = np.empty(0, np.int64)
        self._is_trusted = np.empty(0, np.bool_)
        """Per cell: whether the row of that time came from a trusted input."""

    def grow(self, size: int) -> None:
        if size > len(self._newest):
            self._newest = enlarge(self._newest, size, NEVER)
            self._is_trusted = enlarge(self._is_trusted, size, 0)

    def keep(self, kept: Ints) -> None:
        """Forget all cells but these, which are numbered 0, 1, ... from now on."""
        keep(self._newest, kept, NEVER)
        keep(self._is_trusted, kept, 0)

    def check(
        self, rows: pa.RecordBatch, cells: Ints, kept: Mask, location: Ints, *, trusted: bool | None
    ) -> Mask:
        """Which of the `kept` rows are not older than all earlier rows of their key; in a union,
        which are younger. `location` is that of each cell's waiting row, negative where none waits;
        `trusted` tells whether the input of the rows is trusted, None if there is only one
        input."""
        times = rows.column(self._column).cast(pa.int64()).to_numpy(zero_copy_only=False)
        at = np.flatnonzero(kept)
        if (
            trusted is None
            and (np.diff(times) >= 0).all()
            and (times[at] >= self._newest[cells[at]]).all()
        ):
            self._newest[cells[at]] = times[at]
            return kept
        order = at[np.argsort(cells[at], kind="stable")]
        sorted_cells, sorted_times = cells[order], times[order]
        is_first = np.diff(sorted_cells, prepend=-1) != 0
        rank, highest = rank_and_running_maximum(sorted_times, is_first)
        newest = self._newest[sorted_cells]
        current = kept.copy()
        if trusted is None:
            current[order] = (rank == highest) & (sorted_times >= newest)
        else:
            before = np.where(is_first, 0, np.concatenate([[0], highest[:-1]]))
            replaces = (
                (sorted_times == newest)
                & ~self._is_trusted[sorted_cells]
                & (location[sorted_cells] >= 0)
            )
            younger = (sorted_times > newest) | (replaces if trusted else False)
            current[order] = (rank > before) & younger
        taken = order[current[order]]
        self._newest[cells[taken]] = times[taken]
        if trusted is not None:
            self._is_trusted[cells[taken]] = trusted
        return current

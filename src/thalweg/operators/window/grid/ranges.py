"""Hopping windows from ranges of partial results, where rows lie in many windows.

Rows with the same first window and the same number of windows are one cell. In the order of first
windows, the cells with n windows that window k contains are consecutive: their first windows are
k - n + 1 .. k. So a row is read once, not once for each of its windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.model.rows import Codes, Rows, concat_rows, encode, take_rows
from thalweg.operators.groups import covered
from thalweg.operators.window.accumulators import Accumulators
from thalweg.operators.window.extents import Frames, occupied

__all__ = ["WindowParts", "parts_of_windows"]


@dataclass(frozen=True, slots=True)
class WindowParts:
    """The partial results of groups in windows, and a row of each group."""

    group: Codes
    window: Codes
    parts: Rows
    row: Codes


def parts_of_windows(
    sums: Accumulators,
    parts: Rows,
    group: Codes,
    first: Codes,
    length: Codes,
    within: tuple[int, int],
) -> WindowParts:
    """The partial results of the windows low .. high, from rows that are in `length` windows from
    `first` on, each in one of low .. high at least."""
    pieces = []
    for count in np.unique(length).tolist():
        which = np.flatnonzero(length == count)
        alike = parts if len(which) == len(length) else take_rows(parts, which)
        found = _of_equal_length(sums, alike, group[which], first[which], count, within)
        pieces.append(WindowParts(found.group, found.window, found.parts, which[found.row]))
    if len(pieces) == 1:
        return pieces[0]
    every = WindowParts(
        np.concatenate([piece.group for piece in pieces]),
        np.concatenate([piece.window for piece in pieces]),
        concat_rows([piece.parts for piece in pieces], sums.schema),
        np.concatenate([piece.row for piece in pieces]),
    )
    return _merged(sums, every)


def _of_equal_length(
    sums: Accumulators,
    parts: Rows,
    group: Codes,
    first: Codes,
    length: int,
    within: tuple[int, int],
) -> WindowParts:
    cells = _merged(sums, WindowParts(group, first, parts, np.arange(len(group))))
    window = _reached(cells.window, length, *within)
    none = np.zeros(len(window), np.int64)
    frames = Frames(none, window - length + 1, window + 1, window, window, window)
    found = occupied(frames, np.zeros(len(cells.group), np.int64), cells.group, cells.window)
    merged = sums.over_ranges(take_rows(cells.parts, found.rows), found.lo, found.hi)
    owner = found.representative
    return WindowParts(cells.group[owner], window[found.frame], merged, cells.row[owner])


def _merged(sums: Accumulators, cells: WindowParts) -> WindowParts:
    """Merge partial results of equal group and window."""
    size = len(cells.group)
    code, count = encode([cells.group, cells.window], size)
    if count == size:
        return cells
    representative = np.empty(count, np.int64)
    representative[code] = np.arange(size)
    return WindowParts(
        cells.group[representative],
        cells.window[representative],
        sums.merge(cells.parts, code, count),
        cells.row[representative],
    )


def _reached(first: Codes, length: int, low: int, high: int) -> Codes:
    """The windows low .. high that contain rows, however far apart the rows are."""
    first = np.unique(first)
    return covered(np.maximum(first, low), np.minimum(first + length, high + 1))

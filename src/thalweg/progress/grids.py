"""Promises on a grid: an operator that acts only at certain times, such as the ends of windows,
has no use for promises between them, so those are not passed on.

The grid of a source is the `period` it declares, or the coarsest that the operators behind it can
use (`plan.usefulness`).
"""

from __future__ import annotations

from typing import TypeAlias

from thalweg.model.time import INFINITY, MIN_TIME

__all__ = ["Grid", "promise_on_grid", "roll_down"]

Grid: TypeAlias = tuple[int, int]
"""Times `offset + k * period`: (period, offset)."""


def roll_down(time: int, grid: Grid | None) -> int:
    """The last point of a grid at or before a time; the two ends of time stay.

    >>> roll_down(17, (5, 1)), roll_down(17, None)
    (16, 17)
    """
    if grid is None or time <= MIN_TIME or time == INFINITY:
        return time
    period, offset = grid
    return (time - offset) // period * period + offset


def promise_on_grid(from_rows: int, in_data: int, grid: Grid | None) -> int:
    """The promise that a source passes on. What follows from its rows is rounded down to the grid.
    A CTI in the data brings all that is promised, since its time may matter to a reader.

    >>> promise_on_grid(17, MIN_TIME, (5, 0)), promise_on_grid(17, 3, (5, 0))
    (15, 17)
    """
    if in_data == MIN_TIME:
        return roll_down(from_rows, grid)
    return max(from_rows, in_data)

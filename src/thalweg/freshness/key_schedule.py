"""A key schedule: the waiting keys, and the choice of the key that is served next.

Keys are cells, numbers below the number of keys. A key waits since its first update after it was
last served. A schedule keeps waiting keys in one or more lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thalweg.freshness._arrays import NEVER, Floats, Ints, Mask, enlarge, keep
from thalweg.freshness.arrivals import Arrivals
from thalweg.freshness.line import Line, Places

__all__ = ["Arrival", "Schedule", "Standing"]


@dataclass(frozen=True, slots=True)
class Standing:
    """Measures that a schedule may use besides the times of a batch's updates."""

    rates: Floats
    """The rate of each distinct cell at its first row; where `needs_row_rates`, of each row."""
    key_counts: Ints
    """The number of distinct keys so far at the first row of each cell, this key included."""
    cost: float
    """The measured cost of serving one key, in ticks."""


class Arrival(NamedTuple):
    """One update. `round_of_all` and `round_of_waiting` are the time to serve every key once and
    every waiting key once; `entering` is whether the cell did not wait before."""

    cell: int
    rate: float
    round_of_all: float
    round_of_waiting: float
    entering: bool


class Schedule(ABC):
    """The waiting cells. `since[cell]` is when the cell began to wait, NEVER if it does not."""

    needs_row_rates = False
    """Whether `arrive` needs the rate at every row, not only at the first row of each cell."""

    def __init__(self) -> None:
        self._places = Places()
        self.since = np.empty(0, np.int64)
        self.waiting = 0

    def grow(self, size: int) -> None:
        self._places.grow(size)
        self.since = enlarge(self.since, size, NEVER)

    def keep(self, kept: Ints, moved: Ints) -> None:
        """Forget all cells but these, which get new numbers: `moved[old]`. None that waits may be
        forgotten."""
        for line in self._all_lines():
            line.renumber(moved)
        keep(self._places.of, kept, -1)
        keep(self.since, kept, NEVER)

    @abstractmethod
    def _all_lines(self) -> list[Line]: ...

    def __len__(self) -> int:
        return self.waiting

    def arrive(self, batch: Arrivals, standing: Standing) -> Mask:
        """Add updates; returns which of the distinct cells did not wait before."""
        entering: Mask = self.since[batch.distinct] == NEVER
        cells = batch.distinct[entering]
        self.since[cells] = batch.times[batch.first[entering]]
        self._line_up(batch, entering, standing)
        self.waiting += len(cells)
        return entering

    def arrive_one(self, cell: int, time: int, rate: float, key_count: int, cost: float) -> bool:
        """As `arrive`, for one update; returns whether the cell did not wait before."""
        entering = bool(self.since[cell] == NEVER)
        if entering:
            self.since[cell] = time
        self._line_up_one(Arrival(cell, rate, key_count * cost, self.waiting * cost, entering))
        self.waiting += entering
        return entering

    def remove(self, cells: Ints) -> None:
        """Remove cells that `peek` has returned."""
        self._places.of[cells] = -1
        self.since[cells] = NEVER
        self.waiting -= len(cells)

    def remove_next(self, cell: int) -> None:
        """Remove the cell that `next_cell` has just returned."""
        self._places.of[cell] = -1
        self.since[cell] = NEVER
        self.waiting -= 1

    def set_target(self, cell: int, target: int) -> None:
        """Set the freshness target of one key, in ticks; of use where keys are served by their
        deadlines."""
        return

    @abstractmethod
    def next_cell(self, now: int) -> int:
        """The cell to be served next, -1 if none waits."""

    @abstractmethod
    def peek(self, count: int, now: int) -> Ints:
        """The cells that `count` calls of `next_cell` and `remove_next` at `now` would return."""

    @abstractmethod
    def _line_up(self, batch: Arrivals, entering: Mask, standing: Standing) -> None: ...

    @abstractmethod
    def _line_up_one(self, arrival: Arrival) -> None: ...

"""Schedules by classes of keys: an in-place line for each class, whose heads are compared.

The order of two keys of different classes changes with time, but never that of two keys of one
class. `gain` has a class for each rate of updates, `deadline` one for each freshness target.

Why `gain`: a key that is served stops adding to the area under its staleness curve, s^2/2 so far,
and the curve stays at zero until the next update, 1/u later, which saves another s/u. For equal
rates the order is that of s, so `gain` is `in-place`. See `schedules` for the notation.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from thalweg.freshness._arrays import Floats, Ints, Mask, enlarge, keep
from thalweg.freshness.arrivals import Arrivals
from thalweg.freshness.key_schedule import Arrival, Schedule, Standing
from thalweg.freshness.line import Line
from thalweg.freshness.rates import CLASSES, class_of, class_rates, classes_of

__all__ = ["DeadlineSchedule", "GainSchedule"]


class _ClassSchedule(Schedule):
    """A line for each class of keys; `_urgency` compares their heads, by class and waiting time."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self._lines: list[Line | None] = [None] * classes
        self._heads: list[int] = [-1] * classes
        self._filled: list[int] = []
        """The classes whose lines are not empty, ascending ..."""
        self._filled_since: list[int] = []
        """... and the times since when their heads wait."""
        self._shown = 0
        """The position in `_filled` of the cell that `next_cell` has returned."""

    @abstractmethod
    def _classify(self, cells: Ints, rates: Floats) -> Ints: ...

    @abstractmethod
    def _classify_one(self, cell: int, rate: float) -> int: ...

    @abstractmethod
    def _urgency(self, classes: Ints, waited: Ints) -> Floats:
        """The key with the largest urgency is served next; within a class it grows with the waiting
        time."""

    @abstractmethod
    def _urgency_one(self, number: int, waited: int) -> float:
        """As `_urgency` for one key, with exactly the same result."""

    def _line_up(self, batch: Arrivals, entering: Mask, standing: Standing) -> None:
        cells = batch.distinct[entering]
        if not len(cells):
            return
        classes = self._classify(cells, standing.rates[entering])
        order = np.argsort(classes, kind="stable")
        bounds = np.flatnonzero(np.diff(classes[order], prepend=-1))
        for begin, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
            number = int(classes[order[begin]])
            self._line(number).push(cells[order[begin:end]])
        self._find_heads()

    def _line_up_one(self, arrival: Arrival) -> None:
        if arrival.entering:
            number = self._classify_one(arrival.cell, arrival.rate)
            self._line(number).push_one(arrival.cell)
            if self._heads[number] < 0:
                self._find_heads()

    def keep(self, kept: Ints, moved: Ints) -> None:
        super().keep(kept, moved)
        self._find_heads()

    def _all_lines(self) -> list[Line]:
        return [line for line in self._lines if line is not None]

    def peek(self, count: int, now: int) -> Ints:
        if count <= 0 or not self._filled:
            return np.empty(0, np.int64)
        parts = [self._line(number).first(count) for number in self._filled]
        classes = np.repeat(self._filled, [len(part) for part in parts])
        cells = np.concatenate(parts)
        urgency = self._urgency(classes, now - self.since[cells])
        return cells[np.argsort(-urgency, kind="stable")[:count]]

    def remove(self, cells: Ints) -> None:
        super().remove(cells)
        self._find_heads()

    def next_cell(self, now: int) -> int:
        if not self._filled:
            return -1
        # A dozen heads are compared sooner one by one than as arrays.
        most = -math.inf
        for at, (number, since) in enumerate(zip(self._filled, self._filled_since, strict=True)):
            urgency = self._urgency_one(number, now - since)
            if urgency > most:
                most, self._shown = urgency, at
        return self._heads[self._filled[self._shown]]

    def remove_next(self, cell: int) -> None:
        super().remove_next(cell)
        number = self._filled[self._shown]
        head = self._line(number).head()
        self._heads[number] = head
        if head >= 0:
            self._filled_since[self._shown] = int(self.since[head])
        else:
            del self._filled[self._shown], self._filled_since[self._shown]

    def _line(self, number: int) -> Line:
        line = self._lines[number]
        if line is None:
            line = self._lines[number] = Line(self._places)
        return line

    def _find_heads(self) -> None:
        self._heads = [-1 if line is None else line.head() for line in self._lines]
        heads = np.array(self._heads)
        filled = np.flatnonzero(heads >= 0)
        self._filled = filled.tolist()
        self._filled_since = self.since[heads[filled]].tolist()


class GainSchedule(_ClassSchedule):
    """The key with the largest s^2/2 + s/u, u to within a factor of 2^(1/4)."""

    def __init__(self) -> None:
        super().__init__(CLASSES)
        self._gap = 1 / class_rates()
        self._gaps: list[float] = self._gap.tolist()

    def _classify(self, cells: Ints, rates: Floats) -> Ints:
        return classes_of(rates)

    def _classify_one(self, cell: int, rate: float) -> int:
        return class_of(rate)

    def _urgency(self, classes: Ints, waited: Ints) -> Floats:
        urgency: Floats = waited * (0.5 * waited + self._gap[classes])
        return urgency

    def _urgency_one(self, number: int, waited: int) -> float:
        return waited * (0.5 * waited + self._gaps[number])


class DeadlineSchedule(_ClassSchedule):
    """The key whose target runs out first: it waits since t and should wait no longer than its
    target.

    Targets are rounded down to one of 256 steps, four for each power of two ticks. An application
    that looks at a key r times a second sets its target to 1/r.
    """

    def __init__(self, target: int, targets: Mapping[int, int] | None = None) -> None:
        super().__init__(4 * 64)
        self.target = target
        self._targets = np.empty(0, np.int64)
        self._set_targets = dict(targets or {})
        steps = np.arange(4 * 64)
        self._class_targets: Floats = 2.0 ** (steps // 4) * (1 + (steps % 4) / 4)
        self._target_list: list[float] = self._class_targets.tolist()

    def grow(self, size: int) -> None:
        super().grow(size)
        before = len(self._targets)
        self._targets = enlarge(self._targets, size, self.target)
        for cell, target in self._set_targets.items():
            if before <= cell < size:
                self._targets[cell] = target

    def keep(self, kept: Ints, moved: Ints) -> None:
        super().keep(kept, moved)
        keep(self._targets, kept, self.target)
        self._set_targets = {
            int(moved[cell]): target
            for cell, target in self._set_targets.items()
            if cell < len(moved) and moved[cell] >= 0
        }

    def set_target(self, cell: int, target: int) -> None:
        """Set the freshness target of a key, effective when it next begins to wait."""
        self._set_targets[cell] = target
        if cell < len(self._targets):
            self._targets[cell] = target

    def _classify(self, cells: Ints, rates: Floats) -> Ints:
        mantissa, exponent = np.frexp(self._targets[cells].astype(np.float64))
        steps: Ints = 4 * (exponent.astype(np.int64) - 1) + ((mantissa - 0.5) * 8).astype(np.int64)
        return np.maximum(steps, 0)

    def _classify_one(self, cell: int, rate: float) -> int:
        return int(self._classify(np.array([cell]), np.empty(1))[0])

    def _urgency(self, classes: Ints, waited: Ints) -> Floats:
        urgency: Floats = waited - self._class_targets[classes]
        return urgency

    def _urgency_one(self, number: int, waited: int) -> float:
        return waited - self._target_list[number]

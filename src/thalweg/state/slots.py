"""Slots: the sorted runs of an arrangement, by how long rows last and by when they end.

A class holds durations within a factor of 64; a slot of a class is a power of two wide. Where a
class spreads over too many slots, neighbours are joined. Each run of a slot is at least three times
as long as the next one: a new run is merged with those that are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from thalweg.model.rows import Codes
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.state.columns import RowColumns
from thalweg.state.runs import Run

__all__ = ["Slot", "SlotTable"]

_RATIO = 3
"""A run is at least this many times as long as the next one of its slot."""
_MOST = 16
"""The most slots of a class; when there are more, they become twice as wide."""
_CLASS_BITS = 6
_ENDLESS = 20
"""The class of rows without an end: one slot."""


@dataclass(slots=True)
class Slot:
    runs: list[Run] = field(default_factory=list)
    last: int = MIN_TIME
    """The latest end of a row."""


class SlotTable:
    """The runs by class and slot."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self.number = 0
        """The highest number of a run or a patch so far."""
        self.clear()

    def clear(self) -> None:
        self.slots: dict[tuple[int, int], Slot] = {}
        self.widths: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.slots)

    def next(self) -> int:
        """A number that no run and no patch has."""
        self.number += 1
        return self.number

    def runs(self, after: int = MIN_TIME) -> Iterator[Run]:
        """The runs that may have a row which ends after a time."""
        for slot in self.slots.values():
            if slot.last > after:
                yield from slot.runs

    def add(self, rows: RowColumns) -> None:
        """Sort new rows into their slots."""
        classes = _class_of(rows.start, rows.end)
        for number in _distinct(classes).tolist():
            mask = classes == number
            self._add_to_class(number, rows if mask.all() else rows.take(mask.nonzero()[0]))

    def drop(self, until: int) -> list[RowColumns]:
        """Drop slots that have ended, and rewrite runs of which half has ended or was removed;
        returns the rows that have ended."""
        dropped: list[RowColumns] = []
        stale = [k for k, s in self.slots.items() if any(r.is_stale(until) for r in s.runs)]
        for key in stale:
            slot = self.slots[key]
            if slot.last <= until:
                dropped += [run.living() for run in slot.runs]
                del self.slots[key]
                continue
            kept = [self._shortened(run, until, dropped) for run in slot.runs]
            slot.runs = [run for run in kept if run is not None]
            if slot.runs:
                slot.last = max(run.last for run in slot.runs)
            else:
                del self.slots[key]
        return dropped

    def load(self, at: tuple[int, int], rows: RowColumns, number: int) -> Run:
        """Add a run as it was written; the width of its class is set already."""
        class_, slot_number = at
        width = self.widths[class_]
        begin = INFINITY if class_ == _ENDLESS else slot_number << width
        run = Run.of(rows, begin, width, self._bits, number)
        slot = self.slots.setdefault(at, Slot())
        slot.runs.append(run)
        slot.last = max(slot.last, run.last)
        return run

    def _shortened(self, run: Run, until: int, dropped: list[RowColumns]) -> Run | None:
        """The run without the rows that have ended, if it is stale; they are added to
        `dropped`."""
        if not run.is_stale(until):
            return run
        alive = run.alive(until)
        dropped.append(run.rows.aside((~alive & (run.rows.weight != 0)).nonzero()[0]))
        if not alive.any():
            return None
        rows = run.rows.take(alive.nonzero()[0])
        return Run.of(rows, run.begin, run.bits + run.drop, self._bits, self.next())

    def _add_to_class(self, class_: int, rows: RowColumns) -> None:
        if class_ == _ENDLESS:
            self.widths[class_] = 0
            self._put(class_, 0, rows, INFINITY)
            return
        there = np.array([slot for number, slot in self.slots if number == class_], np.int64)
        if not len(there):
            span = int(rows.end.max()) - int(rows.end.min())
            self.widths[class_] = max(span // (_MOST // 2), 1).bit_length()
        width = self.widths[class_]
        while len(np.union1d(there, _distinct(rows.end >> width))) > _MOST:
            width, there = width + 1, there >> 1
        if width != self.widths[class_]:
            self.widths[class_] = width
            keys = [key for key in self.slots if key[0] == class_]
            old = [run.living() for key in keys for run in self.slots.pop(key).runs]
            rows = RowColumns.concat([*old, rows])
        slots = rows.end >> width
        distinct = _distinct(slots)
        if len(distinct) > 1:  # put the rows of a slot side by side, with one copy for all
            order = np.argsort(_narrow(slots - distinct[0]), kind="stable")
            rows, slots = rows.take(order), slots[order]
        bounds = [*slots.searchsorted(distinct).tolist(), len(slots)]
        for slot, begin, end in zip(distinct.tolist(), bounds, bounds[1:], strict=False):
            self._put(class_, slot, rows.slice(begin, end), slot << width)

    def _put(self, class_: int, number: int, rows: RowColumns, begin: int) -> None:
        slot = self.slots.setdefault((class_, number), Slot())
        while slot.runs and len(slot.runs[-1]) <= _RATIO * len(rows):
            rows = RowColumns.concat([slot.runs.pop().living(), rows])
        slot.runs.append(Run.of(rows, begin, self.widths[class_], self._bits, self.next()))
        slot.last = max(run.last for run in slot.runs)


def _distinct(values: Codes) -> Codes:
    """The values that there are, in order. Most often they lie close together; then counting is
    much faster than sorting."""
    least, most = int(values.min()), int(values.max())
    if most - least > 4 * len(values):
        return np.unique(values)
    return np.flatnonzero(np.bincount(values - least)) + least


def _narrow(values: Codes) -> npt.NDArray[np.uint16] | Codes:
    """Small numbers in 16 bits, where NumPy sorts by digits."""
    return values.astype(np.uint16) if int(values.max()) < 2**16 else values


def _class_of(start: Times, end: Times) -> Codes:
    endless = end == INFINITY
    duration = np.where(endless, 1, end - start)
    exponent = np.frexp(duration.astype(np.float64))[1].astype(np.int64)
    return np.where(endless, _ENDLESS, exponent // _CLASS_BITS)

"""Key schedules: which of the waiting keys is served next.

A schedule holds the cells that wait, and for each the time since when it waits (its first update
after it was last served). Notation: s is that waiting time, the key's queue staleness; u is the
rate of its updates; c the cost of serving one key.

| name | serves |
| --- | --- |
| `fifo` | the key whose newest update is the oldest; a new update sends its key to the tail |
| `in-place` | the key that waits longest; a new update keeps the place of its key |
| `linecutting-literal` | as in-place, but a key with u < 1 / (c n), n the keys that wait, goes to the front |
| `linecutting` | the same, but those who cut form a line of their own, and n counts all known keys |
| `gain` | the key with the largest s^2/2 + s/u |
| `deadline` | the key whose freshness target is, or was, due first |

Why `gain`: serving a key ends an area of s^2/2 under its staleness curve, and keeps the curve at
zero until the next update, 1/u later, during which it would have gone on from s: s/u more. For
equal rates the order is that of s, so `gain` is `in-place`. The order of two keys of different
rates changes with time, but never that of two keys of one rate: keys of about one rate keep a line
in place, and a decision compares the heads of these lines.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thalweg.errors import PlanError, did_you_mean
from thalweg.freshness._arrays import NEVER, Floats, Ints, Mask, enlarge, keep
from thalweg.freshness.arrivals import Arrivals
from thalweg.freshness.line import Line, Places
from thalweg.freshness.rates import CLASSES, class_of, class_rates, classes_of

__all__ = [
    "SCHEDULES",
    "DeadlineSchedule",
    "FifoSchedule",
    "GainSchedule",
    "InPlaceSchedule",
    "LineCutting",
    "LiteralLineCutting",
    "Schedule",
    "Standing",
    "make_schedule",
    "schedule_for",
]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a schedule may ask about the updates of a batch besides their times."""

    rates: Floats
    """The rate of each distinct cell at its first row; where `needs_row_rates`, of each row."""
    known: Ints
    """How many keys were known at the first row of each distinct cell, this key included."""
    cost: float
    """The measured cost of serving one key, in ticks."""


class Arrival(NamedTuple):
    """One update. The rounds are how long it would take to serve every known and every waiting key,
    `entering` whether the cell did not wait before."""

    cell: int
    rate: float
    round_of_known: float
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
        """Updates arrive; which of the distinct cells did not wait before."""
        entering: Mask = self.since[batch.distinct] == NEVER
        cells = batch.distinct[entering]
        self.since[cells] = batch.times[batch.first[entering]]
        self._line_up(batch, entering, standing)
        self.waiting += len(cells)
        return entering

    def arrive_one(self, cell: int, time: int, rate: float, known: int, cost: float) -> bool:
        """As `arrive`, for one update; whether the cell did not wait before."""
        entering = bool(self.since[cell] == NEVER)
        if entering:
            self.since[cell] = time
        self._line_up_one(Arrival(cell, rate, known * cost, self.waiting * cost, entering))
        self.waiting += entering
        return entering

    def remove(self, cells: Ints) -> None:
        """Take cells out that `peek` has shown."""
        self._places.of[cells] = -1
        self.since[cells] = NEVER
        self.waiting -= len(cells)

    def remove_next(self, cell: int) -> None:
        """Take the cell out that `next_cell` has just shown."""
        self._places.of[cell] = -1
        self.since[cell] = NEVER
        self.waiting -= 1

    @abstractmethod
    def next_cell(self, now: int) -> int:
        """The cell to be served next, -1 if none waits."""

    @abstractmethod
    def peek(self, count: int, now: int) -> Ints:
        """The cells that as many calls of `next_cell` and `remove_next` at `now` would give."""

    @abstractmethod
    def _line_up(self, batch: Arrivals, entering: Mask, standing: Standing) -> None: ...

    @abstractmethod
    def _line_up_one(self, arrival: Arrival) -> None: ...


class InPlaceSchedule(Schedule):
    """One line; a key keeps its place when it is updated."""

    def __init__(self) -> None:
        super().__init__()
        self._line = Line(self._places)

    def _all_lines(self) -> list[Line]:
        return [self._line]

    def peek(self, count: int, now: int) -> Ints:
        return self._line.first(count)

    def _line_up(self, batch: Arrivals, entering: Mask, standing: Standing) -> None:
        self._line.push(batch.distinct[entering])

    def _line_up_one(self, arrival: Arrival) -> None:
        if arrival.entering:
            self._line.push_one(arrival.cell)

    def next_cell(self, now: int) -> int:
        return self._line.head()


class FifoSchedule(InPlaceSchedule):
    """One line; an update sends its key to the tail."""

    def _line_up(self, batch: Arrivals, entering: Mask, standing: Standing) -> None:
        self._line.push(batch.distinct[np.argsort(batch.last)])

    def _line_up_one(self, arrival: Arrival) -> None:
        self._line.push_one(arrival.cell)


class LiteralLineCutting(Schedule):
    """The rule as it was published: a slow key goes before everybody, those who cut before it too.

    With few waiting keys almost every key is slow by this rule and the keys at the back starve; it
    is kept to show that.
    """

    needs_row_rates = True

    def __init__(self) -> None:
        super().__init__()
        self._front = Line(self._places)
        self._line = Line(self._places)

    def _all_lines(self) -> list[Line]:
        return [self._front, self._line]

    def peek(self, count: int, now: int) -> Ints:
        front = self._front.first(self.waiting)[::-1][:count]
        return np.concatenate([front, self._line.first(count - len(front))])

    def _line_up(self, batch: Arrivals, entering: Mask, standing: Standing) -> None:
        enters = np.zeros(len(batch.cells), np.bool_)
        enters[batch.first[entering]] = True
        # Keys that wait before each row: itself not, if it enters with this row.
        residents = self.waiting + np.cumsum(enters) - enters
        cuts = standing.rates * (residents * standing.cost) < 1
        last_cut = np.full(len(batch.distinct), -1, np.int64)
        rows = np.flatnonzero(cuts)
        last_cut[batch.group[rows]] = rows
        self._line.push(batch.distinct[entering & (last_cut < 0)])
        cutting = np.flatnonzero(last_cut >= 0)
        self._front.push(batch.distinct[cutting[np.argsort(last_cut[cutting])]])

    def _line_up_one(self, arrival: Arrival) -> None:
        if arrival.rate * arrival.round_of_waiting < 1:
            self._front.push_one(arrival.cell)
        elif arrival.entering:
            self._line.push_one(arrival.cell)

    def next_cell(self, now: int) -> int:
        cell = self._front.tail()
        return cell if cell >= 0 else self._line.head()


class LineCutting(Schedule):
    """Slow keys wait in a line of their own, which is served first; a key is slow when it updates
    less than once while every known key could be served."""

    def __init__(self) -> None:
        super().__init__()
        self._slow = Line(self._places)
        self._line = Line(self._places)

    def _all_lines(self) -> list[Line]:
        return [self._slow, self._line]

    def peek(self, count: int, now: int) -> Ints:
        slow = self._slow.first(count)
        return np.concatenate([slow, self._line.first(count - len(slow))])

    def _line_up(self, batch: Arrivals, entering: Mask, standing: Standing) -> None:
        slow = standing.rates * (standing.known * standing.cost) < 1
        self._slow.push(batch.distinct[entering & slow])
        self._line.push(batch.distinct[entering & ~slow])

    def _line_up_one(self, arrival: Arrival) -> None:
        if not arrival.entering:
            return
        if arrival.rate * arrival.round_of_known < 1:
            self._slow.push_one(arrival.cell)
        else:
            self._line.push_one(arrival.cell)

    def next_cell(self, now: int) -> int:
        cell = self._slow.head()
        return cell if cell >= 0 else self._line.head()


class _SeveralLines(Schedule):
    """Lines of keys that are alike; `_urgency` compares their heads, by class and waiting time."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self._lines: list[Line | None] = [None] * classes
        self._heads: list[int] = [-1] * classes
        self._filled: list[int] = []
        """The classes whose lines are not empty, ascending; and since when their heads wait."""
        self._filled_since: list[int] = []
        self._shown = 0
        """The position in `_filled` of the cell that `next_cell` has shown."""

    @abstractmethod
    def _classify(self, cells: Ints, rates: Floats) -> Ints: ...

    @abstractmethod
    def _classify_one(self, cell: int, rate: float) -> int: ...

    @abstractmethod
    def _urgency(self, classes: Ints, waited: Ints) -> Floats:
        """The larger, the sooner; grows with the waiting time within a class."""

    @abstractmethod
    def _urgency_one(self, number: int, waited: int) -> float:
        """As `_urgency`, to the same bits."""

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


class GainSchedule(_SeveralLines):
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


class DeadlineSchedule(_SeveralLines):
    """The key whose target is due first: it waits since t and should wait no longer than its
    target.

    Targets are rounded down to one of 256 steps, four for each power of two ticks. An application
    that looks at a key r times a second sets its target to 1/r.
    """

    def __init__(self, target: int, targets: Mapping[int, int] | None = None) -> None:
        super().__init__(4 * 64)
        self.target = target
        self._targets = np.empty(0, np.int64)
        self._own = dict(targets or {})
        steps = np.arange(4 * 64)
        self._due: Floats = 2.0 ** (steps // 4) * (1 + (steps % 4) / 4)
        self._dues: list[float] = self._due.tolist()

    def grow(self, size: int) -> None:
        super().grow(size)
        known = len(self._targets)
        self._targets = enlarge(self._targets, size, self.target)
        for cell, target in self._own.items():
            if known <= cell < size:
                self._targets[cell] = target

    def keep(self, kept: Ints, moved: Ints) -> None:
        super().keep(kept, moved)
        keep(self._targets, kept, self.target)
        self._own = {
            int(moved[cell]): target
            for cell, target in self._own.items()
            if cell < len(moved) and moved[cell] >= 0
        }

    def set_target(self, cell: int, target: int) -> None:
        """From the key's next entry on."""
        self._own[cell] = target
        if cell < len(self._targets):
            self._targets[cell] = target

    def _classify(self, cells: Ints, rates: Floats) -> Ints:
        mantissa, exponent = np.frexp(self._targets[cells].astype(np.float64))
        steps: Ints = 4 * (exponent.astype(np.int64) - 1) + ((mantissa - 0.5) * 8).astype(np.int64)
        return np.maximum(steps, 0)

    def _classify_one(self, cell: int, rate: float) -> int:
        return int(self._classify(np.array([cell]), np.empty(1))[0])

    def _urgency(self, classes: Ints, waited: Ints) -> Floats:
        urgency: Floats = waited - self._due[classes]
        return urgency

    def _urgency_one(self, number: int, waited: int) -> float:
        return waited - self._dues[number]


DEFAULT_TARGET = 1_000_000

SCHEDULES: Mapping[str, Callable[[], Schedule]] = {
    "fifo": FifoSchedule,
    "in-place": InPlaceSchedule,
    "linecutting-literal": LiteralLineCutting,
    "linecutting": LineCutting,
    "gain": GainSchedule,
    "deadline": lambda: DeadlineSchedule(DEFAULT_TARGET),
}


def make_schedule(name: str) -> Schedule:
    """
    >>> type(make_schedule("in-place")).__name__
    'InPlaceSchedule'
    """
    if name not in SCHEDULES:
        raise PlanError(
            f"no schedule {name!r}{did_you_mean(name, SCHEDULES)} There are: {', '.join(SCHEDULES)}."
        )
    return SCHEDULES[name]()


def schedule_for(name: str, freshness: int | None) -> Schedule:
    """As `make_schedule`; deadlines follow the freshness target, if there is one.

    >>> schedule_for("deadline", 2_000_000).target
    2000000
    """
    if name == "deadline" and freshness is not None:
        return DeadlineSchedule(freshness)
    return make_schedule(name)

"""Schedules with one line, or with two lines of which the first is served first. See `schedules`
for the notation."""

from __future__ import annotations

import numpy as np

from thalweg.freshness._arrays import Ints, Mask
from thalweg.freshness.arrivals import Arrivals
from thalweg.freshness.key_schedule import Arrival, Schedule, Standing
from thalweg.freshness.line import Line

__all__ = ["FifoSchedule", "InPlaceSchedule", "LineCutting", "LiteralLineCutting"]


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
    """The rule as it was published: a slow key goes to the front of the line, before slow keys that
    did so earlier.

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
    less than once in the time that serving every key once takes."""

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
        slow = standing.rates * (standing.key_counts * standing.cost) < 1
        self._slow.push(batch.distinct[entering & slow])
        self._line.push(batch.distinct[entering & ~slow])

    def _line_up_one(self, arrival: Arrival) -> None:
        if not arrival.entering:
            return
        if arrival.rate * arrival.round_of_all < 1:
            self._slow.push_one(arrival.cell)
        else:
            self._line.push_one(arrival.cell)

    def next_cell(self, now: int) -> int:
        cell = self._slow.head()
        return cell if cell >= 0 else self._line.head()

"""The rows that an assigner evaluates, in order of partition and time; and the times that a batch
changes in each partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from thalweg.model.rows import Bools, Codes
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest, least
from thalweg.operators.window.held_rows import Found, Located
from thalweg.progress.frontier import Line

__all__ = ["NO_CHANGE", "Change", "Ordered", "repeated"]


class Ordered:
    """Rows of weight one, sorted by partition, then by what orders them: time, or their number.

    `which` has the place of each in `found`. `number` is the position in the partition, from 1,
    where the kind counts rows. A row counts `at` its start, or, by arrival, at the largest start so
    far. Starts that are not positions are gathered when they are first read.
    """

    __slots__ = ("_at", "_start", "found", "number", "partition", "which")

    def __init__(
        self,
        found: Found,
        which: Codes,
        start: Times | Callable[[], Times],
        number: Codes | None = None,
        at: Times | None = None,
    ) -> None:
        self.found, self.which, self._start = found, which, start
        self.partition = found.partition[which]
        self.number = which if number is None else number
        self._at = at

    @property
    def start(self) -> Times:
        if not isinstance(self._start, np.ndarray):
            self._start = self._start()
        return self._start

    @property
    def at(self) -> Times:
        return self.start if self._at is None else self._at[self.which]

    def located(self) -> Located:
        """The rows themselves, to be gathered."""
        return Located(*self.found.located(self.which), lambda: self.start)

    def __len__(self) -> int:
        return len(self.which)


@dataclass(frozen=True, slots=True)
class Change:
    """The partitions that a batch touches, with the first and the last start that changed in
    each."""

    partition: Codes
    first: Times
    last: Times

    @classmethod
    def of(cls, start: Times, partition: Codes) -> Change:
        size = greatest(partition) + 1 if len(partition) else 0
        if size > 4 * len(partition):
            touched, partition = np.unique(partition, return_inverse=True)
            size = len(touched)
        else:
            touched = np.arange(size)
        first, last = np.full(size, INFINITY), np.full(size, MIN_TIME)
        np.minimum.at(first, partition, start)
        np.maximum.at(last, partition, start)
        some = last != MIN_TIME
        return cls(touched[some], first[some], last[some])

    @classmethod
    def of_answered(cls, start: Times, partition: Codes, old_line: Line) -> Change:
        """The partitions in which a window that has answered may change."""
        if not len(start) or (not old_line.ahead and least(start) >= old_line.common):
            return NO_CHANGE
        return cls.of(start, partition).before(old_line)

    def filter(self, mask: Bools) -> Change:
        return Change(self.partition[mask], self.first[mask], self.last[mask])

    def before(self, old_line: Line) -> Change:
        """The partitions in which a change lies before the line, where windows may have
        answered."""
        return self.filter(old_line.of(self.partition) > self.first)

    def everywhere(self) -> Change:
        """The same partitions, at all times."""
        size = len(self.partition)
        return Change(self.partition, np.full(size, MIN_TIME), np.full(size, INFINITY))


_NONE = np.empty(0, np.int64)
NO_CHANGE = Change(_NONE, _NONE, _NONE)


def repeated(which: Codes, weight: Codes) -> Codes:
    """Positions of rows, each repeated by its weight."""
    if not len(weight) or greatest(weight) == 1:
        return which
    return which.repeat(weight[which])

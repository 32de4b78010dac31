"""How many rows an in-order merge has left out.

R0 to R2 hold no rows, so a row that arrives behind the output is taken for one that was sent
already. Whether it was follows from counts of the rows sent at each start, as far back as the
slowest input is, for at most `_KEPT` starts. The rows of an input at a start beyond the number that
was sent were left out; a row that several inputs have counts once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Codes, Rows
from thalweg.model.time import MIN_TIME, Times

__all__ = ["SentStarts"]

_KEPT = 65_536
"""Starts that are kept, a megabyte. Of an input further behind, rows left out are not counted."""

_FORGOTTEN = -1
"""The column of a saved run that stands for `_forgotten`."""


class SentStarts:
    """
    >>> sent = SentStarts()
    >>> sent.note(np.array([1, 3, 3]))
    >>> sent.left_out(0, np.array([1, 2, 3])), sent.left_out(1, np.array([2, 3, 3, 3]))
    (1, 1)
    """

    def __init__(self) -> None:
        self._start: Times = np.empty(0, np.int64)
        self._count: Codes = np.empty(0, np.int64)
        self._run: dict[int, tuple[int, int]] = {}
        """By column: the input's last start, and how many rows it had there."""
        self._forgotten = MIN_TIME
        """The counts up to this start were dropped."""

    @property
    def nbytes(self) -> int:
        return self._start.nbytes + self._count.nbytes

    def attach(self, column: int) -> None:
        self._run[column] = MIN_TIME, 0

    def detach(self, column: int) -> None:
        self._run.pop(column, None)

    def note(self, start: Times) -> None:
        """Count rows that were sent, by their starts in order."""
        if not len(start):
            return
        found, count = _runs(start)
        if len(self._start) and self._start[-1] == found[0]:
            self._count[-1] += count[0]
            found, count = found[1:], count[1:]
        self._start = np.concatenate([self._start, found])
        self._count = np.concatenate([self._count, count])
        if len(self._start) > _KEPT:
            self._drop_before(int(self._start[-_KEPT]))

    def left_out(self, column: int, start: Times) -> int:
        """How many rows of an input, given by their starts in order, were never sent."""
        if self._all_sent(column, start):
            self._run[column] = int(start[-1]), 1
            self._drop_before(min(last for last, _ in self._run.values()))
            return 0
        found, count = _runs(start)
        last, before = self._run.get(column, (MIN_TIME, 0))
        if found[0] == last:
            count[0] += before
        self._run[column] = int(found[-1]), int(count[-1])
        counted = found > self._forgotten
        found, count = found[counted], count[counted]
        at = np.searchsorted(self._start, found)
        there = at < len(self._start)
        there[there] = self._start[at[there]] == found[there]
        more = np.maximum(count[there] - self._count[at[there]], 0)
        self._count[at[there]] += more
        absent = ~there
        if absent.any():
            self._start = np.insert(self._start, at[absent], found[absent])
            self._count = np.insert(self._count, at[absent], count[absent])
        self._drop_before(min(last for last, _ in self._run.values()))
        return int(more.sum() + count[absent].sum())

    def _all_sent(self, column: int, start: Times) -> bool:
        """Whether the starts of an input equal a run of the starts that were sent: the usual case
        for inputs of one physical form, found by one comparison."""
        first = int(start[0])
        if first <= self._forgotten or first == self._run.get(column, (MIN_TIME, 0))[0]:
            return False
        at = int(np.searchsorted(self._start, first))
        there = self._start[at : at + len(start)]
        return len(there) == len(start) and bool((there == start).all())

    def _drop_before(self, start: int) -> None:
        self._forgotten = max(self._forgotten, start - 1)
        cut = int(np.searchsorted(self._start, start))
        if cut:
            self._start, self._count = self._start[cut:].copy(), self._count[cut:].copy()

    def snapshot(self) -> dict[str, Rows]:
        runs = [(_FORGOTTEN, self._forgotten, 0), *((at, *run) for at, run in self._run.items())]
        columns = [pa.array([run[at] for run in runs], pa.int64()) for at in range(3)]
        return {
            "sent starts": pa.RecordBatch.from_arrays(
                [pa.array(self._start), pa.array(self._count)], names=["start", "count"]
            ),
            "runs": pa.RecordBatch.from_arrays(columns, names=["column", "start", "count"]),
        }

    def restore(self, sent: Rows, runs: Rows) -> None:
        self._start, self._count = (np.array(column.to_numpy()) for column in sent.columns)
        rows = zip(*(column.to_pylist() for column in runs.columns), strict=True)
        self._run = {column: (start, count) for column, start, count in rows}
        self._forgotten, _ = self._run.pop(_FORGOTTEN)


def _runs(start: Times) -> tuple[Times, Codes]:
    """The distinct starts of a sorted column, and how often each occurs."""
    first = np.flatnonzero(np.concatenate([[True], start[1:] != start[:-1]]))
    return start[first], np.diff(np.append(first, len(start)))

"""Stamp arrivals: each row with the time at which it arrived.

    (s, e, p) -> (s, e, p + {_arrived})      _arrived = floor(clock / every) * every, by the clock
                                             when the row came

The engine sets the clock with a promise over the column `CLOCK`, ahead of the rows:
what arrives later does not arrive before it. So a batch that runs again gets the same stamps if the
clock was set to the same time. An adjust has the stamp of its row: numbers rise with arrival, and
the kernel keeps the numbers from which on another stamp holds. The promise over `_arrived` is the
clock, or the stamp of the first row that may still be adjusted.

State: the clock; where rows may be adjusted, one pair (number, stamp) for each time at which
rows came that may still be adjusted. Progress passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.errors import StateError
from thalweg.model.batch import Batch
from thalweg.model.column_promises import ColumnPromises, column_promise, merge_column_promises
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import MIN_TIME, Times
from thalweg.operators.base import Operator, Slices, StateSize, progress_of_slice, slice_of_progress
from thalweg.plan.nodes.arrivals import ARRIVED, CLOCK, StampArrivals
from thalweg.plan.nodes.wid import ROW_NUMBER

__all__ = ["StampArrivalsKernel", "clock_promise"]


def clock_promise(now: int) -> Progress:
    """The promise that sets the clock of the operators behind a source."""
    return Progress(column_promises=column_promise({CLOCK: now}))


class StampArrivalsKernel(Operator):
    """
    >>> import thalweg as tw
    >>> from thalweg.testing import FakeClock
    >>> clock = FakeClock(25)
    >>> events = tw.source("s", {"v": "int64"}, insert_only=True)
    >>> engine = tw.Engine(events.stamp_arrivals(every=10), now=clock)
    >>> list(tw.elements_of(engine.push("s", tw.point({"v": 1}, 3))))
    [Insert(payload={'v': 1, '_arrived': 20}, start=3, end=4)]
    """

    def __init__(self, node: StampArrivals) -> None:
        self.schema = node.schema
        self._every, self._numbered = node.every, node.numbered
        self._progress = NO_PROGRESS
        self._first: Codes = np.empty(0, np.int64)
        """The numbers from which on a stamp holds, and ..."""
        self._stamp: Times = np.empty(0, np.int64)
        self._last = 0
        """The number of the newest row."""

    def process(self, port: int, batch: Batch) -> Batch:
        self._progress = self._progress.advance(batch.progress)
        answer = Batch.empty(self.schema)
        if len(batch):
            stamps = self._stamps(batch.payload)
            kept = [batch.payload.column(name) for name in self.schema.names[:-1]]
            rows = pa.RecordBatch.from_arrays([*kept, pa.array(stamps)], schema=self.schema)
            answer = batch.with_payload(rows)
        promised = replace(self._progress, column_promises=self._promised_columns())
        self._forget()
        return answer.with_progress(promised)

    def _now(self) -> int:
        clock = self._progress.column_promises.get((CLOCK,))
        return MIN_TIME if clock is None else clock[0] // self._every * self._every

    def _stamps(self, rows: Rows) -> Times:
        now = self._now()
        if now == MIN_TIME:
            raise StateError("stamp_arrivals: rows arrived before a reading of the clock.")
        if not self._numbered:
            return np.full(rows.num_rows, now)
        number = rows.column(ROW_NUMBER).to_numpy()
        newest = int(number.max())
        if newest > self._last:
            if not len(self._stamp) or self._stamp[-1] < now:
                self._first = np.append(self._first, self._last + 1)
                self._stamp = np.append(self._stamp, now)
            self._last = newest
        return self._stamp[self._place(number)]

    def _place(self, number: Codes) -> Codes:
        return np.searchsorted(self._first, number, side="right") - 1

    def _settled(self) -> int:
        """The number below which no row changes any more."""
        if not self._numbered:
            return self._last + 1
        found = self._progress.column_promises.get((ROW_NUMBER,))
        return 0 if found is None else found[0]

    def _promised_columns(self) -> ColumnPromises:
        """Promises over the columns that are left, and over the stamps."""
        names = set(self.schema.names)
        kept = {
            columns: bounds
            for columns, bounds in self._progress.column_promises.items()
            if names.issuperset(columns)
        }
        now, settled = self._now(), self._settled()
        if now == MIN_TIME or (self._last and not settled):
            return kept
        if 0 < settled <= self._last:
            now = int(self._stamp[max(int(self._place(np.array([settled]))[0]), 0)])
        return merge_column_promises(kept, column_promise({ARRIVED: now}))

    def _forget(self) -> None:
        if self._progress.ended:
            self._first = self._stamp = np.empty(0, np.int64)
        elif len(self._first) > 1:
            needless = max(int(self._place(np.array([self._settled()]))[0]), 0)
            self._first, self._stamp = self._first[needless:], self._stamp[needless:]

    def snapshot(self) -> Slices:
        numbers = pa.RecordBatch.from_arrays(
            [
                pa.array(np.append(self._first, self._last)),
                pa.array(np.append(self._stamp, MIN_TIME)),
            ],
            names=["first", "stamp"],
        )
        return {"numbers": numbers, "progress": slice_of_progress([self._progress])}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        first, stamp = (column.to_numpy() for column in slices["numbers"].columns)
        self._first, self._last, self._stamp = first[:-1], int(first[-1]), stamp[:-1]
        self._progress = progress_of_slice(slices["progress"])[0]

    def state_size(self) -> StateSize:
        return StateSize(len(self._first), int(self._first.nbytes + self._stamp.nbytes))

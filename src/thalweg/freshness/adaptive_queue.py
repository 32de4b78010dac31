"""All rows while they can be served in time; only the newest of each key when they cannot.

An adaptive queue begins as an append queue: every row is served, in order of arrival. It becomes an
update queue when serving the waiting rows would take longer than the freshness target, when the
first row in line has waited that long, or when there is no room for all rows. Then the newest
waiting row of each key stays, and the others are conflated. It becomes an append queue again after
a period as long as the target whose rows could all have been served within the period, with a tenth
to spare, if serving the rows that wait at its end takes no more than half of the target. So it does
not swing: the load that made it an update queue must fall before it is an append queue again.

The time to serve a row is measured (`take_cost`).

Rows in line lie in the pages of the queue, one location each, and count as arrived when they are
taken. Every switch is logged and counted, with its reason.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from thalweg.freshness._arrays import NEVER, Ints
from thalweg.freshness.arrivals import group_by_cell
from thalweg.freshness.queue_status import Mode, QueueStatus
from thalweg.freshness.schedules import Schedule
from thalweg.freshness.update_queue import Taken, UpdateQueue

__all__ = ["AdaptiveQueue", "Switch", "make_queue"]

_SPARE = 0.9
_BACK = 0.5
"""The share of the target that serving the waiting rows may take at a switch to append."""
_LISTED = 64


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of an adaptive queue to `mode`, at a time of the clock of arrival."""

    at: int
    mode: Mode
    reason: str

    def __str__(self) -> str:
        return f"{self.mode} at {self.at}: {self.reason}"


class AdaptiveQueue(UpdateQueue):
    """
    >>> schema = pa.schema({"symbol": pa.string(), "price": pa.int64()})
    >>> queue = AdaptiveQueue(schema, key="symbol", target=10)
    >>> rows = pa.record_batch({"symbol": ["IBM", "IBM"], "price": [24, 25]})
    >>> for now in (0, 8):                       # a row takes 4 ticks: two can be served in time
    ...     _ = queue.enqueue(rows, now=now)
    ...     taken = queue.dequeue(2, now=now)
    ...     print(taken.rows.column("price").to_pylist())
    ...     queue.deliver(taken, now=now + 8)
    [24, 25]
    [24, 25]
    >>> _ = [queue.enqueue(rows, now=16), queue.enqueue(rows, now=16)]
    >>> queue.dequeue(4, now=16).rows.column("price").to_pylist()
    [25]
    >>> print(queue.switches[0])
    update at 16: 4 rows would take 16 ticks; the target is 10
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: str | Sequence[str] = (),
        *,
        target: int,
        schedule: str | Schedule = "gain",
        time: str | None = None,
        capacity: int = 256 * 2**20,
        text_bytes: int = 64,
    ) -> None:
        super().__init__(
            schema, key, schedule=schedule, time=time, capacity=capacity, text_bytes=text_bytes
        )
        self.target = target
        self.is_append = True
        self._may_append = True
        self.switches: deque[Switch] = deque(maxlen=_LISTED)
        """The latest `_LISTED` switches."""
        self._switch_count = 0
        self._cells_in_line = self._times_in_line = self._places_in_line = np.empty(0, np.int64)
        self._period_begin, self._period_rows = NEVER, 0

    @property
    def waiting(self) -> int:
        return super().waiting + len(self._cells_in_line)

    # ------------------------------------------------------------------------------------ rows in

    def _admit(self, rows: pa.RecordBatch, cells: Ints, times: Ints) -> int:
        if len(cells) and self._period_begin == NEVER:
            self._period_begin = int(times[0])
        self._period_rows += len(cells)
        if self.is_append and len(cells) > self.keys.memory.free_locations:
            self.conflate(f"{len(cells)} rows have no room")
        if not self.is_append:
            refused = super()._admit(rows, cells, times)
            self._adapt()
            return refused
        places = self.keys.memory.add(len(cells))
        self._store.write(places, rows)
        self._push(cells, times, places)
        batch = group_by_cell(cells, times, np.empty(len(self.keys.location), np.int64))
        self._ledger.arrive(batch.distinct, times[batch.first])
        self._adapt()
        return 0

    def _push(self, cells: Ints, times: Ints, places: Ints) -> None:
        self._cells_in_line = np.concatenate([self._cells_in_line, cells])
        self._times_in_line = np.concatenate([self._times_in_line, times])
        self._places_in_line = np.concatenate([self._places_in_line, places])

    def _pop(self, count: int) -> tuple[Ints, Ints, Ints]:
        """Remove the first rows in line; returns their cells, times and locations."""
        first = (
            self._cells_in_line[:count],
            self._times_in_line[:count],
            self._places_in_line[:count],
        )
        self._cells_in_line = self._cells_in_line[count:]
        self._times_in_line = self._times_in_line[count:]
        self._places_in_line = self._places_in_line[count:]
        return first

    # ----------------------------------------------------------------------------------- rows out

    def dequeue(self, count: int, *, now: int, reader: str | None = None) -> Taken:
        now = self._tick(now)
        self._cost.next_take(now)
        self._adapt()
        if not self.is_append:
            return super().dequeue(count, now=now, reader=reader)
        cells, times, places = self._pop(max(count, 0))
        rows = self._store.read(places)
        self.keys.memory.remove(places)
        batch = group_by_cell(cells, times, np.empty(len(self.keys.location), np.int64))
        at = batch.distinct
        self._ledger.take(at, times[batch.first], now)
        self._ledger.keep_waiting(at, self._since(at, None), now)
        self.keys.reader().taken[at] += batch.counts
        self.keys.arrived[at] += batch.counts
        self.keys.last_update[at] = times[batch.last]
        self.keys.rates.arrive(batch)
        return self._hand_out(rows, at, now)

    def read(self, count: int, *, now: int, reader: str | None = None) -> pa.RecordBatch:
        if not self.is_append:
            return super().read(count, now=now, reader=reader)
        return self._store.read(self._places_in_line[:count])

    def _since(self, cells: Ints, reader: str | None) -> Ints:
        since = super()._since(cells, reader)
        if not len(self._cells_in_line):
            return since
        first = np.full(len(self.keys.location), NEVER)
        first[self._cells_in_line[::-1]] = self._times_in_line[::-1]
        return first[cells]

    def finished_keys(self, taken: Taken) -> pa.RecordBatch:
        """One row for each key of which no row waits any more."""
        if not self.is_append or self._table is None:
            waits = bool(len(self._cells_in_line))
            return taken.rows.slice(0, 0) if self.is_append and waits else taken.rows
        cells = self._table.cells([taken.rows.column(name) for name in self.key], limit=0)
        waits_on = np.isin(cells, self._cells_in_line)
        last = np.unique(cells[::-1], return_index=True)[1]
        rows = np.sort(len(cells) - 1 - last)
        return taken.rows.take(pa.array(rows[~waits_on[rows]]))

    # ----------------------------------------------------------------------------------- switches

    def _adapt(self) -> None:
        now, waiting = self._clock, self.waiting
        needed = waiting * (self.keys.costs.cost if self._cost.is_measured else 0.0)
        if self.is_append:
            if needed > self.target:
                self.conflate(
                    f"{waiting} rows would take {needed:.0f} ticks; the target is {self.target}"
                )
            elif waiting and now - int(self._times_in_line[0]) > self.target:
                waited = now - int(self._times_in_line[0])
                self.conflate(f"the first in line has waited {waited} ticks")
            return
        passed = now - self._period_begin
        if passed < self.target:
            return
        cost = self._period_rows * self.keys.costs.cost
        if self._may_append and cost <= _SPARE * passed and needed <= _BACK * self.target:
            self._line_up_all()
            self._switch(
                "append", f"{self._period_rows} rows in {passed} ticks, which took {cost:.0f}"
            )
        self._period_begin, self._period_rows = now, 0

    def conflate(self, reason: str) -> None:
        """Become an update queue: only the newest row in line of each key stays."""
        if not self.is_append:
            return
        self.is_append = False
        cells, times, places = self._pop(len(self._cells_in_line))
        rows = self._store.read(places)
        self.keys.memory.remove(places)
        if len(cells):
            super()._admit(rows, cells, times)
        self._period_begin, self._period_rows = self._clock, 0
        self._switch("update", reason)

    @contextmanager
    def conflating(self, reason: str) -> Iterator[None]:
        self.conflate(reason)
        self._may_append = False
        try:
            yield
        finally:
            self._may_append = True

    def _line_up_all(self) -> None:
        """Become an append queue: the waiting rows stand first in line, the oldest first."""
        self.is_append = True
        keys, schedule = self.keys, self.keys.reader().schedule
        cells = np.flatnonzero(keys.location[: keys.size] >= 0)
        cells = cells[np.argsort(schedule.since[cells], kind="stable")]
        self._push(cells, schedule.since[cells], keys.location[cells])
        keys.release(cells)

    def _switch(self, mode: Mode, reason: str) -> None:
        switch = Switch(self._clock, mode, reason)
        self.switches.append(switch)
        self._switch_count += 1
        logging.getLogger(__name__).info("update queue by (%s): %s", ", ".join(self.key), switch)

    # ----------------------------------------------------------------------------------- measures

    def waiting_rows(self) -> tuple[pa.RecordBatch, Ints]:
        if not self.is_append:
            return super().waiting_rows()
        return self._store.read(self._places_in_line), self._times_in_line

    def smallest_waiting(self, column: str) -> int | None:
        if not self.is_append:
            return super().smallest_waiting(column)
        held = self._store.integers(column)[self._places_in_line]
        return int(held.min()) if len(held) else None

    def status(self, *, now: int, reader: str | None = None) -> QueueStatus:
        status = super().status(now=now, reader=reader)
        in_line = len(self._cells_in_line)
        return replace(
            status,
            arrived=status.arrived + in_line,
            waiting=status.waiting + in_line,
            mode="append" if self.is_append else "update",
            switches=self._switch_count,
            last_switch=str(self.switches[-1]) if self.switches else "",
        )

    def _renumber(self, moved: Ints) -> None:
        super()._renumber(moved)
        self._cells_in_line = moved[self._cells_in_line]


def make_queue(
    schema: pa.Schema,
    key: str | Sequence[str],
    *,
    schedule: str | Schedule,
    time: str | None,
    capacity: int,
    target: int | None,
) -> UpdateQueue:
    """An update queue; with a `target` an adaptive queue."""
    if target is None:
        return UpdateQueue(schema, key, schedule=schedule, time=time, capacity=capacity)
    return AdaptiveQueue(
        schema, key, target=target, schedule=schedule, time=time, capacity=capacity
    )

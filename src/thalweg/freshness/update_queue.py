"""An update queue: rows in, the newest row of each key out, in the order of a key schedule.

It combines key table, pages and schedule: `enqueue` finds each row's key cell, `KeyQueue` decides
which rows are the newest of their key and where they belong, and the row store writes them there.
Rows may come in batches or one by one; both lead to the same queue.

Arrival times are given by the caller, on a clock that never goes back (a time before the last one
counts as the last one). They have nothing to do with times in the data. Where a column of the data
says when a row was made (`time`), an update that is older than an earlier update of its key is not
taken: it is counted as outdated.

The number of keys is bounded by the capacity. When it is reached, keys that are idle and were
updated longest ago are forgotten to make room: their rates and times, not their counts. Only if no
key is idle is a new one refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from thalweg.errors import InputError, PlanError, SchemaChangeError, UnknownColumnError
from thalweg.freshness._arrays import NEVER, Ints
from thalweg.freshness.key_queue import KeyQueue
from thalweg.freshness.key_table import KeyTable
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.queue_status import Admission, QueueStatus, Staleness, stalest_keys
from thalweg.freshness.row_store import RowStore
from thalweg.freshness.schedules import Schedule, make_schedule
from thalweg.freshness.staleness import StalenessLedger
from thalweg.freshness.take_cost import TakeCost
from thalweg.freshness.update_times import UpdateTimes

__all__ = ["Taken", "UpdateQueue"]

PAGE_LOCATIONS = 256
_CELL_BYTES = 136
"""The most bytes of a key besides its value: counts, rate, hash and slots of the key table ..."""
_READER_BYTES = 144
"""... and for each reader: place in line, times, areas."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Taken:
    """Rows that were taken from the queue; `cells` are their keys until they are delivered."""

    rows: pa.RecordBatch
    cells: Ints
    at: int = NEVER
    """When they were taken."""


class UpdateQueue:
    """
    >>> schema = pa.schema({"symbol": pa.string(), "price": pa.float64()})
    >>> queue = UpdateQueue(schema, key="symbol", schedule="in-place")
    >>> rows = pa.record_batch({"symbol": ["IBM", "MSFT", "IBM"], "price": [24.0, 11.0, 25.0]})
    >>> queue.enqueue(rows, now=1)
    Admission(accepted=3, outdated=0, refused=0)
    >>> served = queue.dequeue(1, now=2)
    >>> served.rows.to_pylist()
    [{'symbol': 'IBM', 'price': 25.0}]
    >>> queue.deliver(served, now=3)
    >>> queue.status(now=3).conflated
    1
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: str | Sequence[str] = (),
        *,
        schedule: str | Schedule = "gain",
        readers: Mapping[str, str | Schedule] | None = None,
        time: str | None = None,
        capacity: int = 256 * 2**20,
        text_bytes: int = 64,
    ) -> None:
        names = (key,) if isinstance(key, str) else tuple(key)
        for name in (*names, *(() if time is None else (time,))):
            if name not in schema.names:
                raise UnknownColumnError(name, schema.names, "update queue")
        self.schema = schema
        self.key = names
        row_bytes = RowStore.row_bytes(schema, text_bytes) + 4  # the page's list of free offsets
        named = readers or {"": schedule}
        self.page_bytes = row_bytes * PAGE_LOCATIONS
        self._cell_bytes = _CELL_BYTES + len(named) * _READER_BYTES + text_bytes
        pages = capacity // ((row_bytes + self._cell_bytes) * PAGE_LOCATIONS)
        if pages < 1:
            least = (row_bytes + self._cell_bytes) * PAGE_LOCATIONS
            raise PlanError(f"capacity: {capacity} bytes hold no page; {least} is the least.")
        self._capacity = capacity
        self._max_keys = pages * PAGE_LOCATIONS
        self._table = KeyTable([schema.field(name) for name in names]) if names else None
        self._store = RowStore(schema, pages * PAGE_LOCATIONS, text_bytes)
        self.keys = KeyQueue(
            PagedMemory(PagePool(pages, PAGE_LOCATIONS)),
            {name: make_schedule(s) if isinstance(s, str) else s for name, s in named.items()},
            max_keys=self._max_keys,
        )
        self._times = None if time is None else UpdateTimes(time)
        self._clock = NEVER
        self._began = NEVER
        self._outdated = self._unfit = 0
        self._in_process: WeakSet[Taken] = WeakSet()
        self._cost = TakeCost(self.keys.costs)

    @property
    def waiting(self) -> int:
        """Rows that wait for the first reader."""
        return self.keys.waiting()

    @property
    def _ledger(self) -> StalenessLedger:
        return self.keys.reader().ledger

    def set_targets(self, targets: Iterable[tuple[tuple[Any, ...], int]]) -> None:
        """Freshness targets of single keys, in ticks, for readers that go by deadlines: the values
        of the key's columns, and the target. Such a key is known from now on."""
        listed = list(targets)
        if not listed:
            return
        if self._table is None:
            raise PlanError("targets: without an update key there are no single keys.")
        columns = [
            pa.array([key[at] for key, _ in listed], self.schema.field(name).type)
            for at, name in enumerate(self.key)
        ]
        cells = self._table.cells(columns, self._max_keys)
        self._grow()
        for serving in self.keys.readers.values():
            for cell, (_, target) in zip(cells.tolist(), listed, strict=True):
                serving.schedule.set_target(cell, target)

    def conflating(self, reason: str) -> AbstractContextManager[None]:
        """A context in which only the newest row of each key is kept, while the rows of a log are
        read again. Here that is always so."""
        del reason
        return nullcontext()

    # ------------------------------------------------------------------------------------- rows in

    def enqueue(
        self,
        rows: pa.RecordBatch,
        *,
        now: int | None = None,
        arrived: Ints | None = None,
        trusted: bool | None = None,
    ) -> Admission:
        """Rows in order of arrival, all at `now` or each at its time in `arrived`.

        For the inputs of a union `trusted` tells whether the rows come from the trusted one. A key
        then has one row for each time: the first to arrive, or a trusted row that arrives before
        the first was served. Other rows are outdated.
        """
        return self.enqueue_accepted(rows, now=now, arrived=arrived, trusted=trusted)[0]

    def enqueue_accepted(
        self,
        rows: pa.RecordBatch,
        *,
        now: int | None = None,
        arrived: Ints | None = None,
        trusted: bool | None = None,
    ) -> tuple[Admission, pa.RecordBatch]:
        """As `enqueue`; returns the accepted rows too."""
        if rows.schema != self.schema:
            raise SchemaChangeError(
                f"update queue: rows have the columns {_show(rows.schema)}; it was made for "
                f"{_show(self.schema)}."
            )
        times = self._arrival_times(len(rows), now, arrived)
        if not len(rows):
            return Admission(), rows
        offered = len(rows)
        fits = self._store.fits(rows)
        if fits is not None:  # before the key table sees them: keys are texts too
            at = np.flatnonzero(fits)
            rows, times = rows.take(pa.array(at)), times[at]
            if not len(rows):
                self._unfit += offered
                return Admission(refused=offered), rows
        cells = self._cells(rows)
        kept = cells >= 0
        unfit = offered - int(kept.sum())
        self._unfit += unfit
        outdated = 0
        if self._times is not None:
            current = self._times.check(rows, cells, kept, self.keys.location, trusted=trusted)
            outdated = int(kept.sum() - current.sum())
            self._outdated += outdated
            kept = current
        if unfit or outdated:
            at = np.flatnonzero(kept)
            rows, cells, times = rows.take(pa.array(at)), cells[at], times[at]
        refused = self._admit(rows, cells, times)
        if refused:
            rows = rows.take(pa.array(np.flatnonzero(self.keys.location[cells] >= 0)))
        return Admission(len(cells) - refused, outdated, refused + unfit), rows

    def _admit(self, rows: pa.RecordBatch, cells: Ints, times: Ints) -> int:
        """Add rows; returns how many were refused because there was no room."""
        batch = self.keys.arrive(cells, times)
        refused = len(cells) - len(batch.cells)
        last = batch.last
        if refused:  # from positions among the accepted rows to positions in `rows`
            last = np.flatnonzero(self.keys.location[cells] >= 0)[last]
        self._store.write(self.keys.location[batch.distinct], rows.take(pa.array(last)))
        return refused

    def _arrival_times(self, count: int, now: int | None, arrived: Ints | None) -> Ints:
        if (now is None) == (arrived is None):
            raise InputError("enqueue needs either now= or arrived=.")
        times = np.full(count, now, np.int64) if arrived is None else arrived
        if len(times) != count:
            raise InputError(f"enqueue: {count} rows, but {len(times)} arrival times.")
        if count:
            times = np.maximum.accumulate(np.maximum(times, self._clock))
            self._clock = int(times[-1])
            if self._began == NEVER:
                self._began = int(times[0])
        return times

    def _cells(self, rows: pa.RecordBatch) -> Ints:
        if self._table is None:
            cells = np.zeros(len(rows), np.int64)
        else:
            columns = [rows.column(name) for name in self.key]
            cells = self._table.cells(columns, self._max_keys)
            if int(cells.min()) < 0 and self._forget_idle(cells):
                cells = self._table.cells(columns, self._max_keys)
        self._grow()
        return cells

    def _grow(self) -> None:
        self.keys.grow(1 if self._table is None else self._table.size)
        if self._times is not None:
            self._times.grow(len(self.keys.location))

    def _forget_idle(self, arriving: Ints) -> int:
        """Forget the idle keys that were updated longest ago, at most a quarter of all keys, so
        that there is room for a while; returns how many were forgotten."""
        assert self._table is not None
        self._grow()
        idle = self.keys.idle_cells()
        idle = idle[~np.isin(idle, arriving)][: max(1, self._max_keys // 4)]
        if len(idle):
            before = self.keys.size
            kept = self.keys.forget(idle)
            self._table.keep(kept)
            if self._times is not None:
                self._times.keep(kept)
            moved = np.full(before, -1, np.int64)
            moved[kept] = np.arange(len(kept))
            self._renumber(moved)
        return len(idle)

    def _renumber(self, moved: Ints) -> None:
        for taken in self._in_process:
            taken.cells[:] = moved[taken.cells]

    # ------------------------------------------------------------------------------------ rows out

    def dequeue(self, count: int, *, now: int, reader: str | None = None) -> Taken:
        """Take up to `count` rows, in the order of the schedule."""
        now = self._tick(now)
        self._cost.next_take(now)
        cells, locations = self.keys.take(count, now, reader)
        return self._hand_out(self._store.read(locations), cells, now)

    def _hand_out(self, rows: pa.RecordBatch, cells: Ints, now: int) -> Taken:
        taken = Taken(rows, cells, now)
        self._in_process.add(taken)
        self._cost.taken(now, len(rows), others_wait=self.waiting > 0)
        return taken

    def read(self, count: int, *, now: int, reader: str | None = None) -> pa.RecordBatch:
        """The rows that `dequeue` would return; they keep waiting."""
        return self._store.read(self.keys.read(count, self._tick(now), reader)[1])

    def deliver(self, taken: Taken, *, now: int, reader: str | None = None) -> None:
        """Note that the results of these rows have reached the application."""
        now = self._tick(now)
        ledger = self.keys.reader(reader).ledger
        ledger.deliver(taken.cells, now, self._since(taken.cells, reader))
        self._in_process.discard(taken)
        self._cost.delivered(now, taken.at, len(taken.rows))

    def _since(self, cells: Ints, reader: str | None) -> Ints:
        """The time since when each cell waits again, NEVER if it does not."""
        since: Ints = self.keys.reader(reader).schedule.since[cells]
        return since

    def finished_keys(self, taken: Taken) -> pa.RecordBatch:
        """One row for each key of which no row waits any more: here all taken rows."""
        return taken.rows

    def take_out(self, keys: pa.RecordBatch, *, delivered: bool) -> Taken:
        """Take the waiting rows of these keys out of turn, for all readers: they were served
        elsewhere. Without an update key any row stands for the waiting one."""
        if self._table is None:
            cells = np.zeros(min(len(keys), 1, self.keys.size), np.int64)
        else:
            cells = self._table.cells([keys.column(name) for name in self.key], limit=0)
        distinct = np.unique(cells[cells >= 0])
        waiting = distinct[self.keys.location[distinct] >= 0]
        self.keys.take_cells(waiting, self._clock, delivered=delivered)
        taken = Taken(keys, waiting)
        if not delivered:
            self._in_process.add(taken)
        return taken

    def waiting_rows(self) -> tuple[pa.RecordBatch, Ints]:
        """All waiting rows, in no order, and the times since when their keys wait for the first
        reader."""
        cells = np.flatnonzero(self.keys.location[: self.keys.size] >= 0)
        since = self.keys.reader().schedule.since[cells]
        return self._store.read(self.keys.location[cells]), since

    def totals(self) -> dict[str, int]:
        """Counts of the rows that do not wait any more, for `add_totals` of a successor."""
        status = self.status(now=self._clock)
        return {
            "arrived": status.arrived - status.waiting,
            "taken": status.taken,
            "outdated": status.outdated,
            "refused": status.refused,
        }

    def add_totals(self, totals: Mapping[str, int]) -> None:
        """Add the counts of the queue that this one continues."""
        forgotten, name = self.keys.forgotten, self.keys.main_reader
        forgotten.arrived += totals["arrived"]
        forgotten.taken[name] = forgotten.taken.get(name, 0) + totals["taken"]
        forgotten.refused += totals["refused"]
        self._outdated += totals["outdated"]

    def restart_measures(self) -> None:
        """Begin the averages of staleness anew."""
        if self._clock != NEVER:
            self._began = self._clock
            self.keys.restart_measures(self._clock)

    def smallest_waiting(self, column: str) -> int | None:
        """The smallest value of an int64 column among the rows that wait."""
        locations = self.keys.location[: self.keys.size]
        held = self._store.integers(column)[locations[locations >= 0]]
        return int(held.min()) if len(held) else None

    def _tick(self, now: int) -> int:
        self._clock = max(self._clock, now)
        return self._clock

    # ------------------------------------------------------------------------------------ measures

    @property
    def nbytes(self) -> int:
        """Pages in use and key cells."""
        return self.keys.memory.pages * self.page_bytes + self.keys.size * self._cell_bytes

    def status(self, *, now: int, reader: str | None = None) -> QueueStatus:
        now = max(self._clock, now)
        keys, forgotten, name = self.keys, self.keys.forgotten, reader or self.keys.main_reader
        serving, waiting = keys.reader(name), keys.waiting(name)
        ledger = serving.ledger
        arrived = int(keys.arrived.sum()) + forgotten.arrived
        taken = int(serving.taken.sum()) + forgotten.taken.get(name, 0)
        ahead = int(serving.ahead.sum()) + forgotten.ahead.get(name, 0)
        staleness = Staleness.of(
            keys.application_staleness(now, name),
            float(keys.application_area(now, name).sum()) + ledger.forgotten_area,
            float(keys.queue_area(now, name).sum()) + ledger.forgotten_queue_area,
            keys=keys.size + forgotten.keys,
            elapsed=0 if self._began == NEVER else now - self._began,
        )
        return QueueStatus(
            keys=keys.size,
            waiting=waiting,
            forgotten=forgotten.keys,
            arrived=arrived,
            taken=taken,
            conflated=arrived - ahead - taken - waiting,
            outdated=self._outdated,
            refused=int(keys.refused.sum()) + forgotten.refused + self._unfit,
            staleness_now=staleness.now,
            staleness_p99=staleness.p99,
            staleness_average=staleness.average,
            queue_staleness_average=staleness.queue_average,
            longest_wait=ledger.longest_wait,
            bytes_used=self.nbytes,
            bytes_allowed=self._capacity,
        )

    def stalest_keys(
        self, count: int, *, now: int, reader: str | None = None
    ) -> list[dict[str, Any]]:
        """The keys with the stalest answers, with their figures (see `stalest_keys`)."""
        now = max(self._clock, now)
        return stalest_keys(self.keys, self._table, count, now=now, reader=reader)


def _show(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)

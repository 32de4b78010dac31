"""The queue of keys: the keys with a waiting update, its location, and the key to be served next.

Keys are numbers here (key cells); `UpdateQueue` adds the keys themselves and the values. At most
one value of a key waits, the newest: a new value takes the location of the old one, which is
conflated. Several readers may share the queue, each with a schedule and a staleness of its own; a
location is free when the last reader has taken the value.

When no location is left, an update of a key that does not wait is refused and counted, so that its
sender learns of it; displacing another key would lose an accepted value. Updates of waiting keys
always have a location.

Per key and reader:  arrived = taken + conflated + (1 if it waits), refused rows apart.

A key is *idle* if none of its values waits, is in process or pending; `forget` drops idle keys and
numbers the others anew. The counts of dropped keys are added to totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from thalweg.freshness._arrays import NEVER, Floats, Ints, enlarge, keep
from thalweg.freshness.arrivals import Arrivals, group_by_cell
from thalweg.freshness.pages import PagedMemory
from thalweg.freshness.rates import CostMonitor, RateMonitor
from thalweg.freshness.schedules import Schedule, Standing
from thalweg.freshness.staleness import StalenessLedger

__all__ = ["Forgotten", "KeyQueue", "Reader"]


@dataclass(slots=True, eq=False)
class Reader:
    """One consumer of the queue."""

    schedule: Schedule
    ledger: StalenessLedger
    taken: Ints
    """Per cell: values that were taken."""
    ahead: Ints
    """Per cell: updates that had arrived when this reader joined."""

    def grow(self, size: int) -> None:
        self.schedule.grow(size)
        self.ledger.grow(size)
        self.taken = enlarge(self.taken, size, 0)
        self.ahead = enlarge(self.ahead, size, 0)


@dataclass(slots=True)
class Forgotten:
    """Totals of keys that were forgotten."""

    keys: int = 0
    arrived: int = 0
    refused: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    ahead: dict[str, int] = field(default_factory=dict)


class KeyQueue:
    """
    >>> from thalweg.freshness.pages import PagePool
    >>> from thalweg.freshness.schedules import make_schedule
    >>> queue = KeyQueue(PagedMemory(PagePool(1, 4)), {"app": make_schedule("in-place")})
    >>> queue.grow(3)
    >>> batch = queue.arrive(np.array([2, 0, 2]), np.array([10, 11, 12]))
    >>> queue.take_one(15)          # cell and location
    (2, 0)
    >>> queue.deliver_one(2, 16)
    >>> queue.conflated("app")[:3], queue.memory.used
    (array([0, 0, 1]), 1)
    """

    def __init__(
        self,
        memory: PagedMemory,
        schedules: Mapping[str, Schedule],
        *,
        rates: RateMonitor | None = None,
        costs: CostMonitor | None = None,
        max_keys: int = 2**31 - 1,
    ) -> None:
        self.memory = memory
        self.rates = rates or RateMonitor()
        self.costs = costs or CostMonitor()
        empty = np.empty(0, np.int64)
        self.readers = {
            name: Reader(schedule, StalenessLedger(), empty, empty)
            for name, schedule in schedules.items()
        }
        self._main = next(iter(self.readers))
        self._max_keys = max_keys
        self.size = 0
        self.location = empty
        self._holders = empty
        """Per cell: how many readers have not taken the waiting value yet."""
        self.arrived = empty
        self.refused = empty
        self.last_update = empty
        self._scratch = empty
        self.forgotten = Forgotten()
        self._needs_row_rates = any(s.needs_row_rates for s in schedules.values())

    def grow(self, size: int) -> None:
        """Room for the cells 0 to `size` - 1."""
        if size <= len(self.location):
            self.size = max(self.size, size)
            return
        self.size = size
        room = max(size, min(max(16, 2 * len(self.location)), self._max_keys))
        self.location = enlarge(self.location, room, -1)
        self._holders = enlarge(self._holders, room, 0)
        self.arrived = enlarge(self.arrived, room, 0)
        self.refused = enlarge(self.refused, room, 0)
        self.last_update = enlarge(self.last_update, room, NEVER)
        self._scratch = np.empty(room, np.int64)
        self.rates.grow(room)
        for reader in self.readers.values():
            reader.grow(room)

    def __len__(self) -> int:
        """Values that wait for at least one reader."""
        return self.memory.used

    def reader(self, name: str | None = None) -> Reader:
        """A reader by name; by default the first."""
        return self.readers[name or self._main]

    @property
    def main_reader(self) -> str:
        """The name of the first reader."""
        return self._main

    def waiting(self, reader: str | None = None) -> int:
        return self.reader(reader).schedule.waiting

    # ------------------------------------------------------------------------------------ enqueue

    def arrive(self, cells: Ints, times: Ints) -> Arrivals:
        """Add updates; returns the accepted rows, grouped by cell. The newest value of a cell, in
        row `last`, belongs at `location[cell]`."""
        batch = group_by_cell(cells, times, self._scratch)
        homeless = np.flatnonzero(self.location[batch.distinct] < 0)
        found = self.memory.add(len(homeless))
        self.location[batch.distinct[homeless[: len(found)]]] = found
        if len(found) < len(homeless):
            batch = self._refuse(batch, batch.distinct[homeless[len(found) :]])
        self.arrived[batch.distinct] += batch.counts
        self.last_update[batch.distinct] = batch.times[batch.last]
        standing = self._standing(batch)
        for reader in self.readers.values():
            entering = reader.schedule.arrive(batch, standing)
            entered = batch.distinct[entering]
            self._holders[entered] += 1
            reader.ledger.arrive(entered, batch.times[batch.first[entering]])
        return batch

    def arrive_one(self, cell: int, time: int) -> int:
        """As `arrive`, for one update; returns the location of its value, -1 if it is refused."""
        location = int(self.location[cell])
        if location < 0:
            location = self.memory.add_one()
            if location < 0:
                self.refused[cell] += 1
                return -1
            self.location[cell] = location
        self.arrived[cell] += 1
        self.last_update[cell] = time
        rate = self.rates.arrive_one(cell, time)
        for reader in self.readers.values():
            if reader.schedule.arrive_one(cell, time, rate, self.rates.key_count, self.costs.cost):
                self._holders[cell] += 1
                reader.ledger.arrive_one(cell, time)
        return location

    def _standing(self, batch: Arrivals) -> Standing:
        of_rows = self.rates.rates_of_rows(batch) if self._needs_row_rates else None
        rates, key_counts = self.rates.arrive(batch)
        return Standing(rates if of_rows is None else of_rows, key_counts, self.costs.cost)

    def _refuse(self, batch: Arrivals, cells: Ints) -> Arrivals:
        refused = np.isin(batch.distinct, cells)
        self.refused[batch.distinct[refused]] += batch.counts[refused]
        kept = ~refused[batch.group]
        return group_by_cell(batch.cells[kept], batch.times[kept], self._scratch)

    # ------------------------------------------------------------------------------------ dequeue

    def take_one(self, now: int, reader: str | None = None) -> tuple[int, int]:
        """Take the next key; returns its cell and the location of its value, (-1, -1) if none
        waits. The value stays there until the next update arrives."""
        serving = self.reader(reader)
        schedule = serving.schedule
        cell = schedule.next_cell(now)
        if cell < 0:
            return -1, -1
        since = int(schedule.since[cell])
        schedule.remove_next(cell)
        serving.ledger.take_one(cell, since, now)
        serving.taken[cell] += 1
        location = int(self.location[cell])
        holders = int(self._holders[cell]) - 1
        self._holders[cell] = holders
        if not holders:
            self.location[cell] = -1
            self.memory.remove_one(location)
        return cell, location

    def take(self, count: int, now: int, reader: str | None = None) -> tuple[Ints, Ints]:
        """As `count` calls of `take_one` at `now`."""
        serving = self.reader(reader)
        cells = serving.schedule.peek(count, now)
        serving.ledger.take(cells, serving.schedule.since[cells], now)
        serving.schedule.remove(cells)
        serving.taken[cells] += 1
        locations = self.location[cells]
        self._holders[cells] -= 1
        free = self._holders[cells] == 0
        self.location[cells[free]] = -1
        self.memory.remove(locations[free])
        return cells, locations

    def take_cells(self, cells: Ints, now: int, *, delivered: bool) -> None:
        """Take distinct waiting cells out of turn, for all readers; `delivered` says whether their
        results have reached the application."""
        for serving in self.readers.values():
            waiting = cells[serving.schedule.since[cells] != NEVER]
            serving.ledger.take(waiting, serving.schedule.since[waiting], now)
            serving.schedule.remove(waiting)
            serving.taken[waiting] += 1
            if delivered:
                serving.ledger.deliver(waiting, now, serving.schedule.since[waiting])
        held = cells[self.location[cells] >= 0]
        self.memory.remove(self.location[held])
        self.location[held] = -1
        self._holders[held] = 0

    def release(self, cells: Ints) -> None:
        """Remove distinct waiting cells from the line of the only reader as if their updates had
        not arrived; the caller takes over their locations."""
        (serving,) = self.readers.values()
        serving.schedule.remove(cells)
        self.arrived[cells] -= 1
        self.location[cells] = -1
        self._holders[cells] = 0

    def restart_measures(self, now: int) -> None:
        """Begin averages anew at `now`; waiting values keep their arrival times."""
        for serving in self.readers.values():
            serving.ledger.restart(now, serving.schedule.since)

    def read(self, count: int, now: int, reader: str | None = None) -> tuple[Ints, Ints]:
        """The cells and locations of the next keys, which keep waiting."""
        cells = self.reader(reader).schedule.peek(count, now)
        return cells, self.location[cells]

    def deliver_one(self, cell: int, now: int, reader: str | None = None) -> None:
        """Note that the result of the key's oldest value in process reached the application."""
        serving = self.reader(reader)
        serving.ledger.deliver_one(cell, now, int(serving.schedule.since[cell]))

    def deliver(self, cells: Ints, now: int, reader: str | None = None) -> None:
        """As `deliver_one`, for distinct cells."""
        serving = self.reader(reader)
        serving.ledger.deliver(cells, now, serving.schedule.since[cells])

    # ------------------------------------------------------------------------------------ idle keys

    def idle_cells(self) -> Ints:
        """Idle keys, those updated longest ago first."""
        idle = self.location[: self.size] < 0
        for serving in self.readers.values():
            idle &= serving.ledger.idle()[: self.size]
        cells = np.flatnonzero(idle)
        return cells[np.argsort(self.last_update[cells], kind="stable")]

    def forget(self, cells: Ints) -> Ints:
        """Forget idle keys; returns the cells that stay, whose new numbers are 0, 1, ..."""
        stays = np.ones(self.size, np.bool_)
        stays[cells] = False
        kept = np.flatnonzero(stays)
        moved = np.full(len(self.location), -1, np.int64)
        moved[kept] = np.arange(len(kept))
        totals = self.forgotten
        totals.keys += len(cells)
        totals.arrived += int(self.arrived[cells].sum())
        totals.refused += int(self.refused[cells].sum())
        self.rates.keep(kept, int(self.arrived[kept].sum()))
        for name, serving in self.readers.items():
            totals.taken[name] = totals.taken.get(name, 0) + int(serving.taken[cells].sum())
            totals.ahead[name] = totals.ahead.get(name, 0) + int(serving.ahead[cells].sum())
            serving.schedule.keep(kept, moved)
            serving.ledger.keep(kept, moved)
            keep(serving.taken, kept, 0)
            keep(serving.ahead, kept, 0)
        for array, filler in (
            (self.location, -1),
            (self._holders, 0),
            (self.arrived, 0),
            (self.refused, 0),
            (self.last_update, NEVER),
        ):
            keep(array, kept, filler)
        self.size = len(kept)
        return kept

    # ----------------------------------------------------------------------------------- measures

    def conflated(self, reader: str | None = None) -> Ints:
        """Per cell: updates that were replaced by a newer one before this reader took them."""
        serving = self.reader(reader)
        waits = serving.schedule.since != NEVER
        conflated: Ints = self.arrived - serving.ahead - serving.taken - waits
        return conflated

    def application_staleness(self, now: int, reader: str | None = None) -> Ints:
        return self.reader(reader).ledger.application(now)[: self.size]

    def queue_staleness(self, now: int, reader: str | None = None) -> Ints:
        since = self.reader(reader).schedule.since[: self.size]
        return np.where(since == NEVER, 0, now - since)

    def application_area(self, now: int, reader: str | None = None) -> Floats:
        """Per cell, the integral of application staleness up to now."""
        return self.reader(reader).ledger.application_area(now)[: self.size]

    def queue_area(self, now: int, reader: str | None = None) -> Floats:
        serving = self.reader(reader)
        return serving.ledger.queue_area(now, serving.schedule.since)[: self.size]

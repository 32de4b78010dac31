"""The top tier of a merge's index: every live row once, whatever number of inputs has it.

Figure 1 of the document has a tree by start and payload. Here a row has a slot, found by the digest
of its payload and start. A row is unfrozen until the output's CTI passes its start, then half
frozen until it is settled. Unfrozen rows lie in runs sorted by start, so that a CTI cuts a prefix
off each run. The ends of a row in the inputs and in the output are kept by the level, in columns by
slot (two tiers in `keyed`, three in `counted`).

A row that starts after all others is new without a lookup, and other inputs mostly find it by
comparing (`repeated_batches`). So the digests of such rows are made when a row is first looked up
by digest; for rows that are dropped before that, never.

A promise for one group settles rows in the middle of a run. Their places in the run stay, counted
as stale, until the common CTI passes them or half of all places are stale.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.digests import Digests, digest_rows
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.merging.digest_table import DigestTable, grown
from thalweg.operators.merging.payloads import Payloads
from thalweg.operators.merging.slot_ranges import (
    Slots,
    as_slice,
    bytes_of,
    copied,
    count_of,
    joined,
    listed,
    part_of,
    slot_at,
    where,
)

__all__ = ["TopTier"]

_FEW = 64
"""A number of stale places, or of batches without digests, that is not worth a clean-up."""


class TopTier:
    """Live rows by payload and start, and which of them the output's CTI has reached."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.table = DigestTable()
        self.payloads = Payloads(schema)
        self.start: Times = np.zeros(self.table.capacity, np.int64)
        self.alive: Bools = np.zeros(self.table.capacity, np.bool_)
        """By slot: the row is held."""
        self.open: Bools = np.zeros(self.table.capacity, np.bool_)
        """By slot: the row is not settled yet."""
        self._queued: Bools = np.zeros(self.table.capacity, np.bool_)
        """By slot: it has a place in `half` or in a run."""
        self.half: Slots = slice(0, 0)
        """Slots of half frozen rows."""
        self._oldest: int | None = INFINITY
        """The earliest start of a half frozen row; None: not known."""
        self.highest = MIN_TIME
        """No row that was ever added starts later."""
        self._undigested: list[Slots] = []
        """Slots of rows whose digests are still to be made; some of the rows may have been dropped.
        Of more than a few batches, only that there are such rows."""
        self._last_found = 0
        """The last result of `starting_at`: inputs in step look for the same row."""
        self._unfrozen: list[tuple[Times, Slots]] = []
        """Runs of unfrozen rows: starts in order, and their slots."""
        self._stale = 0
        """Places, in `half` and in runs, of rows that are settled ..."""
        self._dead = 0
        """... of which so many have been dropped."""

    def __len__(self) -> int:
        return len(self.table) - self._dead

    @property
    def capacity(self) -> int:
        return self.table.capacity

    @property
    def nbytes(self) -> int:
        """Without `_undigested`, so that the size is the same before and after a restart."""
        runs = sum(start.nbytes + bytes_of(slots) for start, slots in self._unfrozen)
        flags = self.alive.nbytes + self.open.nbytes + self._queued.nbytes
        columns = self.start.nbytes + flags + bytes_of(self.half)
        return self.table.nbytes + self.payloads.nbytes + columns + runs

    def add(self, digests: Digests, rows: Rows, start: Times) -> Codes:
        """Add rows that are not held yet; returns their slots."""
        slots = self.table.add(digests)
        self._put(slots, rows, start)
        self._queue(slots, start)
        return slots

    def add_after_all(self, rows: Rows, start: Times) -> Slots:
        """Add rows that start, in order, after every row that was ever added."""
        slots = as_slice(self.table.reserve(len(start)))
        self._put(slots, rows, start)
        self._queue(slots, start)
        if len(self._undigested) <= _FEW:
            self._undigested.append(slots)
        return slots

    def find(self, digests: Digests) -> Codes:
        """The slot of each digest; -1 where there is none."""
        if self._undigested:
            slots = self._unlinked()
            self._undigested = []
            if len(slots):
                rows, start = self.payloads.take(slots), self.start[slots]
                self.table.link(slots, self.digest(rows, start))
        return self.table.find(digests)

    def digest(self, rows: Rows, start: Times) -> Digests:
        """The digests by which rows are found."""
        return digest_rows([*rows.columns, start], len(start))

    def _unlinked(self) -> Codes:
        """Slots of the held rows without digests, each once."""
        if len(self._undigested) > _FEW:
            return np.flatnonzero(self.alive & ~self.table.linked)
        slots = listed(joined(self._undigested))
        slots = slots[self.alive[slots] & ~self.table.linked[slots]]
        numbers, holder = np.arange(len(slots)), np.empty(self.capacity, np.int64)
        holder[slots] = numbers  # a slot that was handed out again is there twice
        once: Codes = slots[holder[slots] == numbers]
        return once

    def used(self) -> Codes:
        """The slots of all rows, in order."""
        return np.flatnonzero(self.alive)

    def add_settled(self, digests: Digests, rows: Rows, start: Times) -> Codes:
        """Add rows that are settled already, so that no CTI needs to reach them."""
        slots = self.table.add(digests)
        self._put(slots, rows, start)
        self.open[slots] = False
        return slots

    def restore(self, slots: Codes, digests: Digests, rows: Rows, start: Times) -> None:
        """Fill an empty tier with saved rows."""
        self.table.add_at(slots, digests)
        self._put(slots, rows, start)

    def queue(self, slots: Codes) -> None:
        """Queue restored rows for the CTIs to come."""
        self._queue(slots, self.start[slots])

    def _put(self, slots: Slots, rows: Rows, start: Times) -> None:
        self.start = grown(self.start, self.capacity)
        self.alive = grown(self.alive, self.capacity)
        self.open = grown(self.open, self.capacity)
        self._queued = grown(self._queued, self.capacity)
        at = as_slice(slots)
        self.start[at] = start
        self.alive[at] = True
        self.open[at] = True
        self.payloads.add(at, rows)
        self.highest = max(self.highest, int(start.max(initial=MIN_TIME)))

    def _queue(self, slots: Slots, start: Times) -> None:
        if not len(start):
            return
        slots = as_slice(slots)
        self._queued[slots] = True
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, slots = start[order], part_of(slots, order)
        self._unfrozen.append((start, slots))
        self._merge_runs()

    def _merge_runs(self) -> None:
        runs = self._unfrozen
        while len(runs) > 1 and len(runs[-2][0]) < 2 * len(runs[-1][0]):
            later, earlier = runs.pop(), runs.pop()
            start = np.concatenate([earlier[0], later[0]])
            slots = joined([earlier[1], later[1]])
            if int(earlier[0][-1]) > int(later[0][0]):
                order = np.argsort(start, kind="stable")
                start, slots = start[order], part_of(slots, order)
            runs.append((start, slots))

    def reach(self, time: int) -> Slots:
        """Slots of the rows that start before a time: first the half frozen ones, then those that
        become half frozen now. They are `half` from now on; the caller removes settled rows."""
        parts = [self.half]
        kept = []
        for start, slots in self._unfrozen:
            cut = int(np.searchsorted(start, time, side="left"))
            if cut:
                parts.append(part_of(slots, slice(0, cut)))
            # a copy once half of a run is dropped, so that its memory is freed
            if cut < len(start):
                rest = start[cut:], part_of(slots, slice(cut, len(start)))
                kept.append((rest[0].copy(), copied(rest[1])) if 2 * cut > len(start) else rest)
        self._unfrozen = kept
        if len(parts) > 1:
            self.half, self._oldest = joined(parts), None
        if self._stale:
            self.half = self._without_stale(self.half)
        return self.half

    @property
    def oldest(self) -> int:
        """No half frozen row starts earlier."""
        if self._oldest is None:
            self._oldest = int(self.start[self.half].min(initial=INFINITY))
        return self._oldest

    def starting_at(self, time: int) -> int:
        """The slot of a row that starts at a time; -1 if there is none."""
        if self.alive[self._last_found] and self.start[self._last_found] == time:
            return self._last_found
        for start, slots in self._unfrozen:
            at = int(np.searchsorted(start, time))
            if at < len(start) and int(start[at]) == time:
                self._last_found = slot_at(slots, at)
                return self._last_found
        same = self.start[self.half] == time
        if not same.any():
            return -1
        self._last_found = slot_at(self.half, int(np.argmax(same)))
        return self._last_found

    def unfrozen(self) -> Codes:
        """Slots of all rows that the output's CTI has not reached."""
        if not self._unfrozen:
            return np.empty(0, np.int64)
        slots = listed(joined([slots for _, slots in self._unfrozen]))
        return slots[self.open[slots]] if self._stale else slots

    def remove_half(self, final: Bools) -> Slots:
        """Remove settled rows from `half`, where the mask `final` holds; returns their slots."""
        if not final.any():
            return slice(0, 0)
        slots = as_slice(part_of(self.half, where(final)))
        self.half, self._oldest = as_slice(part_of(self.half, where(~final))), None
        self._queued[slots] = False
        self.open[slots] = False
        return slots

    def settle(self, slots: Codes) -> None:
        """Mark rows that a promise for their group has settled, wherever they lie."""
        self.open[slots] = False
        self._stale += len(slots)
        places = count_of(self.half) + sum(len(run[0]) for run in self._unfrozen)
        if 2 * self._stale > places + _FEW:
            self.half = self._without_stale(self.half)
            runs = []
            for start, slots_ in self._unfrozen:
                fresh = self.open[slots_]
                self._leave(part_of(slots_, where(~fresh)))
                runs.append((start[fresh], part_of(slots_, where(fresh))))
            self._unfrozen = [run for run in runs if len(run[0])]

    def _without_stale(self, slots: Slots) -> Slots:
        fresh = self.open[slots]
        if fresh.all():
            return slots
        self._leave(part_of(slots, where(~fresh)))
        return part_of(slots, where(fresh))

    def _leave(self, slots: Slots) -> None:
        self._queued[slots] = False
        self._stale -= count_of(slots)
        dead = listed(slots)[~self.alive[slots]]
        self._dead -= len(dead)
        self.table.free(dead)

    def remove(self, slots: Slots) -> None:
        """Drop settled rows. A slot with a place in a run is freed when the run drops the place."""
        if not count_of(slots):
            return
        slots = as_slice(slots)
        self.alive[slots] = False
        self.payloads.remove(slots)
        linked, queued = self.table.linked[slots], self._queued[slots]
        if linked.any():
            self.table.unlink(listed(part_of(slots, where(linked))))
        self._dead += int(np.count_nonzero(queued))
        self.table.free(part_of(slots, where(~queued)) if queued.any() else slots)

"""Staleness, as integrals that are exact at any moment.

For a key, an update is pending from its arrival until a result that reflects it, or a newer update
of the key, is delivered. With tau the arrival of the oldest pending update:

    application staleness  s(t) = t - tau, or 0 if nothing is pending
    queue staleness        q(t) = t - since, where `since` is the first arrival after the key was
                           last taken out of the queue, or 0 if the key does not wait
    average over [t1, t2]  1 / (t2 - t1) times the integral of s

Both are piecewise linear, so an area is added when a piece ends: ((b - tau)^2 - (a - tau)^2) / 2
for a piece over [a, b]. Times are those of the clock of arrival, never those in the data.

A key may be taken again while its previous value is still being processed. After the first
delivery the oldest pending update is then the first arrival after the first take: it is kept aside
for the key until the second value is delivered.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from thalweg.freshness._arrays import NEVER, Floats, Ints, Mask, enlarge, keep

__all__ = ["StalenessLedger"]


class StalenessLedger:
    """
    >>> ledger = StalenessLedger()
    >>> ledger.grow(1)
    >>> key = np.array([0])
    >>> ledger.arrive(key, np.array([2]))
    >>> ledger.take_one(0, 2, 3)   # waited from 2 to 3
    >>> ledger.arrive_one(0, 4)
    >>> ledger.deliver(key, 6, since=np.array([4]))   # the update of 4 waits
    >>> ledger.application(8), ledger.application_area(8)   # 4*4/2 + (4*4 - 2*2)/2
    (array([4]), array([14.]))
    """

    def __init__(self) -> None:
        self._since = np.empty(0, np.int64)
        """Per cell: the arrival of the oldest pending update ..."""
        self._from = np.empty(0, np.int64)
        """... and the time when it became the oldest pending update."""
        self._area = np.empty(0)
        self._queue_area = np.empty(0)
        self._in_process = np.empty(0, np.int64)
        self._taken_since: dict[int, deque[int]] = {}
        self.longest_wait = 0
        self.forgotten_area = self.forgotten_queue_area = 0.0

    def grow(self, size: int) -> None:
        self._since = enlarge(self._since, size, NEVER)
        self._from = enlarge(self._from, size, NEVER)
        self._area = enlarge(self._area, size, 0)
        self._queue_area = enlarge(self._queue_area, size, 0)
        self._in_process = enlarge(self._in_process, size, 0)

    def arrive(self, cells: Ints, times: Ints) -> None:
        """Note cells that begin to wait, at these times."""
        fresh = self._since[cells] == NEVER
        self._since[cells[fresh]] = times[fresh]
        self._from[cells[fresh]] = times[fresh]

    def arrive_one(self, cell: int, time: int) -> None:
        if self._since[cell] == NEVER:
            self._since[cell] = time
            self._from[cell] = time

    def take(self, cells: Ints, since: Ints, now: int) -> None:
        """Note distinct cells that leave the queue, where they have waited since these times."""
        waited = now - since
        self._queue_area[cells] += 0.5 * waited.astype(np.float64) ** 2
        self.longest_wait = max(self.longest_wait, int(waited.max(initial=0)))
        again = self._in_process[cells] > 0
        self._in_process[cells] += 1
        for at in np.flatnonzero(again).tolist():
            self._taken_since.setdefault(int(cells[at]), deque()).append(int(since[at]))

    def keep_waiting(self, cells: Ints, since: Ints, now: int) -> None:
        """Note that cells just taken still wait, with later rows, since these times."""
        waited = np.where(since == NEVER, 0, now - since).astype(np.float64)
        self._queue_area[cells] -= 0.5 * waited**2

    def take_one(self, cell: int, since: int, now: int) -> None:
        waited = now - since
        self._queue_area[cell] += 0.5 * float(waited) ** 2
        self.longest_wait = max(self.longest_wait, waited)
        if self._in_process[cell] > 0:
            self._taken_since.setdefault(cell, deque()).append(since)
        self._in_process[cell] += 1

    def deliver(self, cells: Ints, now: int, since: Ints) -> None:
        """Note that the results of the oldest values in process of distinct cells are delivered.
        `since` is when each cell began to wait again, NEVER if it does not wait."""
        age = (now - self._since[cells]).astype(np.float64)
        before = (self._from[cells] - self._since[cells]).astype(np.float64)
        self._area[cells] += 0.5 * (age**2 - before**2)
        self._in_process[cells] -= 1
        since = since.copy()
        for at in np.flatnonzero(self._in_process[cells] > 0).tolist():
            cell = int(cells[at])
            waiting = self._taken_since[cell]
            since[at] = waiting.popleft()
            if not waiting:
                del self._taken_since[cell]
        self._since[cells] = since
        self._from[cells] = np.where(since == NEVER, NEVER, now)

    def deliver_one(self, cell: int, now: int, since: int) -> None:
        begin = int(self._since[cell])
        self._area[cell] += 0.5 * (
            float(now - begin) ** 2 - float(int(self._from[cell]) - begin) ** 2
        )
        self._in_process[cell] -= 1
        if self._in_process[cell] > 0:
            waiting = self._taken_since[cell]
            since = waiting.popleft()
            if not waiting:
                del self._taken_since[cell]
        self._since[cell] = since
        self._from[cell] = NEVER if since == NEVER else now

    def idle(self) -> Mask:
        """The cells of which nothing is pending and nothing in process."""
        idle: Mask = (self._since == NEVER) & (self._in_process == 0)
        return idle

    def keep(self, kept: Ints, moved: Ints) -> None:
        """Forget all cells but these, which get new numbers; the areas of the others are added up
        in `forgotten_area` and `forgotten_queue_area`."""
        area, waited = float(self._area.sum()), float(self._queue_area.sum())
        for array, filler in (
            (self._since, NEVER),
            (self._from, NEVER),
            (self._area, 0),
            (self._queue_area, 0),
            (self._in_process, 0),
        ):
            keep(array, kept, filler)
        self.forgotten_area += area - float(self._area.sum())
        self.forgotten_queue_area += waited - float(self._queue_area.sum())
        self._taken_since = {int(moved[cell]): times for cell, times in self._taken_since.items()}

    def restart(self, now: int, since: Ints) -> None:
        """Begin all areas anew at `now`; `since` as in the schedule."""
        self._area[:] = 0
        self.forgotten_area = self.forgotten_queue_area = 0.0
        self._from[self._since != NEVER] = now
        self._queue_area = np.zeros_like(self._queue_area)
        self._queue_area = -self.queue_area(now, since)
        self.longest_wait = 0

    def withdraw_one(self, cell: int) -> None:
        """Note that the taken value will not be delivered; the key stays as stale as it is."""
        self._in_process[cell] -= 1

    def application(self, now: int) -> Ints:
        """Application staleness of each cell."""
        return np.where(self._since == NEVER, 0, now - self._since)

    def application_area(self, now: int) -> Floats:
        """The integral of application staleness of each cell, up to now."""
        age = self.application(now).astype(np.float64)
        before = np.where(self._since == NEVER, 0, self._from - self._since).astype(np.float64)
        return self._area + 0.5 * (age**2 - before**2)

    def queue_area(self, now: int, since: Ints) -> Floats:
        """The integral of queue staleness of each cell; `since` as in the schedule."""
        waited = np.where(since == NEVER, 0, now - since).astype(np.float64)
        return self._queue_area + 0.5 * waited**2

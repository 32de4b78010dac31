"""The traditional queue, and random load shedding on it: every update that is kept is served in
order of arrival.

A result is as stale as the oldest update that it, and what was delivered before it, do not reflect.
So an update that was shed keeps its key stale until a later update of the key is delivered.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from thalweg.freshness._arrays import Floats, Ints

__all__ = ["AppendQueue", "SheddingQueue"]


class AppendQueue:
    """Has the interface of `KeyQueue` that a simulation needs; counts rows in Python objects."""

    def __init__(self, keys: int) -> None:
        self._line: deque[tuple[int, int]] = deque()
        self._arrivals: list[list[int]] = [[] for _ in range(keys)]
        self._in_process: list[deque[int]] = [deque() for _ in range(keys)]
        self._delivered = [-1] * keys
        self._from = [0] * keys
        self._area = [0.0] * keys

    def __len__(self) -> int:
        return len(self._line)

    def arrive(self, cells: Ints, times: Ints) -> None:
        for cell, time in zip(cells.tolist(), times.tolist(), strict=True):
            self.arrive_one(cell, time)

    def arrive_one(self, cell: int, time: int) -> None:
        self._arrivals[cell].append(time)
        if self.keeps():
            self._line.append((cell, len(self._arrivals[cell]) - 1))

    def keeps(self) -> bool:
        return True

    def take_one(self, now: int) -> tuple[int, int]:
        if not self._line:
            return -1, -1
        cell, number = self._line.popleft()
        self._in_process[cell].append(number)
        return cell, number

    def deliver_one(self, cell: int, now: int) -> None:
        self._integrate(cell, now)
        self._delivered[cell] = self._in_process[cell].popleft()
        self._from[cell] = now

    def _integrate(self, cell: int, now: int) -> None:
        begin = self._pending_since(cell)
        if begin is not None:
            age, before = now - begin, max(self._from[cell] - begin, 0)
            self._area[cell] += 0.5 * (age**2 - before**2)

    def _pending_since(self, cell: int) -> int | None:
        following = self._delivered[cell] + 1
        return self._arrivals[cell][following] if following < len(self._arrivals[cell]) else None

    def application_area(self, now: int) -> Floats:
        for cell in range(len(self._area)):
            self._integrate(cell, now)
            self._from[cell] = now
        return np.array(self._area)

    def queue_staleness(self, now: int) -> Ints:
        """How long the oldest update of each key that is in line has waited."""
        oldest: dict[int, int] = {}
        for cell, number in self._line:
            oldest.setdefault(cell, self._arrivals[cell][number])
        return np.array([now - oldest.get(c, now) for c in range(len(self._arrivals))])


class SheddingQueue(AppendQueue):
    """Each update is kept with a probability: the share of the arriving load that can be served."""

    def __init__(self, keys: int, keep: float, random: np.random.Generator) -> None:
        super().__init__(keys)
        self._keep = keep
        self._random = random

    def keeps(self) -> bool:
        return bool(self._random.random() < self._keep)

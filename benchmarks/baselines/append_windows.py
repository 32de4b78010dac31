"""Windows without update semantics: every window is answered, or a random share of them.

Rows are processed in order of arrival, for each open window once: with windows that overlap, a row
costs as many times as windows contain it. Random window shedding keeps each window with a given
probability; a row that no kept window contains costs nothing.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from thalweg.freshness._arrays import Floats
from thalweg.freshness.window_marks import UPDATE, UpdateWindow
from thalweg.freshness.window_queue import Step

__all__ = ["AppendWindows"]


class AppendWindows:
    def __init__(
        self, window: UpdateWindow, keys: int, keep: float, random: np.random.Generator
    ) -> None:
        self._window = window
        self._keep = keep
        self._random = random
        self._line: deque[tuple[int, int, int, int, bool]] = deque()
        """Work in order: key, window, row time, number, whether the row is the window's last."""
        self._kept: list[dict[int, bool]] = [{} for _ in range(keys)]
        self._began: list[int | None] = [None] * keys
        self._closed: list[list[tuple[int, int]]] = [[] for _ in range(keys)]
        """Of each key, (window, time it closed), in order."""
        self._answered: list[deque[int]] = [deque() for _ in range(keys)]
        self._pending = [0] * keys
        """Of each key, the first entry of `_closed` that no answer reflects."""
        self._from = [0] * keys
        self._area = [0.0] * keys

    def arrive_one(self, cell: int, time: int, now: int, number: int) -> None:
        """Times of a key must have no gaps, as in the experiment."""
        window = self._window
        newest = window.newest_start(time)
        if self._began[cell] is None:
            self._began[cell] = newest
        began = self._began[cell]
        assert began is not None
        first = max(began, window.newest_closed(time - 1) + window.slide)
        kept = self._kept[cell]
        for start in range(first, newest + 1, window.slide):
            if start not in kept:
                kept[start] = bool(self._random.random() < self._keep)
            closes = window.last_tick(start) == time
            if kept[start]:
                self._line.append((cell, start, time, number, closes))
            if closes:
                self._closed[cell].append((start, now))
                del kept[start]

    def next_step(self, now: int) -> Step | None:
        if not self._line:
            return None
        cell, start, time, number, closes = self._line.popleft()
        if closes:
            self._answered[cell].append(start)
        return Step(cell, start, 0, number, time, UPDATE, closes)

    def deliver_one(self, cell: int, now: int) -> None:
        self._integrate(cell, now)
        window = self._answered[cell].popleft()
        closed = self._closed[cell]
        while self._pending[cell] < len(closed) and closed[self._pending[cell]][0] <= window:
            self._pending[cell] += 1
        self._from[cell] = now

    def _integrate(self, cell: int, now: int) -> None:
        if self._pending[cell] < len(self._closed[cell]):
            since = self._closed[cell][self._pending[cell]][1]
            self._area[cell] += 0.5 * ((now - since) ** 2 - max(self._from[cell] - since, 0) ** 2)
        self._from[cell] = now

    def application_area(self, now: int) -> Floats:
        for cell in range(len(self._area)):
            self._integrate(cell, now)
        return np.array(self._area)

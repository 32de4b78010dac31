"""Slide-by-tuple windows: the range is a span of time, the slide a number of tuples.

    windows(T)    = {t.ts : t in T, every n-th}      by arrival: n divides its number;
                                                     by time: n divides its rank
    extent(w, T)  = {u : w - r < u.ts <= w}
    wids(t, T)    = {w in windows(T) : t.ts <= w < t.ts + r}

A window is named by the time of the tuple at which it ends. Tuples of equal time make one window:
it is there when any of them is an n-th one. Which windows a tuple belongs to depends on tuples that
come after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thalweg.model.clocks import lasting
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import Times
from thalweg.windows.framework import Membership, Tuples, WindowIds, WindowKind
from thalweg.windows.sliding import expand

__all__ = ["SlideByTuple"]


@dataclass(frozen=True)
class SlideByTuple(WindowKind):
    """The last `range` ticks, answered at every `every`-th tuple."""

    context: ClassVar[frozenset[str]] = frozenset({"forward"})
    strategies = ("rows", "bins")
    firm_ends = True

    range: int
    every: int = 1
    ranked: bool = False
    """Every n-th by time instead of by arrival."""

    def __str__(self) -> str:
        slide = (
            "tuple"
            if self.every == 1
            else f"{self.every} tuples over {'rank(ts)' if self.ranked else 'rows'}"
        )
        return f"slide by {slide}({lasting(self.range)} over ts)"

    @property
    def length(self) -> int:
        return self.range

    @property
    def by_number(self) -> bool:
        return self.every > 1 and not self.ranked

    @property
    def reach(self) -> int | None:
        """None with ranks: any earlier row may change which tuples are every n-th one by time."""
        return None if self.ranked and self.every > 1 else self.range

    def chosen(self, tuples: Tuples) -> Bools:
        """The tuples at which a window ends."""
        if self.every == 1:
            return np.ones(len(tuples), np.bool_)
        number = tuples.number
        if self.ranked:
            order = np.lexsort((tuples.number, tuples.ts, tuples.partition))
            partition = tuples.partition[order]
            number = np.empty(len(order), np.int64)
            number[order] = (
                np.arange(len(order)) - np.searchsorted(partition, partition, side="left") + 1
            )
        chosen: Bools = number % self.every == 0
        return chosen

    def windows(self, tuples: Tuples) -> WindowIds:
        ends = self.chosen(tuples)
        found = np.unique(np.stack([tuples.partition[ends], tuples.ts[ends]]), axis=1)
        return WindowIds(found[1], found[0])

    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        inside: Bools = (
            (tuples.partition == partition)
            & (window - self.range < tuples.ts)
            & (tuples.ts <= window)
        )
        return inside

    def wids(self, tuples: Tuples) -> Membership:
        ids = self.windows(tuples)
        members, windows = [], []
        for partition in np.unique(ids.partition).tolist():
            ends = ids.number[ids.partition == partition]
            rows = np.flatnonzero(tuples.partition == partition)
            first = np.searchsorted(ends, tuples.ts[rows], side="left")
            found = expand(first, np.searchsorted(ends, tuples.ts[rows] + self.range, side="left"))
            members.append(rows[found.member])
            windows.append(ends[found.window])
        nothing = [np.empty(0, np.int64)]
        return Membership(np.concatenate(members or nothing), np.concatenate(windows or nothing))

    def time_range(self, windows: Codes) -> tuple[Times, Times]:
        return windows - self.range + 1, windows + 1

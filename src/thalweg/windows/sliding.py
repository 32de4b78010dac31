"""Windows that slide: over time, over row numbers, per partition, or growing from a landmark.

With the range r, the slide s and the origin o (the start point of the query, or the smallest value
of all tuples):

    sliding       extent(w) = {t : o + (w + 1) s - r <= t.a < o + (w + 1) s}
                  wids(t)   = {w >= 0 : floor((t.a - o) / s) <= w <= floor((t.a + r - o) / s) - 1}
    partitioned   the same for each partition alone, a being the rank of the tuple in its partition
    landmark      extent(w) = {t : t.a < o + (w + 1) s}

The first windows are partial: they begin before the origin, and what there is from the origin on
belongs to them. The formula for `wids` follows from the one for `extent`: t.a < o + (w + 1) s means
w >= floor((t.a - o) / s), and o + (w + 1) s - r <= t.a means w <= floor((t.a - o + r) / s) - 1.
(Written with ceilings, as it often is, it is off by one for tuples that lie exactly on an edge.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from thalweg.errors import PlanError
from thalweg.model.clocks import lasting
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import Times
from thalweg.windows.framework import DecidedBy, Membership, Tuples, WindowIds, WindowKind

__all__ = ["LandmarkTime", "SlidingRows", "SlidingTime", "expand"]


def expand(first: Codes, beyond: Codes) -> Membership:
    """Every window of [first, beyond), for each tuple."""
    length = np.maximum(beyond - first, 0)
    member = np.repeat(np.arange(len(first)), length)
    return Membership(
        member,
        first[member] + np.arange(len(member)) - np.repeat(np.cumsum(length) - length, length),
    )


def _upto(last: int) -> WindowIds:
    return WindowIds.of(np.arange(last + 1))


@dataclass(frozen=True)
class SlidingTime(WindowKind):
    """Windows of `range` ticks of time, a new one every `slide`. Without an origin they begin with
    the first tuple of all."""

    context = frozenset()
    firm_ends = True

    range: int
    slide: int
    origin: int | None = 0

    def __str__(self) -> str:
        since = "the first tuple" if self.origin is None else str(self.origin)
        return f"sliding({lasting(self.range)} by {lasting(self.slide)} over ts, from {since})"

    @property
    def longest(self) -> int:
        return self.range

    @property
    def length(self) -> int:
        return self.range

    @property
    def decided_by(self) -> DecidedBy:
        return "stream" if self.origin is None else "tuple"

    @property
    def reach(self) -> int | None:
        return None if self.origin is None else self.range

    def of_groups(self) -> WindowKind:
        if self.origin is None:
            raise PlanError(
                "group_apply: windows that begin with the first row cannot differ from group to "
                "group; give origin=."
            )
        return self

    def anchor(self, tuples: Tuples) -> int:
        return self.origin if self.origin is not None else int(tuples.ts.min(initial=2**62))

    def bounds(self, tuples: Tuples) -> tuple[Codes, Codes]:
        """The first window of each tuple, and the first after it that it does not belong to."""
        since = tuples.ts - self.anchor(tuples)
        return np.maximum(since // self.slide, 0), np.maximum((since + self.range) // self.slide, 0)

    def windows(self, tuples: Tuples) -> WindowIds:
        return _upto(int(self.bounds(tuples)[1].max(initial=0)) - 1)

    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        end = self.anchor(tuples) + (window + 1) * self.slide
        return (end - self.range <= tuples.ts) & (tuples.ts < end)

    def wids(self, tuples: Tuples) -> Membership:
        return expand(*self.bounds(tuples))

    def time_range(self, windows: Codes) -> tuple[Times, Times]:
        if self.origin is None:
            return super().time_range(windows)
        end = self.origin + (windows + 1) * self.slide
        return end - self.range, end


@dataclass(frozen=True)
class LandmarkTime(WindowKind):
    """Windows that all begin at the origin and grow by `slide`: everything so far."""

    context = frozenset()
    firm_ends = False
    is_bounded = False
    reach = None

    slide: int
    origin: int = 0

    def __str__(self) -> str:
        return f"landmark(all by {lasting(self.slide)} over ts, from {self.origin})"

    def windows(self, tuples: Tuples) -> WindowIds:
        return _upto(int(((tuples.ts - self.origin) // self.slide).max(initial=-1)))

    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        return tuples.ts < self.origin + (window + 1) * self.slide

    def wids(self, tuples: Tuples) -> Membership:
        first = np.maximum((tuples.ts - self.origin) // self.slide, 0)
        return expand(first, np.full(len(tuples), len(self.windows(tuples))))

    def time_range(self, windows: Codes) -> tuple[Times, Times]:
        return np.full(len(windows), self.origin), self.origin + (windows + 1) * self.slide


@dataclass(frozen=True)
class SlidingRows(WindowKind):
    """Windows of the last `range` tuples (None: of all so far), a new one every `slide` tuples, in
    the order of their numbers.

    Where tuples have partitions, each has windows of its own. The number of a tuple in its
    partition follows from the rows before it; its rank by time also from later ones.
    """

    decided_by = "partition"
    firm_ends = True
    length = 1
    reach = None

    range: int | None
    slide: int
    ranked: bool = False
    partitioned: bool = False

    def __str__(self) -> str:
        order = "rank(ts)" if self.ranked else "rows"
        size = (
            f"landmark(all by {self.slide}"
            if self.range is None
            else f"sliding({self.range} by {self.slide}"
        )
        return f"{size} over {order}{', per partition' if self.partitioned else ''})"

    @property
    def context(self) -> frozenset[str]:  # type: ignore[override]
        if self.ranked:
            return frozenset({"backward", "forward"})
        return frozenset({"backward"}) if self.partitioned else frozenset()

    @property
    def is_bounded(self) -> bool:
        return self.range is not None

    @property
    def by_number(self) -> bool:
        return not self.ranked

    @property
    def orders_by_all(self) -> bool:
        return self.ranked

    @property
    def remark(self) -> str | None:
        if self.partitioned and not self.ranked:
            return "the number of rows so far is kept for each partition"
        return super().remark

    def of_groups(self) -> SlidingRows:
        return replace(self, partitioned=True)

    def positions(self, tuples: Tuples) -> Codes:
        """The number of each tuple in its partition: as it arrived, or by time (ties as they
        arrived)."""
        order = np.lexsort(
            (tuples.number, tuples.ts if self.ranked else tuples.number, tuples.partition)
        )
        partition = tuples.partition[order]
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.searchsorted(partition, partition, side="left") + 1
        return rank

    def bounds(self, tuples: Tuples) -> tuple[Codes, Codes]:
        """The first window of each tuple, and the first after it that it does not belong to."""
        at = self.positions(tuples) - 1
        if self.range is not None:
            return at // self.slide, (at + self.range) // self.slide
        _, inverse, sizes = np.unique(tuples.partition, return_inverse=True, return_counts=True)
        return at // self.slide, sizes[inverse] // self.slide

    def windows(self, tuples: Tuples) -> WindowIds:
        _, inverse = np.unique(tuples.partition, return_inverse=True)
        beyond = np.zeros(int(inverse.max(initial=-1)) + 1, np.int64)
        np.maximum.at(beyond, inverse, self.bounds(tuples)[1])
        found = expand(np.zeros(len(beyond), np.int64), beyond)
        return WindowIds(found.window, np.unique(tuples.partition)[found.member])

    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        rank = self.positions(tuples)
        end = 1 + (window + 1) * self.slide
        since = 1 if self.range is None else end - self.range
        inside: Bools = (tuples.partition == partition) & (since <= rank) & (rank < end)
        return inside

    def wids(self, tuples: Tuples) -> Membership:
        return expand(*self.bounds(tuples))

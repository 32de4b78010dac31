"""The window kinds of the temporal core.

    snapshot           [a, b) for each pair of consecutive endpoints of the group's events: nothing
                       changes inside
    hopping(S, H)      [k*H + offset, k*H + offset + S) for every integer k; tumbling when S == H
    session(gap)       [first start, last start + gap) of each maximal run of events whose starts
                       are less than `gap` apart

Membership is by overlap: an event [s, e) belongs to [a, b) when s < b and a < e. A session's
membership is by start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from thalweg.errors import WindowError
from thalweg.model.clocks import lasting
from thalweg.model.time import Duration, duration_us
from thalweg.windows.window import Window

__all__ = [
    "HoppingWindow",
    "SessionWindow",
    "SnapshotWindow",
    "hopping",
    "positive_ticks",
    "session",
]

_MOST_WINDOWS = 10_000_000
"""Windows that one row may belong to."""


@dataclass(frozen=True, slots=True)
class SnapshotWindow(Window):
    grid = None
    instant = None
    firm_ends = False
    closes_by_group = True
    only_cut = True
    no_aggregates = no_top_k = no_time_bound = None

    def __str__(self) -> str:
        return "snapshot"


@dataclass(frozen=True, slots=True)
class HoppingWindow(Window):
    """Windows of `size` that begin every `hop`, the first at `offset`."""

    instant = None
    firm_ends = True
    closes_by_group = True
    only_cut = False
    no_aggregates = no_top_k = no_time_bound = None

    size: int
    hop: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size // self.hop > _MOST_WINDOWS:
            raise WindowError(
                f"{self}: a row would belong to {self.size // self.hop:,} windows, each with an "
                f"answer of its own; at most {_MOST_WINDOWS:,} are possible. Take a larger hop, or "
                "slide_by_tuple for an answer at every row."
            )

    @property
    def grid(self) -> HoppingWindow:
        return self

    @property
    def origin(self) -> int:
        """Where windows are counted from, less than a hop from zero: window w ends a hop times w +
        1 after it, as those of `SlidingTime` do."""
        return (self.offset + self.size) % self.hop

    @property
    def pane(self) -> int:
        """The largest span that never crosses a window edge."""
        return math.gcd(self.size, self.hop)

    def __str__(self) -> str:
        return (
            f"tumbling({lasting(self.size)})"
            if self.size == self.hop
            else f"hopping({lasting(self.size)} by {lasting(self.hop)})"
        )


@dataclass(frozen=True, slots=True)
class SessionWindow(Window):
    """Runs of activity: a new event within `gap` of the last start continues the session."""

    grid = None
    instant = "start"
    firm_ends = True
    closes_by_group = False
    only_cut = False
    no_aggregates = None
    no_top_k = "sessions have no top-k; use a snapshot, tumbling or hopping window."
    no_time_bound = "a session's span changes as a whole; time-bound output needs other windows."

    gap: int

    def __str__(self) -> str:
        return f"session(gap {lasting(self.gap)})"


def positive_ticks(value: Duration, what: str) -> int:
    """A duration that must be at least one tick."""
    ticks = duration_us(value, what=what)
    if ticks <= 0:
        raise WindowError(f"{what} must be positive; got {value!r}.")
    return ticks


def hopping(size: Duration, hop: Duration, offset: Duration = 0) -> HoppingWindow:
    """
    >>> str(hopping("10 min", "1 min"))
    'hopping(600000000 by 60000000)'
    """
    return HoppingWindow(
        positive_ticks(size, "window size"),
        positive_ticks(hop, "window hop"),
        duration_us(offset, what="window offset"),
    )


def session(gap: Duration) -> SessionWindow:
    return SessionWindow(positive_ticks(gap, "session gap"))

"""When a source last had rows, by the clock, and what the clock lets it promise.

A timer promises after a silence (`Timer`), a request at any time (`OnDemand`). In-process the
engine sets the clock; on Spark a ticker does, in chunks that are replayed with their micro-batch.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from thalweg.model.clocks import Clock, shown_duration, shown_time
from thalweg.model.time import MIN_TIME
from thalweg.progress.admission import Ingress

__all__ = ["SourceClock", "wall_clock"]


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class SourceClock:
    """The clock of one source. Immutable: every change gives another one.

    >>> from thalweg.progress.policies import Timer
    >>> ingress = Ingress(progress=(Timer(behind=2, every=5, lull=10),))
    >>> silent = SourceClock(ingress).at(100).started()
    >>> silent.at(109).timer_fires, silent.at(110).timer_fires, silent.at(110).timer_promise
    (False, True, 108)
    """

    policy: Ingress
    now: int | None = None
    """The time by the clock, as it was last set."""
    rows_at: int | None = None
    """The time when rows last came, or the query started."""
    fired_at: int | None = None
    """The time when the timer last went off."""

    def at(self, now: int | None) -> SourceClock:
        """The same source at this time."""
        return replace(self, now=now)

    def started(self) -> SourceClock:
        """The query has started: silence is counted from now, if it was not yet."""
        return self if self.rows_at is not None else replace(self, rows_at=self.now)

    def after_rows(self) -> SourceClock:
        """Rows came: a silence has ended."""
        return replace(self, rows_at=self.now)

    def after_timer(self) -> SourceClock:
        """The timer went off."""
        return replace(self, fired_at=self.now)

    @property
    def timer_fires(self) -> bool:
        """Whether the timer fires now."""
        timer = self.policy.timer
        if timer is None or self.now is None or self.rows_at is None:
            return False
        silent = self.now - self.rows_at >= timer.lull
        return silent and (self.fired_at is None or self.now - self.fired_at >= timer.every)

    @property
    def timer_promise(self) -> int:
        """The promise that the source makes when its timer fires."""
        timer = self.policy.timer
        return MIN_TIME if timer is None or self.now is None else self.now - timer.behind

    @property
    def promise_on_demand(self) -> int:
        """The promise that the source makes on demand: the clock minus `behind`."""
        on_demand = self.policy.on_demand
        return MIN_TIME if on_demand is None or self.now is None else self.now - on_demand.behind

    def needed(self, time: int, clock: Clock = None) -> list[str]:
        """The clock time that a promise of `time` needs, as one sentence for each policy."""
        ways = []
        timer, on_demand = self.policy.timer, self.policy.on_demand
        if timer is not None:
            silence = shown_duration(timer.lull, clock)
            at = shown_time(time + timer.behind, clock)
            ways.append(f"the clock at {at}, after a silence of {silence}")
        if on_demand is not None:
            ways.append(f"the clock at {shown_time(time + on_demand.behind, clock)}")
        return ways

    def to_json(self) -> list[int | None]:
        return [self.now, self.rows_at, self.fired_at]

    def from_json(self, times: list[int | None]) -> SourceClock:
        return SourceClock(self.policy, *times)

"""What a source promises by its policies, from its rows and by the clock.

    promise = the latest of: CTIs in the data, what the rows show (`ObservedRows`), the timer after
    a silence, and the clock on demand (`SourceClock`)

The same for a source whose rows are seen one by one (in-process) and for one that is known by
summaries of its rows (on shards). Promises are rounded down to a grid before they are passed on
(`grids`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from thalweg.model.clocks import Clock, shown_time
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.progress.admission import Ingress
from thalweg.progress.observed_rows import ObservedRows
from thalweg.progress.source_clock import SourceClock

__all__ = ["FIRST_PROMISE", "SourceProgress"]

FIRST_PROMISE = MIN_TIME // 2
"""A wait for a time before this is a wait for any promise at all."""
_ONLY_TIMELINE: Mapping[Any, str] = {None: ""}


@dataclass(slots=True)
class SourceProgress:
    """
    >>> from thalweg.progress.policies import Timer
    >>> source = SourceProgress.of("s", Ingress(disorder=5, progress=(Timer(2, every=5, lull=10),)))
    >>> source.rows = source.rows.after_rows(40)
    >>> source.needed(50)[0]
    'a row at 55 or later (the newest is 40, disorder 5)'
    >>> source.set_clock(100)
    >>> source.promise_by_timer(), source.set_clock(110), source.promise_by_timer()
    (-4611686018427387904, None, 108)
    """

    name: str
    policy: Ingress
    rows: ObservedRows
    clock: SourceClock
    since: int | None = None
    """When, by the clock, the promise to all rows last moved."""

    @classmethod
    def of(cls, name: str, policy: Ingress) -> SourceProgress:
        """Of a source that has shown nothing yet."""
        return cls(name, policy, ObservedRows(policy), SourceClock(policy))

    def copy(self) -> SourceProgress:
        """The same progress, for a batch that may be refused."""
        return replace(self)

    # --------------------------------------------------------------------------------------------
    # clock

    def set_clock(self, now: int) -> None:
        """Set the time by the clock."""
        self.clock = self.clock.at(now)

    def promise_by_timer(self) -> int:
        """The promise of the timer, if it fires now; else `MIN_TIME`."""
        self.clock = self.clock.started()
        if not self.clock.timer_fires:
            return MIN_TIME
        self.clock = self.clock.after_timer()
        return self.clock.timer_promise

    # --------------------------------------------------------------------------------------------
    # explanations

    def needed(
        self, time: int, timelines: Mapping[Any, str] = _ONLY_TIMELINE, clock: Clock = None
    ) -> list[str]:
        """What would bring the promise to a time: one way for each policy, and what always does.
        `timelines` are those whose rows would help, each with what names it in a sentence."""
        if time == INFINITY:
            return ["the end of the source"]
        if time < FIRST_PROMISE:  # nothing was promised yet, so that any promise is a beginning
            rows = ["its first rows"] if self.policy.observes else []
            return [*rows, "a CTI in the data", "the end of the source"]
        ways = [
            f"{way}{name}"
            for timeline, name in timelines.items()
            for way in self.rows.needed(time, timeline, clock)
        ]
        ways += self.clock.needed(time, clock)
        cti = f"a CTI at {shown_time(time, clock)} or later in the data"
        return [*ways, cti, "the end of the source"]

    def warnings(self, name_of: Callable[[Any], str]) -> dict[Any, str]:
        """Estimates that reality has broken, by timeline; `name_of` names one in a sentence."""
        return {
            timeline: f"source {self.name!r}{name_of(timeline)}: {reason}"
            for timeline, reason in self.rows.broken_estimates().items()
        }

    # --------------------------------------------------------------------------------------------
    # state

    def to_json(self) -> list[Any]:
        return [self.rows.to_json(), self.clock.to_json(), self.since]

    def restored(self, state: list[Any]) -> SourceProgress:
        """The inverse of `to_json`."""
        rows, clock, since = state
        return replace(
            self, rows=self.rows.from_json(rows), clock=self.clock.from_json(clock), since=since
        )

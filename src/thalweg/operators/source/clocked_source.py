"""The clock of a source: its timer, what it promises when it is asked, and reports of its
promises."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from thalweg.errors import (
    EstimateWarning,
)
from thalweg.model.batch import Batch
from thalweg.model.progress import (
    NO_PROGRESS,
    Progress,
)
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import (
    Operator,
)
from thalweg.plan.nodes import Source
from thalweg.progress.source_clock import SourceClock
from thalweg.progress.source_progress import (
    SourceProgress,
    roll_down,
    ways_to_promise,
)

__all__ = ["ClockedSource"]


class ClockedSource(Operator):
    """A source with its policies, its clock and what it has promised so far."""

    def __init__(self, node: Source) -> None:
        self.schema = node.schema
        self._name, self._policy, self._clock = node.name, node.ingress, node.clock
        self._progress = NO_PROGRESS
        self._observed = SourceProgress(node.ingress)
        self._grid = None if node.ingress.period is None else (node.ingress.period, 0)
        self._source_clock = SourceClock(node.ingress)
        self._promised_at: int | None = None
        self.warnings: dict[Any, str] = {}

    def use_grid(self, grid: tuple[int, int] | None) -> None:
        """Round promises that follow from the rows down to this grid, unless the source has a
        period of its own."""
        if self._policy.period is None:
            self._grid = grid

    @property
    def observes(self) -> bool:
        """Whether promises follow from the rows."""
        return self._policy.observes

    @property
    def promised(self) -> int:
        """The time before which a row is late: the CTI of the source, or what follows from the rows
        seen, which may not have been passed on yet."""
        return max(self._progress.cti, self._observed.observed)

    @property
    def progress(self) -> Progress:
        """What the source has promised."""
        return self._progress

    @property
    def since(self) -> int | None:
        """When, by the clock, the common promise last moved."""
        return self._promised_at

    @property
    def now(self) -> int | None:
        """The time by the clock, set by whoever runs the kernel."""
        return self._source_clock.now

    @now.setter
    def now(self, time: int) -> None:
        self._source_clock = self._source_clock.at(time)

    def fire_timer(self, now: int) -> Batch | None:
        """The promise of the source's timer, if it goes off now and the promise is new."""
        self._source_clock = self._source_clock.at(now).started()
        if not self._source_clock.timer_fires:
            return None
        self._source_clock = self._source_clock.after_timer()
        return self._new_promise(self._source_clock.timer_promise)

    def timer_fires(self, now: int) -> bool:
        """Whether the timer of the source would go off now."""
        return self._source_clock.at(now).timer_fires

    @property
    def answers_when_asked(self) -> bool:
        return self._policy.on_demand is not None

    @property
    def answers_behind(self) -> int | None:
        """How far behind the clock the source answers when it is asked; None: it does not."""
        asked = self._policy.on_demand
        return None if asked is None else asked.behind

    def demand(self, now: int) -> Batch | None:
        """What the source promises when it is asked, if the promise is new."""
        self.now = now
        if self._policy.on_demand is None:
            return None
        return self._new_promise(self._source_clock.promise_on_demand)

    def _new_promise(self, time: int) -> Batch | None:
        promise = roll_down(time, self._grid)
        if promise <= MIN_TIME or promise <= self._progress.cti:
            return None
        return Batch.empty(self.schema, Progress(promise))

    def needed(self, time: int, group: Mapping[str, Any] | None = None) -> list[str]:
        """What would bring the promise to a time: one way for each policy, and what always does."""
        clock = self._clock
        key = (
            None
            if self._policy.partition is None or group is None
            else group.get(self._policy.partition)
        )
        by_rows = self._policy.partition is None or group is not None

        def by_policy() -> list[str]:
            ways = self._observed.needed(time, key, clock) if by_rows else []
            return ways + self._source_clock.needed(time, clock)

        return ways_to_promise(time, by_policy, self._policy, clock)

    def _warn(self) -> None:
        for key, reason in self._observed.broken_estimates().items():
            if key in self.warnings:
                continue
            where = (
                f"source {self._name!r}"
                if self._policy.partition is None
                else f"source {self._name!r}, {self._policy.partition}={key!r}"
            )
            self.warnings[key] = f"{where}: {reason}"
            warnings.warn(EstimateWarning(self.warnings[key]), stacklevel=2)

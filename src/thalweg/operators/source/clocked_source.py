"""A source with its policies, its clock and its promises to all rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from thalweg.errors import EstimateWarning
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Operator
from thalweg.plan.nodes import Source
from thalweg.progress.grids import Grid, roll_down
from thalweg.progress.source_progress import SourceProgress

__all__ = ["ClockedSource"]


class ClockedSource(Operator):
    """A source with its policies, its clock and what it has promised so far."""

    def __init__(self, node: Source) -> None:
        self.schema = node.schema
        self._name, self._policy, self._clock = node.name, node.ingress, node.clock
        self._progress = NO_PROGRESS
        self._source = SourceProgress.of(node.name, node.ingress)
        self._grid = None if node.ingress.period is None else (node.ingress.period, 0)
        self.late_before = MIN_TIME
        """Rows before this are late, whatever this kernel has promised: on shards promises follow
        from rows that it does not see, and come to it rounded down."""
        self._warned: set[Any] = set()

    def use_grid(self, grid: Grid | None) -> None:
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
        return max(self._progress.cti, self._source.rows.observed, self.late_before)

    @property
    def progress(self) -> Progress:
        """What the source has promised."""
        return self._progress

    @property
    def since(self) -> int | None:
        """When, by the clock, the common promise last moved."""
        return self._source.since

    @property
    def now(self) -> int | None:
        """The time by the clock, set by the engine."""
        return self._source.clock.now

    @now.setter
    def now(self, time: int) -> None:
        self._source.set_clock(time)

    def fire_timer(self, now: int) -> Batch | None:
        """The promise of the source's timer, if it fires now and the promise is new."""
        self.now = now
        return self._new_promise(self._source.promise_by_timer())

    def timer_fires(self, now: int) -> bool:
        """Whether the timer of the source would fire now."""
        return self._source.clock.at(now).timer_fires

    @property
    def promises_on_demand(self) -> bool:
        return self._policy.on_demand is not None

    @property
    def demand_behind(self) -> int | None:
        """How far behind the clock the source promises on demand; None: it does not."""
        on_demand = self._policy.on_demand
        return None if on_demand is None else on_demand.behind

    def demand(self, now: int) -> Batch | None:
        """The promise of the source on demand, if it is new."""
        self.now = now
        return self._new_promise(self._source.clock.promise_on_demand)

    def _new_promise(self, time: int) -> Batch | None:
        promise = roll_down(time, self._grid)
        if promise <= MIN_TIME or promise <= self._progress.cti:
            return None
        return Batch.empty(self.schema, Progress(promise))

    def needed(self, time: int, group: Mapping[str, Any] | None = None) -> list[str]:
        """What would bring the promise to a time: one way for each policy, and what always does."""
        partition = self._policy.partition
        if partition is None:
            return self._source.needed(time, clock=self._clock)
        timelines = {} if group is None else {group.get(partition): ""}
        return self._source.needed(time, timelines, self._clock)

    @property
    def warnings(self) -> list[str]:
        """Estimates of the source that reality has broken, each as a sentence."""
        return list(self._warnings().values())

    def _warnings(self) -> dict[Any, str]:
        partition = self._policy.partition
        return self._source.warnings(
            lambda value: "" if partition is None else f", {partition}={value!r}"
        )

    def _warn(self) -> None:
        """Warn about each timeline once."""
        for timeline, text in self._warnings().items():
            if timeline not in self._warned:
                self._warned.add(timeline)
                warnings.warn(EstimateWarning(text), stacklevel=2)

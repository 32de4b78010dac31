"""What the rows of a source have shown: their newest times and what trackers make of them, on one
timeline or one for each partition, and the promises that follow.

In-process every row is seen, and judged by the promise before it (`after`). On shards rows are read
far away, and come as summaries of chunks (`absorb`): then only the promise after them is known.

The promise before a row is the largest of

    what was promised so far, to all rows or to its group
    the largest time before it minus `disorder`
    what the trackers of the other policies promise
    with low_watermark (period, lag): (largest time of all - lag), rounded down to the period

where the second and third are those of its partition, if the source has partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.clocks import Clock, shown_duration, shown_time
from thalweg.model.packed_values import pack_values, unpack_values
from thalweg.model.progress import NO_PROGRESS, Progress, Scope
from thalweg.model.rows import Codes
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.progress.admission import Ingress
from thalweg.progress.grids import Grid, promise_on_grid, roll_down
from thalweg.progress.summary import Sighting
from thalweg.progress.trackers import (
    Tracker,
    absorbed,
    restore_trackers,
    trackers_for,
    trackers_text,
)

__all__ = ["Groups", "ObservedRows", "running_before"]

Groups = tuple[list[Scope], Codes]
"""The groups of the rows of a batch, and which of them each row is in."""


@dataclass(frozen=True, slots=True, eq=False)
class ObservedRows:
    """A value: taking rows in gives another one. A timeline is named by the value of its partition,
    or by the part of the source that is read by itself; the only one of a source is None."""

    policy: Ingress
    newest: Mapping[Any, int] = field(default_factory=dict)
    trackers: Mapping[Any, tuple[Tracker, ...]] = field(default_factory=dict)

    def after(
        self, batch: Batch, parts: Groups | None, promised: Times
    ) -> tuple[Times, ObservedRows]:
        """The promise before each row, and the progress after the batch. `promised` is the promise
        before the batch, for each of its rows."""
        policy = self.policy
        if not len(batch) or not policy.observes:
            return promised, self
        sync = _observed(batch)
        promise = promised
        if parts is None:
            if policy.disorder is not None:
                promise = np.maximum(
                    promise,
                    _minus(running_before(sync, self.newest.get(None, MIN_TIME)), policy.disorder),
                )
        else:
            groups, code = parts
            if policy.disorder is not None:
                before = np.array(
                    [self.newest.get(value, MIN_TIME) for (value,) in groups], np.int64
                )
                promise = np.maximum(
                    promise, _minus(_running_before_by(sync, code, before), policy.disorder)
                )
            if policy.low_watermark is not None:
                period, lag = policy.low_watermark
                newest = running_before(sync, max(self.newest.values(), default=MIN_TIME))
                promise = np.maximum(
                    promise,
                    np.where(newest == MIN_TIME, MIN_TIME, _minus(newest, lag) // period * period),
                )
        tracked, trackers = self._tracked(sync, parts)
        if tracked is not None:
            promise = np.maximum(promise, tracked)
        return promise, ObservedRows(policy, self._newest_after(sync, parts), trackers)

    def after_rows(self, time: int) -> ObservedRows:
        """The progress after rows of which the newest has this time, of a source that has neither
        partitions nor trackers."""
        if self.policy.disorder is None or time <= self.newest.get(None, MIN_TIME):
            return self
        return ObservedRows(self.policy, {None: time}, self.trackers)

    def _newest_after(self, sync: Times, parts: Groups | None) -> dict[Any, int]:
        if parts is None:
            return {None: max(self.newest.get(None, MIN_TIME), int(sync.max()))}
        groups, code = parts
        newest = np.full(len(groups), MIN_TIME)
        np.maximum.at(newest, code, sync)
        newest_after = dict(self.newest)
        for (value,), time in zip(groups, newest.tolist(), strict=True):
            newest_after[value] = max(newest_after.get(value, MIN_TIME), time)
        return newest_after

    def _tracked(
        self, sync: Times, parts: Groups | None
    ) -> tuple[Times | None, Mapping[Any, tuple[Tracker, ...]]]:
        """What the trackers promise before each row, and the trackers that have seen them."""
        policies = self.policy.observed
        if not policies:
            return None, self.trackers
        groups, code = parts if parts is not None else ([(None,)], np.zeros(len(sync), np.int64))
        order = np.argsort(code, kind="stable")
        ends = np.searchsorted(code[order], np.arange(len(groups)), side="right").tolist()
        promise = np.full(len(sync), MIN_TIME)
        after = dict(self.trackers)
        begin = 0
        for (value,), end in zip(groups, ends, strict=True):
            rows = order[begin:end]
            begin = end
            moved = []
            for tracker in after.get(value) or trackers_for(policies):
                promised, tracker_after = tracker.after(sync[rows])
                promise[rows] = np.maximum(promise[rows], promised)
                moved.append(tracker_after)
            after[value] = tuple(moved)
        return promise, after

    # --------------------------------------------------------------------------------------------
    # summaries of rows

    def see_newest(self, key: Any, time: int) -> ObservedRows:
        """Update from rows of which only the newest time is known."""
        newest = {**self.newest, key: max(time, self.newest.get(key, MIN_TIME))}
        return ObservedRows(self.policy, newest, self.trackers)

    def absorb(self, key: Any, sighting: Sighting) -> ObservedRows:
        """Update from the summary of a chunk of rows."""
        trackers = self.trackers.get(key) or trackers_for(self.policy.observed)
        return ObservedRows(
            self.policy, self.newest, {**self.trackers, key: absorbed(trackers, sighting)}
        )

    # --------------------------------------------------------------------------------------------
    # promises

    @property
    def timelines(self) -> list[Any]:
        """The timelines that have shown rows."""
        return list(dict.fromkeys([*self.newest, *self.trackers]))

    def of(self, key: Any) -> int:
        """What all policies together promise on one timeline."""
        promises = [tracker.promise for tracker in self.trackers.get(key, ())]
        if self.policy.disorder is not None and key in self.newest:
            promises.append(max(self.newest[key] - self.policy.disorder, MIN_TIME))
        return max(promises, default=MIN_TIME)

    @property
    def observed(self) -> int:
        """What the policies promise for all rows together, on no grid; partitions have promises of
        their own."""
        return self.of(None) if self.policy.partition is None else MIN_TIME

    def now(
        self, batch_progress: Progress, parts: Groups | None, earlier: Progress, grid: Grid | None
    ) -> Progress:
        """The promise after a batch: the progress that came with it, merged with the promises of
        the policies from the times observed."""
        policy = self.policy
        if not policy.observes or not self.newest:
            return batch_progress
        if policy.partition is None:
            promise = promise_on_grid(self.of(None), batch_progress.cti, grid)
            return batch_progress.merge(Progress(promise))
        scoped = {}
        for group in [] if parts is None else parts[0]:
            time = roll_down(self.of(group[0]), grid)
            if time > earlier.of(group):
                scoped[group] = time
        observed = Progress(MIN_TIME, (policy.partition,), scoped) if scoped else NO_PROGRESS
        if policy.low_watermark is not None:
            period, lag = policy.low_watermark
            observed = observed.merge(
                Progress(roll_down(max(self.newest.values()) - lag, (period, 0)))
            )
        return batch_progress.merge(observed)

    def broken_estimates(self) -> dict[Any, str]:
        """What is wrong with the estimates that reality has broken, by timeline."""
        found = ((key, tracker) for key, several in self.trackers.items() for tracker in several)
        return {
            key: reason for key, tracker in found if (reason := tracker.broken_reason) is not None
        }

    def needed(self, time: int, key: Any = None, clock: Clock = None) -> list[str]:
        """What would bring the promise to a time, one way for each policy."""
        ways = []
        if self.policy.disorder is not None:
            newest = self.newest.get(key)
            shown = (
                "none has come" if newest is None else f"the newest is {shown_time(newest, clock)}"
            )
            allowed = shown_duration(self.policy.disorder, clock)
            row = shown_time(time + self.policy.disorder, clock)
            ways.append(f"a row at {row} or later ({shown}, disorder {allowed})")
        ways += [
            tracker.needed(time, clock)
            for tracker in self.trackers.get(key) or trackers_for(self.policy.observed)
        ]
        return ways

    def to_json(self) -> Any:
        keys = self.timelines
        states = [[self.newest.get(key), trackers_text(self.trackers.get(key, ()))] for key in keys]
        return [pack_values(keys), states]

    def from_json(self, state: Any) -> ObservedRows:
        keys, states = unpack_values(state[0]), state[1]
        newest = {
            key: time for key, (time, _) in zip(keys, states, strict=True) if time is not None
        }
        trackers = {
            key: restore_trackers(self.policy.observed, tracker_state)
            for key, (_, tracker_state) in zip(keys, states, strict=True)
            if tracker_state
        }
        return ObservedRows(self.policy, newest, trackers)


def _observed(batch: Batch) -> Times:
    """The newest time that each element shows. An end that is and stays infinite shows none."""
    sync = batch.sync
    return sync if batch.is_adjust is None else np.where(sync == INFINITY, MIN_TIME, sync)


def _minus(times: Times, ticks: int) -> Times:
    return np.maximum(times, MIN_TIME + ticks) - ticks


def running_before(sync: Times, before: int) -> Times:
    """The largest of `before` and all earlier elements."""
    running = np.empty(len(sync), np.int64)
    running[0] = before
    np.maximum.accumulate(sync[:-1], out=running[1:])
    np.maximum(running, before, out=running)
    return running


def _running_before_by(sync: Times, code: Codes, before: Times) -> Times:
    """The same within each partition: by sorting the elements of a partition together, in order of
    arrival."""
    order = np.argsort(code, kind="stable")
    times, codes = sync[order], code[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    # A running maximum over all partitions at once: lift each partition above the one before it by
    # rank.
    ranks = np.unique(np.concatenate([times, before]), return_inverse=True)
    values, rank = ranks[0], ranks[1]
    lifted = codes * len(values) + rank[: len(times)]
    base = codes * len(values) + rank[len(times) :][codes]
    previous = np.empty(len(order), np.int64)
    previous[0] = base[0]
    previous[1:] = np.where(first[1:], base[1:], lifted[:-1])
    running = np.maximum.accumulate(np.maximum(previous, base))
    result = np.empty(len(order), np.int64)
    result[order] = values[running - codes * len(values)]
    return result

"""The choice between LAZY and EAGER: the rule that would have served the latest rows fresher.

Which rule is fresher depends on gaps, skew, window and load together, and on the other work of the
server; no rule of thumb holds for all of them. So both are tried in virtual time: two small queues
serve the latest arrivals again, at the measured cost of a row, and the rule with the smaller area
under its staleness is used from then on.

A trial is a sample of up to `_KEYS` keys, and of the latest `_TURNS` windows of each, at least
`_LEAST_TURNS`. The cost of its rows is multiplied by the number of all rows over those in the
sample; the first half of the time is not counted. The next trial is made when eight times as many
rows have come as the last one looked at, at first sooner, so that trials cost a fixed share of the
work. The rule changes only if the other one is better by more than `_CLEARLY`; a trial has the same
weight as all trials before it together.

Before the first trial windows that overlap are LAZY: under low load EAGER can be a hundred times
staler, since it skips the windows that close while it waits for the window it has begun. Windows
that do not overlap are EAGER, which then skips none.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from thalweg.freshness._arrays import Ints, Mask
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.schedules import InPlaceSchedule, Schedule
from thalweg.freshness.simulation import Workload, run_windows
from thalweg.freshness.window_marks import UpdateWindow
from thalweg.freshness.window_queue import WindowQueue
from thalweg.progress.conflation import WindowRule

__all__ = ["ChoosingQueue", "RuleTrial", "make_window_queue", "small_queue"]

_KEYS = 16
_TURNS = 16
_LEAST_TURNS = 4
_MOST_ROWS = 4_096
_FIRST_ROWS = 64
_CLEARLY = 0.03
_GOLDEN = 0x9E3779B97F4A7C15


def make_window_queue(
    window: UpdateWindow,
    rule: str,
    memory: PagedMemory,
    schedule: Schedule,
    *,
    block_rows: int = 8,
) -> WindowQueue:
    """A queue for one of the three rules."""
    kind = ChoosingQueue if WindowRule(rule) is WindowRule.AUTO else WindowQueue
    return kind(window, rule, memory, schedule, block_rows=block_rows)


class ChoosingQueue(WindowQueue):
    """AUTO: from its next window on, a key follows the better rule of the latest trial."""

    @cached_property
    def trial(self) -> RuleTrial:
        """The comparison of the two rules."""
        return RuleTrial(self.window)

    def arrive_one(self, cell: int, time: int, now: int, number: int = 0) -> bool:
        self.trial.note(np.array([cell]), np.array([time]), now, self.size, self.costs.cost)
        return super().arrive_one(cell, time, now, number)

    def _arrive_together(self, cells: Ints, times: Ints, now: int, numbers: Ints) -> Mask:
        self.trial.note(cells, times, now, self.size, self.costs.cost)
        return super()._arrive_together(cells, times, now, numbers)

    def _commit(self, cell: int, since: int, now: int) -> None:
        super()._commit(cell, since, now)
        self._use_rule(cell, now, eager=self.trial.is_eager)


class RuleTrial:
    """Keeps the latest rows of some keys, and tries both rules on them now and then."""

    def __init__(self, window: UpdateWindow) -> None:
        self._window = window
        self.is_eager = window.slide == window.size
        self._odds = 0.0
        """The logarithm of EAGER's staleness over LAZY's, as a decaying mean."""
        self.trials = 0
        self._cells = np.empty(2 * _MOST_ROWS, np.int64)
        self._times = np.empty(2 * _MOST_ROWS, np.int64)
        self._arrived = np.empty(2 * _MOST_ROWS, np.int64)
        self._held = 0
        self._stride = 1
        """One in this many keys is sampled."""
        self._all_rows = self._its_rows = 0
        """Rows since the last trial: all, and those in the sample."""
        self._next_trial = _FIRST_ROWS

    def note(self, cells: Ints, times: Ints, now: int, keys: int, row_cost: float) -> None:
        """Add rows that arrive at `now`; there are `keys` keys in all."""
        while keys > _KEYS * self._stride:
            self._stride *= 2
            self._keep(self._is_looked_at(self._cells[: self._held]))
        looked_at = np.flatnonzero(self._is_looked_at(cells))[-_MOST_ROWS:]
        count = len(looked_at)
        if self._held + count > len(self._cells):
            self._keep(slice(self._held - _MOST_ROWS, self._held))
        end = self._held + count
        self._cells[self._held : end] = cells[looked_at]
        self._times[self._held : end] = times[looked_at]
        self._arrived[self._held : end] = now
        self._held = end
        self._all_rows += len(cells)
        self._its_rows += count
        if self._its_rows >= self._next_trial:
            self._try(row_cost)

    def _is_looked_at(self, cells: Ints) -> Mask:
        if self._stride == 1:
            return np.ones(len(cells), np.bool_)
        mixed = (cells.astype(np.uint64) * np.uint64(_GOLDEN)) >> np.uint64(40)
        looked_at: Mask = (mixed & np.uint64(self._stride - 1)) == 0
        return looked_at

    def _keep(self, which: Mask | slice) -> None:
        held = self._held
        for array in (self._cells, self._times, self._arrived):
            kept = array[:held][which]
            array[: len(kept)] = kept
            self._held = len(kept)

    def _try(self, row_cost: float) -> None:
        share = self._all_rows / self._its_rows
        cells, keys = np.unique(self._cells[: self._held], return_inverse=True)
        rows = self._rows_of_a_window(keys) * len(cells)
        if self._held < min(_LEAST_TURNS * rows, _MOST_ROWS):
            self._next_trial = self._its_rows + _FIRST_ROWS
            return
        most = int(min(_MOST_ROWS, max(_FIRST_ROWS, _TURNS * rows)))
        begin = max(0, self._held - most)
        stale = [
            _area(
                self._window,
                rule,
                self._arrived[begin : self._held],
                keys[begin:],
                len(cells),
                self._times[begin : self._held],
                row_cost * share,
            )
            for rule in (WindowRule.LAZY, WindowRule.EAGER)
        ]
        lazy, eager = (max(area, 1.0) for area in stale)
        odds = math.log(eager / lazy)
        self._odds = odds if not self.trials else 0.5 * (self._odds + odds)
        self.trials += 1
        if abs(self._odds) > _CLEARLY:
            self.is_eager = self._odds < 0
        looked_at = self._held - begin
        self._next_trial = min(2 * self._next_trial, 8 * max(looked_at, _FIRST_ROWS))
        self._all_rows = self._its_rows = 0

    def _rows_of_a_window(self, keys: Ints) -> float:
        """About how many rows of a key a window holds."""
        times = self._times[: self._held][np.argsort(keys, kind="stable")]
        gaps = np.diff(times)
        gaps = gaps[gaps > 0]
        gap = float(np.median(gaps)) if len(gaps) else 1.0
        return max(1.0, self._window.size / gap)


def _area(
    window: UpdateWindow,
    rule: str,
    arrived: Ints,
    keys: Ints,
    number_of_keys: int,
    times: Ints,
    row_cost: float,
) -> float:
    """The area under the staleness of a rule, in the second half of the time: the first half begins
    with an empty queue."""
    scale = 1 if row_cost >= 64 else 64
    moments = (arrived - arrived[0]) * scale
    cost = max(1, round(row_cost * scale))
    until = int(moments[-1]) + 1
    rows = int(np.bincount(keys).max())
    queue = small_queue(window, rule, number_of_keys, rows)
    before: list[float] = []

    def watch(now: int) -> None:
        if not before and now >= until // 2:
            before.append(float(queue.application_area(now).sum()))

    load = Workload(moments, keys, number_of_keys)
    run_windows(queue, load, times, cost, until=until, at=watch)
    return float(queue.application_area(until).sum()) - sum(before)


def small_queue(window: UpdateWindow, rule: str, keys: int, rows: int) -> WindowQueue:
    """A queue with an in-place schedule and room for `rows` rows of every key, besides those of its
    committed window."""
    blocks = keys * 2 * (-(-rows // 8) + 2)
    memory = PagedMemory(PagePool(-(-blocks // 32), 32))
    queue = make_window_queue(window, rule, memory, InPlaceSchedule())
    queue.grow(keys)
    return queue

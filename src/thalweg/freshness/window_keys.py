"""The keys of an update queue of windows: their states, rows and counts.

Each key has a number, its *cell*, and an entry in each array. The rows of a key lie in two buffers:
2 * cell holds the rows of the committed window that are still to be processed, 2 * cell + 1 those
of newer windows. See `window_queue` for the states of a key.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final

import numpy as np

from thalweg.freshness._arrays import NEVER, Floats, Ints, Mask, enlarge
from thalweg.freshness.pages import PagedMemory
from thalweg.freshness.rates import CostMonitor, RateMonitor
from thalweg.freshness.schedules import Schedule
from thalweg.freshness.staleness import StalenessLedger
from thalweg.freshness.window_arrivals import KeyedRows
from thalweg.freshness.window_blocks import BlockBuffers
from thalweg.freshness.window_marks import UpdateWindow
from thalweg.progress.conflation import WindowRule

__all__ = ["KeyState", "WindowKeys"]


class KeyState(StrEnum):
    WAIT = "wait"
    READY = "ready"
    IDLE = "idle"


_PER_CELL: Final = {
    **dict.fromkeys(("arrived", "outdated", "refused", "updates", "taken", "lost"), 0),
    **dict.fromkeys(
        (
            "_newest",
            "_began",
            "_whole_from",
            "_offered",
            "_committed",
            "_served",
            "_stale_since",
            "_parked_since",
            "_processed",
        ),
        NEVER,
    ),
}
"""The arrays with an entry for each cell, and the first value of an entry."""


class WindowKeys:
    """The state of a queue, and its figures."""

    def __init__(
        self,
        window: UpdateWindow,
        rule: str,
        memory: PagedMemory,
        schedule: Schedule,
        *,
        block_rows: int = 8,
    ) -> None:
        self.window = window
        self.rule = WindowRule(rule)
        self.buffers = BlockBuffers(memory, block_rows)
        self._schedule = schedule
        self._ready: deque[int] = deque()
        self._to_commit: deque[int] = deque()
        """Keys that reached the head of the line while another window of theirs was committed; that
        window is finished now, so they are next."""
        self.ledger = StalenessLedger()
        self.rates = RateMonitor()
        self.costs = CostMonitor()
        rows = memory.pool.pages * memory.pool.locations * block_rows
        self.row_time = np.zeros(rows, np.int64)
        """Source time of the row at each location."""
        self.row_number = np.zeros(rows, np.int64)
        self.size = 0
        for name, filler in _PER_CELL.items():
            setattr(self, name, np.full(0, filler, np.int64))
        self._scratch = np.empty(0, np.int64)
        self._idle = self._eager = np.empty(0, np.bool_)
        self._steps, self._stepped_at, self._is_busy = 0, NEVER, False
        """The number of steps handed out at one moment, that moment, and whether the last call has
        handed out a step."""
        self._all_steps = self._all_windows = 0
        self.without_page = 0
        """Rows with a number (see `arrive_one`) that were refused because no page was left."""

    arrived: Ints
    """Rows that arrived."""
    outdated: Ints
    """Rows that arrived out of order."""
    refused: Ints
    """Rows for which there was no page."""
    updates: Ints
    """Windows that became the newest of their key: closed (LAZY) or started (EAGER)."""
    taken: Ints
    """Windows that were committed to."""
    lost: Ints
    """Windows that were committed to, and lost a row later."""
    _newest: Ints
    """Time of the youngest row."""
    _began: Ints
    """Start of the first window."""
    _whole_from: Ints
    """Windows that start before this have rows that are not held."""
    _offered: Ints
    """Start of the newest window, if the key waits."""
    _committed: Ints
    """Start of the committed window."""
    _served: Ints
    """Start of the last committed window."""
    _stale_since: Ints
    """When a window after the last committed window first closed."""
    _parked_since: Ints
    """Since when the key has waited, if it reached the head of the line before its committed window
    was finished."""
    _processed: Ints
    """Time of the row of the committed window that was processed last."""

    def grow(self, size: int) -> None:
        """Room for the cells 0 to `size` - 1."""
        self.size = max(self.size, size)
        if size <= len(self._newest):
            return
        room = max(16, size, 2 * len(self._newest))
        for name, filler in _PER_CELL.items():
            setattr(self, name, enlarge(getattr(self, name), room, filler))
        self._idle = enlarge(self._idle, room, 0)
        self._eager = enlarge(self._eager, room, self.rule is not WindowRule.LAZY)
        self._scratch = np.empty(room, np.int64)
        self.buffers.grow(2 * room)
        self._schedule.grow(room)
        self.ledger.grow(room)
        self.rates.grow(room)

    def states(self, cell: int) -> set[KeyState]:
        """The states of a key; none if it was never seen, or is done."""
        found = set()
        if self._since()[cell] != NEVER:
            found.add(KeyState.WAIT)
        if self._committed[cell] != NEVER:
            found.add(KeyState.IDLE if self._idle[cell] else KeyState.READY)
        return found

    def is_eager(self, cell: int) -> bool:
        return bool(self._eager[cell])

    def conflated(self) -> Ints:
        """Per cell: windows that were replaced by a newer one before they were committed to."""
        conflated: Ints = self.updates - self.taken - (self._since() != NEVER)
        return conflated

    # --------------------------------------------------------------------------------------- rows

    def _store(self, buffer: int, time: int, number: int) -> bool:
        location = self.buffers.push(buffer) if number >= 0 else -1
        if location < 0:
            self.refused[buffer // 2] += 1
            return False
        self.row_time[location] = time
        self.row_number[location] = number
        return True

    def _store_all(self, rows: KeyedRows, numbers: Ints, chosen: Mask, *, newer: int) -> None:
        counts = np.bincount(rows.owner[chosen], minlength=len(rows.cells))
        locations = self.buffers.push_many(2 * rows.cells + newer, counts)
        self.row_time[locations] = rows.time[chosen]
        self.row_number[locations] = numbers[chosen]

    def _drop_rows_before(self, buffer: int, time: int) -> None:
        while self.buffers.count[buffer] and self.row_time[self.buffers.first(buffer)] < time:
            self.buffers.pop(buffer)

    # ----------------------------------------------------------------------- the committed window

    def _is_closed(self, cell: int) -> bool:
        """Whether no row of the committed window can follow."""
        return bool(self._newest[cell] >= self.window.last_tick(int(self._committed[cell])))

    def _finish(self, cell: int) -> None:
        self._all_windows += 1
        self._committed[cell] = NEVER
        if self._parked_since[cell] != NEVER:
            self._to_commit.append(cell)

    def _abandon(self, cell: int) -> None:
        """Give up the committed window, which has lost a row."""
        self.buffers.clear(2 * cell)
        self.lost[cell] += 1
        self.ledger.withdraw_one(cell)
        if self._idle[cell]:
            self._idle[cell] = False
        else:
            self._ready.remove(cell)
        self._finish(cell)

    # ------------------------------------------------------------------------- the cost of a step

    def _observe(self, now: int, *, was_busy: bool) -> None:
        """Measure the steps handed out at one moment: without a pause they took until now."""
        if self._steps and now > self._stepped_at:
            if was_busy:
                self.costs.observe(now - self._stepped_at, self._steps)
            self._steps = 0

    def _note_steps(self, steps: int, now: int) -> None:
        self._is_busy = steps > 0
        if now > self._stepped_at:
            self._stepped_at, self._steps = now, 0
        self._steps += steps
        self._all_steps += steps

    def _service_cost(self) -> float:
        """The cost of serving a key: that of a row times the mean number of rows in a window."""
        return self.costs.cost * max(self._all_steps / max(self._all_windows, 1), 1.0)

    # ----------------------------------------------------------------------------------- measures

    def application_area(self, now: int) -> Floats:
        return self.ledger.application_area(now)[: self.size]

    def queue_area(self, now: int) -> Floats:
        return self.ledger.queue_area(now, self._since())[: self.size]

    def application_staleness(self, now: int) -> Ints:
        return self.ledger.application(now)[: self.size]

    def queue_staleness(self, now: int) -> Ints:
        since = self._since()[: self.size]
        return np.where(since == NEVER, 0, now - since)

    def held_numbers(self) -> Ints:
        """The numbers of the rows that are held."""
        numbers: Ints = self.row_number[self.buffers.held()]
        return numbers

    def held_times(self) -> Ints:
        """The time of the first row of each buffer."""
        times: Ints = self.row_time[self.buffers.first_rows()]
        return times

    def committed_starts(self) -> Ints:
        """The starts of the committed windows."""
        starts: Ints = self._committed[: self.size]
        committed: Ints = starts[starts != NEVER]
        return committed

    def busy_keys(self) -> int:
        """Keys with a window that waits or is being served."""
        busy = (self._since() != NEVER) | (self._committed != NEVER)
        return int(busy[: self.size].sum())

    def _since(self) -> Ints:
        """Per cell: since when the key waits, in line or at its head."""
        return np.maximum(self._schedule.since, self._parked_since)

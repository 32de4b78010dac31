"""An update queue whose unit is the window: the newest window of each key is served, whole.

Two rules say which window of a key is the newest:

    LAZY    the one that closed last. A key is served when a window of it is complete.
    EAGER   the one that started last. A key is served as soon as a window of it starts; its rows
            are processed as they arrive.
    AUTO    EAGER for keys whose rows arrive evenly, and for keys that have many rows a window and
            update at least once while every key is served a row; LAZY for the others.

EAGER saves processing a window after it is complete, but waits for its rows: a gap in a committed
window is time during which the key could have had an answer. Even gaps cost nothing, since the
server has the other keys to work on; uneven ones cost a time that does not grow with the window,
while what EAGER saves does.

Serving a key *commits* to its newest window. Other windows of the key are dropped as newer ones
close (LAZY) or start (EAGER); rows of the committed window are never dropped, and no other window
of the key is opened until its result is out. A key goes through these states, of which it may be
in two at once (waiting with newer rows while its committed window is processed):

    ENQ ----> WAIT     an update: a window closes (LAZY) or starts (EAGER)          is_update
    WAIT ---> READY    the operator commits to the key's newest window; a key whose committed window
                       is not finished keeps its place at the head until it is
    READY --> IDLE     the committed window has no more rows yet                    not is_available
    IDLE ---> READY    a row of the committed window arrives, or one beyond it      promotes
    READY --> DONE     the committed window is complete and all its rows are processed

The buffer of a key has two parts: rows of the committed window that are still to be processed, and
rows of newer windows. With one row a tick EAGER holds at most size + slide - 1 rows of a key, one of
which the operator is working on; LAZY, which holds a complete window and those that are open, as
many besides the committed window.

When no page is left for a row, the windows that contain it have lost a row and get no answer; that
is counted.

Rows of a key come in order of their time, at most one a tick; a row that is not younger than the
one before it is outdated, and counted. So a window is complete when a row at its last tick or
beyond has come. Windows begin with the first row of a key.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from thalweg.freshness._arrays import NEVER, Floats, Ints, enlarge
from thalweg.freshness.pages import PagedMemory
from thalweg.freshness.rates import CostMonitor, RateMonitor
from thalweg.freshness.schedules import Schedule
from thalweg.freshness.staleness import StalenessLedger
from thalweg.freshness.window_blocks import BlockBuffers
from thalweg.freshness.window_marks import DISALLOW, UPDATE, UpdateWindow

__all__ = ["KeyState", "Step", "WindowQueue", "WindowRule"]


class WindowRule(StrEnum):
    LAZY = "lazy"
    EAGER = "eager"
    AUTO = "auto"


class KeyState(StrEnum):
    WAIT = "wait"
    READY = "ready"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Step:
    """The next thing for the operator to do."""

    cell: int
    window: int
    """Start of the committed window."""
    location: int
    """Where the row is until the next row arrives, -1 where a window is closed without one."""
    number: int
    """The number that came with the row, -1 without a row."""
    time: int
    mark: int
    completes: bool
    """Whether the result of the window is out after this step."""


_EVEN = 0.5
"""Gaps are even when they differ from their mean by less than this share of it, on average."""
_MANY_ROWS = 8
_FORGET = 1 / 64

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
            "_worked",
            "_last_arrival",
        ),
        NEVER,
    ),
}
"""The arrays that have an entry for each cell, with its first value."""


class WindowQueue:
    """
    >>> from thalweg.freshness.pages import PagePool
    >>> from thalweg.freshness.schedules import make_schedule
    >>> memory = PagedMemory(PagePool(4, 4))
    >>> queue = WindowQueue(UpdateWindow(3, 1), "lazy", memory, make_schedule("in-place"))
    >>> queue.grow(1)
    >>> for time in (1, 2, 3, 4):
    ...     _ = queue.arrive_one(0, time, now=time)
    >>> [(step.window, step.time, step.mark) for step in iter(lambda: queue.next_step(5), None)]
    [(2, 2, 4), (2, 3, 0), (2, 4, 0)]
    """

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
        self._due: deque[int] = deque()
        """Keys that reached the head of the line while their committed window was unfinished, and
        have finished it."""
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
        self._idle = self._eager = np.empty(0, np.bool_)
        self._gap = self._spread = self._source_gap = np.empty(0)

    arrived: Ints
    """Rows, per cell; of these, outdated ones came out of order, and for refused ones there was no
    page."""
    outdated: Ints
    refused: Ints
    updates: Ints
    """Windows that became the newest of their key: closed (LAZY) or started (EAGER)."""
    taken: Ints
    """Windows that were committed to, and of these, those that lost a row later."""
    lost: Ints
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
    """Start of the window that was committed to last."""
    _stale_since: Ints
    """When a window after the one committed to last first closed."""
    _parked_since: Ints
    """Since when a key waits that has reached the head of the line before its committed window was
    finished."""
    _worked: Ints
    """Time of the row of the committed window that was processed last."""
    _last_arrival: Ints

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
        self._gap = enlarge(self._gap, room, 0)
        self._spread = enlarge(self._spread, room, 0)
        self._source_gap = enlarge(self._source_gap, room, 0)
        self.buffers.grow(2 * room)
        self._schedule.grow(room)
        self.ledger.grow(room)
        self.rates.grow(room)

    def states(self, cell: int) -> set[KeyState]:
        """A key in no state has nothing to do: it was never seen, or it is done."""
        found = set()
        if self._since()[cell] != NEVER:
            found.add(KeyState.WAIT)
        if self._committed[cell] != NEVER:
            found.add(KeyState.IDLE if self._idle[cell] else KeyState.READY)
        return found

    def is_eager(self, cell: int) -> bool:
        return bool(self._eager[cell])

    def conflated(self) -> Ints:
        """Per cell, windows that a newer one replaced before they were committed to."""
        conflated: Ints = self.updates - self.taken - (self._since() != NEVER)
        return conflated

    # ------------------------------------------------------------------------------------ enqueue

    def arrive_one(self, cell: int, time: int, now: int, number: int = 0) -> bool:
        """A row of source time `time` arrives at `now`; whether it was in order. `number` is kept
        with the row; a number below zero says that there is no room for it."""
        previous = int(self._newest[cell])
        if previous != NEVER and time <= previous:
            self.outdated[cell] += 1
            return False
        self.arrived[cell] += 1
        if previous == NEVER:
            self._whole_from[cell] = self._began[cell] = self.window.newest_start(time)
        self._newest[cell] = time
        self._measure_gap(cell, now, time - previous)
        self._add_to_committed(cell, time, number)
        closing = self.window.newest_closing(previous if previous != NEVER else None, time)
        if closing is not None and closing < self._began[cell]:
            closing = None
        if self._eager[cell]:
            starts = previous == NEVER or self.window.starts(previous, time)
            self._enqueue_eager(cell, time, now, number, starts=starts)
        else:
            self._enqueue_lazy(cell, time, now, number, closing)
        if closing is not None:
            self.ledger.arrive_one(cell, now)
            if closing > self._served[cell] and self._stale_since[cell] == NEVER:
                self._stale_since[cell] = now
        return True

    def _enqueue_eager(self, cell: int, time: int, now: int, number: int, *, starts: bool) -> None:
        newer = 2 * cell + 1
        if starts:
            self.buffers.clear(newer)
            self._whole_from[cell] = self._offered[cell] = self.window.newest_start(time)
        elif not self.buffers.count[newer]:
            return  # the newest window is the committed one, or it has lost a row
        if not self._store(newer, time, number):
            self._lose_offered(cell, time)
        elif starts:
            self._update(cell, now)

    def _enqueue_lazy(
        self, cell: int, time: int, now: int, number: int, closing: int | None
    ) -> None:
        newer = 2 * cell + 1
        if not self._store(newer, time, number):
            self._lose_offered(cell, time)
            return
        if closing is not None and closing >= self._whole_from[cell]:
            self._offered[cell] = closing
            self._update(cell, now)
        self._drop_useless(cell)

    def _drop_useless(self, cell: int) -> None:
        """LAZY: rows before every window that is or may be offered."""
        needed = int(self._offered[cell])
        if needed == NEVER:
            needed = self.window.newest_closed(int(self._newest[cell])) + self.window.slide
        newer = 2 * cell + 1
        while self.buffers.count[newer] and self.row_time[self.buffers.first(newer)] < needed:
            self.buffers.pop(newer)

    def _add_to_committed(self, cell: int, time: int, number: int) -> None:
        """A row of the committed window joins it; that, or a row beyond it, wakes an idle key."""
        committed = int(self._committed[cell])
        if committed == NEVER:
            return
        if time <= self.window.last_tick(committed) and not self._store(2 * cell, time, number):
            self._abandon(cell)
        elif self._idle[cell]:
            self._idle[cell] = False
            self._ready.append(cell)

    def _store(self, buffer: int, time: int, number: int) -> bool:
        location = self.buffers.push(buffer) if number >= 0 else -1
        if location < 0:
            self.refused[buffer // 2] += 1
            return False
        self.row_time[location] = time
        self.row_number[location] = number
        return True

    def _update(self, cell: int, now: int) -> None:
        """The key has a newer window to offer."""
        self.updates[cell] += 1
        rate = self.rates.arrive_one(cell, now)
        if self._parked_since[cell] != NEVER:
            return
        self._schedule.arrive_one(cell, now, rate, self.rates.known, self.costs.cost)

    def _lose_offered(self, cell: int, time: int) -> None:
        """A row of the newest windows was refused: none of those that contain it is whole."""
        self.buffers.clear(2 * cell + 1)
        self._whole_from[cell] = self.window.newest_start(time) + self.window.slide
        self._offered[cell] = NEVER
        if self._parked_since[cell] != NEVER:
            self._parked_since[cell] = NEVER
            if cell in self._due:
                self._due.remove(cell)
        elif self._schedule.since[cell] != NEVER:
            self._schedule.remove(np.array([cell]))
        else:
            return
        self.taken[cell] += 1
        self.lost[cell] += 1

    def _abandon(self, cell: int) -> None:
        """The committed window has lost a row and gets no answer."""
        self.buffers.clear(2 * cell)
        self.lost[cell] += 1
        self.ledger.withdraw_one(cell)
        if self._idle[cell]:
            self._idle[cell] = False
        else:
            self._ready.remove(cell)
        self._finish(cell)

    def _measure_gap(self, cell: int, now: int, source_gap: int) -> None:
        last = int(self._last_arrival[cell])
        self._last_arrival[cell] = now
        if last == NEVER or self.rule is not WindowRule.AUTO:
            return
        gap, mean = now - last, float(self._gap[cell])
        if not mean:
            self._gap[cell], self._source_gap[cell] = gap, source_gap
            return
        self._gap[cell] = mean + _FORGET * (gap - mean)
        self._spread[cell] += _FORGET * (abs(gap - mean) - self._spread[cell])
        self._source_gap[cell] += _FORGET * (source_gap - self._source_gap[cell])

    # ------------------------------------------------------------------------------------ dequeue

    def next_step(self, now: int) -> Step | None:
        """What the operator does next: keys it is committed to come before keys that wait."""
        while True:
            while self._ready:
                step = self._work_on(self._ready[0])
                if step is not None:
                    return step
                self._idle[self._ready.popleft()] = True
            if self._due:
                cell = self._due.popleft()
                since, self._parked_since[cell] = int(self._parked_since[cell]), NEVER
                self._commit(cell, since, now)
                continue
            cell = self._schedule.next_cell(now)
            if cell < 0:
                return None
            since = int(self._schedule.since[cell])
            self._schedule.remove_next(cell)
            if self._committed[cell] == NEVER:
                self._commit(cell, since, now)
            else:
                self._parked_since[cell] = since

    def _work_on(self, cell: int) -> Step | None:
        """The next step of a committed window; None if its next row has not come yet."""
        start = int(self._committed[cell])
        last_tick = self.window.last_tick(start)
        location = self.buffers.pop(2 * cell)
        complete = not self.buffers.count[2 * cell] and bool(self._newest[cell] >= last_tick)
        if location < 0 and not complete:
            return None
        time, mark, number = NEVER, UPDATE, -1
        if location >= 0:
            time, number = int(self.row_time[location]), int(self.row_number[location])
            worked = int(self._worked[cell])
            if worked == NEVER:
                mark = last_tick
            elif self.window.starts(worked, time):
                mark = DISALLOW
            self._worked[cell] = time
        if complete:
            self._ready.popleft()
            self._finish(cell)
        return Step(cell, start, location, number, time, mark, complete)

    def _finish(self, cell: int) -> None:
        self._committed[cell] = NEVER
        if self._parked_since[cell] != NEVER:
            self._due.append(cell)

    def _commit(self, cell: int, since: int, now: int) -> None:
        self.ledger.take_one(cell, since, now)
        self.taken[cell] += 1
        start = int(self._offered[cell])
        self._offered[cell] = NEVER
        self._committed[cell] = self._served[cell] = start
        self._stale_since[cell] = self._worked[cell] = NEVER
        self._ready.append(cell)
        if self._eager[cell]:
            self.buffers.move(2 * cell + 1, 2 * cell)
        elif not self._copy_offered(cell, start):
            self._abandon(cell)
        if self.rule is WindowRule.AUTO:
            self._choose_rule(cell, start)

    def _copy_offered(self, cell: int, start: int) -> bool:
        """LAZY: the rows of a complete window, which newer windows may share."""
        locations = self.buffers.rows(2 * cell + 1)
        times = self.row_time[locations]
        for location in locations[times <= self.window.last_tick(start)].tolist():
            if not self._store(
                2 * cell, int(self.row_time[location]), int(self.row_number[location])
            ):
                return False
        self._drop_useless(cell)
        return True

    def _choose_rule(self, cell: int, start: int) -> None:
        """AUTO: the rule for the windows after the one that was just committed to."""
        gap = float(self._gap[cell])
        even = bool(self._spread[cell] < _EVEN * gap)
        rows = self.window.size / max(float(self._source_gap[cell]), 1.0)
        fast = gap <= 1.2 * self.costs.cost * self.rates.known
        eager = (even and rows > 1) or (rows >= _MANY_ROWS and fast)
        if eager == self._eager[cell]:
            return
        self._eager[cell] = eager
        if eager:
            self.buffers.clear(2 * cell + 1)
        else:
            self._whole_from[cell] = start + self.window.slide

    def deliver_one(self, cell: int, now: int) -> None:
        """The result of the key's completed window reaches the application."""
        self.ledger.deliver_one(cell, now, int(self._stale_since[cell]))

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
        """The starts of the windows that are worked on."""
        starts: Ints = self._committed[: self.size]
        committed: Ints = starts[starts != NEVER]
        return committed

    def busy_keys(self) -> int:
        """Keys with a window that waits or is worked on."""
        busy = (self._since() != NEVER) | (self._committed != NEVER)
        return int(busy[: self.size].sum())

    def _since(self) -> Ints:
        """Since when each key waits, in line or at its head."""
        return np.maximum(self._schedule.since, self._parked_since)

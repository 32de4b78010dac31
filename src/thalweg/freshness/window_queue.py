"""An update queue whose unit is the window: the newest window of each key is served, whole.

Two rules say which window of a key is the newest:

    LAZY    the one that closed last. A key is served when a window of it is complete.
    EAGER   the one that started last. A key is served as soon as a window of it starts; its rows
            are processed as they arrive.
    AUTO    whichever of the two would have served the latest rows fresher (`window_choice`).

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

from thalweg.freshness._arrays import NEVER, Floats, Ints, Mask, enlarge
from thalweg.freshness.arrivals import group_by_cell
from thalweg.freshness.pages import PagedMemory
from thalweg.freshness.rates import CostMonitor, RateMonitor
from thalweg.freshness.schedules import Schedule, Standing
from thalweg.freshness.staleness import StalenessLedger
from thalweg.freshness.window_arrivals import (
    KeyedRows,
    closed_windows,
    last_of_each,
    newest_closed,
    rows_by_key,
)
from thalweg.freshness.window_blocks import BlockBuffers
from thalweg.freshness.window_marks import DISALLOW, UPDATE, UpdateWindow

__all__ = ["KeyState", "Run", "Step", "WindowQueue", "WindowRule"]


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


@dataclass(frozen=True, slots=True)
class Run:
    """The next things for the operator to do, all of one window."""

    cell: int
    window: int
    numbers: Ints
    """The numbers that came with the rows."""
    steps: int
    begins: bool
    """Whether the first row opens the window."""
    completes: bool


_FEW = 8
"""So many rows are sooner taken one by one than together."""

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
        self._scratch = np.empty(0, np.int64)
        self._idle = self._eager = np.empty(0, np.bool_)
        self._steps, self._stepped_at, self._is_busy = 0, NEVER, False
        """Steps that were handed out at one moment, and whether there was one at the last look."""
        self._all_steps = self._all_windows = 0
        self.without_page = 0
        """Rows whose number said that there is room, and for which there was no page."""

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
        refused = int(self.refused[cell])
        if previous == NEVER:
            self._whole_from[cell] = self._began[cell] = self.window.newest_start(time)
        self._newest[cell] = time
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
        self.without_page += number >= 0 and int(self.refused[cell]) > refused
        return True

    def arrive(self, cells: Ints, times: Ints, now: int, numbers: Ints) -> Mask:
        """As `arrive_one` for each row in turn; which rows were in order.

        Rows for which there is room whatever happens are taken together, others in ever shorter
        runs: which of them are refused depends on what those before them freed.
        """
        in_order = np.ones(len(cells), np.bool_)
        runs = [(0, len(cells))]
        while runs:
            begin, end = runs.pop()
            if end - begin <= _FEW:
                for row in range(begin, end):
                    in_order[row] = self.arrive_one(
                        int(cells[row]), int(times[row]), now, int(numbers[row])
                    )
            elif self._has_room(cells[begin:end], numbers[begin:end]):
                in_order[begin:end] = self._arrive_together(
                    cells[begin:end], times[begin:end], now, numbers[begin:end]
                )
            else:
                middle = (begin + end) // 2
                runs += [(middle, end), (begin, middle)]
        return in_order

    def _has_room(self, cells: Ints, numbers: Ints) -> bool:
        """Whether there are blocks for all rows, in both buffers of their keys."""
        if numbers.min() < 0:
            return False
        free = self.buffers.memory.free_locations
        if free >= 4 * len(cells):
            return True
        counts = np.unique(cells, return_counts=True)[1]
        return bool(free >= 2 * (-(-counts // self.buffers.block_rows) + 1).sum())

    def _arrive_together(self, cells: Ints, times: Ints, now: int, numbers: Ints) -> Mask:
        rows = rows_by_key(cells, times, self._newest)
        in_order = np.zeros(len(cells), np.bool_)
        in_order[rows.row] = True
        np.add.at(self.outdated, cells[~in_order], 1)
        if not len(rows.row):
            return in_order
        at = rows.cells
        new = self._newest[at] == NEVER
        began = rows.time[rows.first[new]] // self.window.slide * self.window.slide
        self._began[at[new]] = self._whole_from[at[new]] = began
        self.arrived[at] += rows.counts
        self._newest[at] = rows.time[rows.last]
        closing = closed_windows(self.window, rows, self._began[at])
        numbers = numbers[rows.row]
        self._add_all_to_committed(rows, numbers)
        eager = self._eager[at]
        starting = rows.starts(self.window) & eager[rows.owner]
        lazy_rows = ~eager[rows.owner]
        closes = closing != NEVER
        updating = starting | (closes & lazy_rows & (closing >= self._whole_from[at][rows.owner]))
        last = last_of_each(updating, rows)
        updated = last >= 0
        offered = np.where(
            eager, rows.time[last] // self.window.slide * self.window.slide, closing[last]
        )
        self._offered[at[updated]] = offered[updated]
        self._replace_eager(rows, numbers, last, eager)
        self._append_lazy(rows, numbers, eager)
        self._update_all(cells[np.sort(rows.row[updating])], now)
        self.ledger.arrive(*_at_once(at[np.unique(rows.owner[closes])], now))
        newer = np.unique(rows.owner[closes & (closing > self._served[at][rows.owner])])
        newly = at[newer][self._stale_since[at[newer]] == NEVER]
        self._stale_since[newly] = now
        return in_order

    def _replace_eager(self, rows: KeyedRows, numbers: Ints, last: Ints, eager: Mask) -> None:
        """EAGER: rows from the last start on; before them, those of older windows leave."""
        starts = eager & (last >= 0)
        cells = rows.cells[starts]
        self.buffers.clear_many(2 * cells + 1)
        self._whole_from[cells] = self._offered[cells]
        goes_on = eager & (last < 0) & (self.buffers.count[2 * rows.cells + 1] > 0)
        begin = np.where(starts, last, np.where(goes_on, rows.first, len(rows.row)))
        stored = np.arange(len(rows.row)) >= begin[rows.owner]
        self._store_all(rows, numbers, stored, newer=1)

    def _append_lazy(self, rows: KeyedRows, numbers: Ints, eager: Mask) -> None:
        """LAZY: all rows; then those before every window that is or may be offered leave."""
        self._store_all(rows, numbers, ~eager[rows.owner], newer=1)
        cells = rows.cells[~eager]
        needed = np.where(
            self._offered[cells] != NEVER,
            self._offered[cells],
            newest_closed(self.window, self._newest[cells]) + self.window.slide,
        )
        self.buffers.drop_before(2 * cells + 1, self.row_time, needed)

    def _add_all_to_committed(self, rows: KeyedRows, numbers: Ints) -> None:
        committed = self._committed[rows.cells]
        last_tick = np.where(committed == NEVER, NEVER, committed + self.window.size - 1)
        self._store_all(rows, numbers, rows.time <= last_tick[rows.owner], newer=0)
        idle = np.flatnonzero(self._idle[rows.cells])
        woken = rows.cells[idle[np.argsort(rows.row[rows.first[idle]])]]
        self._idle[woken] = False
        self._ready.extend(woken.tolist())

    def _store_all(self, rows: KeyedRows, numbers: Ints, chosen: Mask, *, newer: int) -> None:
        counts = np.bincount(rows.owner[chosen], minlength=len(rows.cells))
        locations = self.buffers.push_many(2 * rows.cells + newer, counts)
        self.row_time[locations] = rows.time[chosen]
        self.row_number[locations] = numbers[chosen]

    def _update_all(self, cells: Ints, now: int) -> None:
        """The keys of these rows, in order of arrival, have newer windows to offer."""
        if not len(cells):
            return
        batch = group_by_cell(cells, np.full(len(cells), now), self._scratch)
        self.updates[batch.distinct] += batch.counts
        by_row = self.rates.rates_of_rows(batch) if self._schedule.needs_row_rates else None
        rates, known = self.rates.arrive(batch)
        in_line = self._parked_since[batch.distinct] == NEVER
        if not in_line.all():
            kept = in_line[batch.group]
            batch = group_by_cell(cells[kept], batch.times[kept], self._scratch)
            by_row = None if by_row is None else by_row[kept]
            rates, known = rates[in_line], known[in_line]
        standing = Standing(rates if by_row is None else by_row, known, self._service_cost())
        self._schedule.arrive(batch, standing)

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
        self._drop_rows_before(2 * cell + 1, needed)

    def _drop_rows_before(self, buffer: int, time: int) -> None:
        while self.buffers.count[buffer] and self.row_time[self.buffers.first(buffer)] < time:
            self.buffers.pop(buffer)

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
        self._schedule.arrive_one(cell, now, rate, self.rates.known, self._service_cost())

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

    # ------------------------------------------------------------------------------------ dequeue

    def next_step(self, now: int) -> Step | None:
        """What the operator does next: keys it is committed to come before keys that wait."""
        self._observe(now, was_busy=self._is_busy)
        step = None
        while step is None and (cell := self._next_ready(now)) >= 0:
            step = self._work_on(cell)
        self._note_steps(0 if step is None else 1, now)
        return step

    def next_run(self, now: int, most: int) -> Run | None:
        """As up to `most` calls of `next_step` at `now`, as long as they are of one window."""
        self._observe(now, was_busy=self._is_busy)
        run = None
        while run is None and (cell := self._next_ready(now)) >= 0:
            run = self._work_on_many(cell, most)
        self._note_steps(0 if run is None else run.steps, now)
        return run

    def _next_ready(self, now: int) -> int:
        """A key with a committed window that has rows or is complete, -1 if there is none."""
        while True:
            while self._ready:
                cell = self._ready[0]
                if self.buffers.count[2 * cell] or self._is_closed(cell):
                    return cell
                self._idle[self._ready.popleft()] = True
            if self._due:
                cell = self._due.popleft()
                since, self._parked_since[cell] = int(self._parked_since[cell]), NEVER
                self._commit(cell, since, now)
                continue
            cell = self._schedule.next_cell(now)
            if cell < 0:
                return -1
            since = int(self._schedule.since[cell])
            self._schedule.remove_next(cell)
            if self._committed[cell] == NEVER:
                self._commit(cell, since, now)
            else:
                self._parked_since[cell] = since

    def _is_closed(self, cell: int) -> bool:
        """Whether no row of the committed window can follow."""
        return bool(self._newest[cell] >= self.window.last_tick(int(self._committed[cell])))

    def _work_on(self, cell: int) -> Step:
        """The next step of a committed window."""
        start = int(self._committed[cell])
        location = self.buffers.pop(2 * cell)
        complete = not self.buffers.count[2 * cell] and self._is_closed(cell)
        time, mark, number = NEVER, UPDATE, -1
        if location >= 0:
            time, number = int(self.row_time[location]), int(self.row_number[location])
            worked = int(self._worked[cell])
            if worked == NEVER:
                mark = self.window.last_tick(start)
            elif self.window.starts(worked, time):
                mark = DISALLOW
            self._worked[cell] = time
        if complete:
            self._ready.popleft()
            self._finish(cell)
        return Step(cell, start, location, number, time, mark, complete)

    def _work_on_many(self, cell: int, most: int) -> Run:
        start = int(self._committed[cell])
        begins = bool(self._worked[cell] == NEVER)
        locations = self.buffers.pop_many(2 * cell, most)
        if len(locations):
            self._worked[cell] = self.row_time[locations[-1]]
        complete = not self.buffers.count[2 * cell] and self._is_closed(cell)
        if complete:
            self._ready.popleft()
            self._finish(cell)
        numbers = self.row_number[locations]
        return Run(cell, start, numbers, max(1, len(locations)), begins, complete)

    def _note_steps(self, steps: int, now: int) -> None:
        self._is_busy = steps > 0
        if now > self._stepped_at:
            self._stepped_at, self._steps = now, 0
        self._steps += steps
        self._all_steps += steps

    def _observe(self, now: int, *, was_busy: bool) -> None:
        """What was handed out at one moment has taken until now, if the operator had no rest."""
        if self._steps and now > self._stepped_at:
            if was_busy:
                self.costs.observe(now - self._stepped_at, self._steps)
            self._steps = 0

    def _service_cost(self) -> float:
        """What serving a key costs: the rows of a window, as many as windows had so far."""
        return self.costs.cost * max(self._all_steps / max(self._all_windows, 1), 1.0)

    def _finish(self, cell: int) -> None:
        self._all_windows += 1
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

    def _use_rule(self, cell: int, now: int, *, eager: bool) -> None:
        """The rule for the windows after the one that was just committed to."""
        if eager == self._eager[cell]:
            return
        self._eager[cell] = eager
        if not eager:
            self._whole_from[cell] = self._served[cell] + self.window.slide
            return
        # The window that started last, of which LAZY holds all rows, is the one to offer.
        start = self.window.newest_start(int(self._newest[cell]))
        newer = 2 * cell + 1
        self._drop_rows_before(newer, start)
        if start > self._served[cell] and self.buffers.count[newer]:
            self._whole_from[cell] = self._offered[cell] = start
            self._update(cell, now)
        else:
            self.buffers.clear(newer)

    def deliver_one(self, cell: int, now: int) -> None:
        """The result of the key's completed window reaches the application."""
        self._observe(now, was_busy=True)
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


def _at_once(cells: Ints, now: int) -> tuple[Ints, Ints]:
    return cells, np.full(len(cells), now)

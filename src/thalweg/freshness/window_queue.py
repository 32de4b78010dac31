"""An update queue whose unit is the window: the newest window of each key is served, whole.

Two rules say which window of a key is the newest:

    LAZY    the window that closed last. A key is served when a window of it is complete.
    EAGER   the window that started last. A key is served as soon as a window of it starts; its rows
            are processed as they arrive.
    AUTO    the rule of the two that would have served the latest rows fresher (`window_choice`).

EAGER saves processing a window after it is complete, but waits for its rows: during a gap in a
committed window the key gets no answer. Even gaps cost nothing, since the server works on other
keys; uneven gaps cost a time that does not grow with the window, while the saving of EAGER does.

Serving a key *commits* to its newest window. Other windows of the key are dropped as newer ones
close (LAZY) or start (EAGER); rows of the committed window are never dropped, and no other window
of the key is opened until its result is emitted. A key goes through these states, of which it may
be in two at once (waiting with newer rows while its committed window is processed):

    ENQ ----> WAIT     an update: a window closes (LAZY) or starts (EAGER)          is_update
    WAIT ---> READY    the operator commits to the key's newest window; a key whose committed window
                       is not finished keeps its place at the head until it is
    READY --> IDLE     the committed window has no more rows yet                    not is_available
    IDLE ---> READY    a row of the committed window arrives, or one beyond it      promotes
    READY --> DONE     the committed window is complete and all its rows are processed

The buffer of a key has two parts: rows of the committed window that are still to be processed, and
rows of newer windows. With one row a tick EAGER holds at most size + slide - 1 rows of a key, one
of which the operator is working on; LAZY, which holds a complete window and those that are open, as
many besides the committed window.

When no page is left for a row, the windows that contain it have lost a row and get no answer; that
is counted.

Rows of a key come in order of their time, at most one a tick; a row that is not younger than the
one before it is outdated, and counted. So a window is complete when a row at its last tick or
beyond has come. Windows begin with the first row of a key.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.freshness._arrays import NEVER, Ints
from thalweg.freshness.window_enqueue import WindowEnqueue
from thalweg.freshness.window_keys import KeyState
from thalweg.freshness.window_marks import DISALLOW, UPDATE

__all__ = ["KeyState", "Run", "Step", "WindowQueue"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the operator: a row to process, or a window to close."""

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
    """Whether the result of the window is complete after this step."""


@dataclass(frozen=True, slots=True)
class Run:
    """Several steps of the operator, all of one window."""

    cell: int
    window: int
    numbers: Ints
    """The numbers that came with the rows."""
    steps: int
    begins: bool
    """Whether the first row opens the window."""
    completes: bool


class WindowQueue(WindowEnqueue):
    """
    >>> from thalweg.freshness.pages import PagedMemory, PagePool
    >>> from thalweg.freshness.schedules import make_schedule
    >>> from thalweg.freshness.window_marks import UpdateWindow
    >>> memory = PagedMemory(PagePool(4, 4))
    >>> queue = WindowQueue(UpdateWindow(3, 1), "lazy", memory, make_schedule("in-place"))
    >>> queue.grow(1)
    >>> for time in (1, 2, 3, 4):
    ...     _ = queue.arrive_one(0, time, now=time)
    >>> [(step.window, step.time, step.mark) for step in iter(lambda: queue.next_step(5), None)]
    [(2, 2, 4), (2, 3, 0), (2, 4, 0)]
    """

    def next_step(self, now: int) -> Step | None:
        """The operator's next step: keys with a committed window come before keys that wait."""
        self._observe(now, was_busy=self._is_busy)
        step = None
        while step is None and (cell := self._next_ready(now)) >= 0:
            step = self._work_on(cell)
        self._note_steps(0 if step is None else 1, now)
        return step

    def next_run(self, now: int, most: int) -> Run | None:
        """As up to `most` calls of `next_step` at `now`, while they are for one window."""
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
            if self._to_commit:
                cell = self._to_commit.popleft()
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

    def _work_on(self, cell: int) -> Step:
        """The next step of a committed window."""
        start = int(self._committed[cell])
        location = self.buffers.pop(2 * cell)
        complete = not self.buffers.count[2 * cell] and self._is_closed(cell)
        time, mark, number = NEVER, UPDATE, -1
        if location >= 0:
            time, number = int(self.row_time[location]), int(self.row_number[location])
            worked = int(self._processed[cell])
            if worked == NEVER:
                mark = self.window.last_tick(start)
            elif self.window.starts(worked, time):
                mark = DISALLOW
            self._processed[cell] = time
        if complete:
            self._ready.popleft()
            self._finish(cell)
        return Step(cell, start, location, number, time, mark, complete)

    def _work_on_many(self, cell: int, most: int) -> Run:
        start = int(self._committed[cell])
        begins = bool(self._processed[cell] == NEVER)
        locations = self.buffers.pop_many(2 * cell, most)
        if len(locations):
            self._processed[cell] = self.row_time[locations[-1]]
        complete = not self.buffers.count[2 * cell] and self._is_closed(cell)
        if complete:
            self._ready.popleft()
            self._finish(cell)
        numbers = self.row_number[locations]
        return Run(cell, start, numbers, max(1, len(locations)), begins, complete)

    def _commit(self, cell: int, since: int, now: int) -> None:
        self.ledger.take_one(cell, since, now)
        self.taken[cell] += 1
        start = int(self._offered[cell])
        self._offered[cell] = NEVER
        self._committed[cell] = self._served[cell] = start
        self._stale_since[cell] = self._processed[cell] = NEVER
        self._ready.append(cell)
        if self._eager[cell]:
            self.buffers.move(2 * cell + 1, 2 * cell)
        elif not self._copy_offered(cell, start):
            self._abandon(cell)

    def _copy_offered(self, cell: int, start: int) -> bool:
        """LAZY: copy the rows of a complete window, which newer windows may share; False if there
        is no room."""
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
        """Set the rule for the windows after the one that was just committed to."""
        if eager == self._eager[cell]:
            return
        self._eager[cell] = eager
        if not eager:
            self._whole_from[cell] = self._served[cell] + self.window.slide
            return
        # LAZY holds all rows of the window that started last: that is the one to offer.
        start = self.window.newest_start(int(self._newest[cell]))
        newer = 2 * cell + 1
        self._drop_rows_before(newer, start)
        if start > self._served[cell] and self.buffers.count[newer]:
            self._whole_from[cell] = self._offered[cell] = start
            self._update(cell, now)
        else:
            self.buffers.clear(newer)

    def deliver_one(self, cell: int, now: int) -> None:
        """Note that the result of the key's completed window has reached the application."""
        self._observe(now, was_busy=True)
        self.ledger.deliver_one(cell, now, int(self._stale_since[cell]))

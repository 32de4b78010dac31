"""Adds rows to an update queue of windows, one by one or in batches.

A row joins the committed window of its key, if that is still open, and under LAZY or EAGER (see
`window_queue`) the newer windows of the key. When it closes a window (LAZY) or starts one (EAGER),
that is the newest window of the key, which then waits to be served. A batch has the same effect as
its rows one by one.
"""

from __future__ import annotations

import numpy as np

from thalweg.freshness._arrays import NEVER, Ints, Mask
from thalweg.freshness.arrivals import group_by_cell
from thalweg.freshness.schedules import Standing
from thalweg.freshness.window_arrivals import (
    KeyedRows,
    closed_windows,
    last_of_each,
    newest_closed,
    rows_by_key,
)
from thalweg.freshness.window_keys import WindowKeys

__all__ = ["WindowEnqueue"]

_FEW = 8
"""Up to this many rows are added faster one by one than as a batch."""


class WindowEnqueue(WindowKeys):
    """The keys of a queue, and rows that arrive for them."""

    def arrive_one(self, cell: int, time: int, now: int, number: int = 0) -> bool:
        """Add a row of source time `time` that arrives at `now`; returns whether it was in order.
        `number` is kept with the row; a negative number means that there is no room for it."""
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
        """As `arrive_one` for each row in turn; returns which rows were in order.

        Rows for which there is room in any case are added together, others in ever shorter runs:
        which of them are refused depends on the room that the rows before them have freed.
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
        closing_cells = at[np.unique(rows.owner[closes])]
        self.ledger.arrive(closing_cells, np.full(len(closing_cells), now))
        newer = np.unique(rows.owner[closes & (closing > self._served[at][rows.owner])])
        newly = at[newer][self._stale_since[at[newer]] == NEVER]
        self._stale_since[newly] = now
        return in_order

    def _replace_eager(self, rows: KeyedRows, numbers: Ints, last: Ints, eager: Mask) -> None:
        """EAGER: store the rows from the last start on, and drop the rows of older windows."""
        starts = eager & (last >= 0)
        cells = rows.cells[starts]
        self.buffers.clear_many(2 * cells + 1)
        self._whole_from[cells] = self._offered[cells]
        goes_on = eager & (last < 0) & (self.buffers.count[2 * rows.cells + 1] > 0)
        begin = np.where(starts, last, np.where(goes_on, rows.first, len(rows.row)))
        stored = np.arange(len(rows.row)) >= begin[rows.owner]
        self._store_all(rows, numbers, stored, newer=1)

    def _append_lazy(self, rows: KeyedRows, numbers: Ints, eager: Mask) -> None:
        """LAZY: store all rows, then drop those before every window that is or may be offered."""
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

    def _update_all(self, cells: Ints, now: int) -> None:
        """Note that the keys of these rows, in order of arrival, have newer windows to offer."""
        if not len(cells):
            return
        batch = group_by_cell(cells, np.full(len(cells), now), self._scratch)
        self.updates[batch.distinct] += batch.counts
        by_row = self.rates.rates_of_rows(batch) if self._schedule.needs_row_rates else None
        rates, key_counts = self.rates.arrive(batch)
        in_line = self._parked_since[batch.distinct] == NEVER
        if not in_line.all():
            kept = in_line[batch.group]
            batch = group_by_cell(cells[kept], batch.times[kept], self._scratch)
            by_row = None if by_row is None else by_row[kept]
            rates, key_counts = rates[in_line], key_counts[in_line]
        standing = Standing(rates if by_row is None else by_row, key_counts, self._service_cost())
        self._schedule.arrive(batch, standing)

    def _enqueue_eager(self, cell: int, time: int, now: int, number: int, *, starts: bool) -> None:
        newer = 2 * cell + 1
        if starts:
            self.buffers.clear(newer)
            self._whole_from[cell] = self._offered[cell] = self.window.newest_start(time)
        elif not self.buffers.count[newer]:
            return  # the newest window is the committed window, or it has lost a row
        if not self._store(newer, time, number):
            self._drop_offered(cell, time)
        elif starts:
            self._update(cell, now)

    def _enqueue_lazy(
        self, cell: int, time: int, now: int, number: int, closing: int | None
    ) -> None:
        newer = 2 * cell + 1
        if not self._store(newer, time, number):
            self._drop_offered(cell, time)
            return
        if closing is not None and closing >= self._whole_from[cell]:
            self._offered[cell] = closing
            self._update(cell, now)
        self._drop_useless(cell)

    def _drop_useless(self, cell: int) -> None:
        """LAZY: drop the rows before every window that is or may be offered."""
        needed = int(self._offered[cell])
        if needed == NEVER:
            needed = self.window.newest_closed(int(self._newest[cell])) + self.window.slide
        self._drop_rows_before(2 * cell + 1, needed)

    def _add_to_committed(self, cell: int, time: int, number: int) -> None:
        """Store a row if it belongs to the committed window. Such a row, or one after the window,
        makes an idle key ready."""
        committed = int(self._committed[cell])
        if committed == NEVER:
            return
        if time <= self.window.last_tick(committed) and not self._store(2 * cell, time, number):
            self._abandon(cell)
        elif self._idle[cell]:
            self._idle[cell] = False
            self._ready.append(cell)

    def _update(self, cell: int, now: int) -> None:
        """Note that the key has a newer window to offer."""
        self.updates[cell] += 1
        rate = self.rates.arrive_one(cell, now)
        if self._parked_since[cell] != NEVER:
            return
        self._schedule.arrive_one(cell, now, rate, self.rates.key_count, self._service_cost())

    def _drop_offered(self, cell: int, time: int) -> None:
        """Drop the windows that contain a refused row: they would not be whole."""
        self.buffers.clear(2 * cell + 1)
        self._whole_from[cell] = self.window.newest_start(time) + self.window.slide
        self._offered[cell] = NEVER
        if self._parked_since[cell] != NEVER:
            self._parked_since[cell] = NEVER
            if cell in self._to_commit:
                self._to_commit.remove(cell)
        elif self._schedule.since[cell] != NEVER:
            self._schedule.remove(np.array([cell]))
        else:
            return
        self.taken[cell] += 1
        self.lost[cell] += 1

"""An update queue of windows, with their rows: it hands out whole windows of keys.

`WindowQueue` decides which window of which key is served; this module holds the rows. A row lies in
a slot of a row store, and the queue identifies it by the number of its slot. Slots of rows that no
window needs any more are found all at once, when room is needed.

A window is handed out when all its rows have been served, so there is never an answer from a part
of its rows. Its rows then start when the window does: that is the mark by which the aggregate
assigns them.

**Promises.** With T promised for the rows to come and r the earliest time of a held row, windows
that are handed out later start after min(T, r) - size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.freshness._arrays import Ints
from thalweg.freshness.key_table import KeyTable
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.queue_status import Admission, QueueStatus, Staleness
from thalweg.freshness.row_store import RowStore
from thalweg.freshness.schedules import Schedule
from thalweg.freshness.window_choice import make_window_queue
from thalweg.freshness.window_marks import UpdateWindow

__all__ = ["NewestWindows", "ServedWindows"]

_BLOCK_ROWS = 8
_PAGE_BLOCKS = 32
_NO_ROOM = -1
"""The number of a row that is not held: windows that contain it are lost."""
_ROW_BYTES = 48
"""The bytes of a row besides its values: its places in the buffers of windows."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedWindows:
    """Rows of whole windows, one window after the other."""

    rows: pa.RecordBatch
    starts: Ints
    """For each row, the start of its window ..."""
    owners: Ints
    """... and the cell of its key."""
    cells: list[int]
    """The keys whose answers follow."""


class NewestWindows:
    """
    >>> from thalweg.freshness.schedules import make_schedule
    >>> schema = pa.schema({"symbol": pa.string(), "price": pa.int64()})
    >>> window = UpdateWindow(size=2, slide=2)
    >>> queue = NewestWindows(schema, ("symbol",), window, "lazy", make_schedule("in-place"))
    >>> rows = pa.record_batch({"symbol": ["IBM"] * 5, "price": [1, 2, 3, 4, 5]})
    >>> queue.enqueue(rows, np.array([0, 1, 2, 3, 4]), now=9)
    Admission(accepted=5, outdated=0, refused=0)
    >>> served = queue.serve(10, now=9)
    >>> served.rows.column("price").to_pylist(), served.starts.tolist()   # [0, 2) was conflated
    ([3, 4], [2, 2])
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: tuple[str, ...],
        window: UpdateWindow,
        rule: str,
        schedule: Schedule,
        *,
        capacity: int = 256 * 2**20,
        text_bytes: int = 64,
    ) -> None:
        self.schema = schema
        self.key = key
        self.window = window
        self._row_bytes = RowStore.row_bytes(schema, text_bytes) + _ROW_BYTES
        pages = max(1, capacity // (self._row_bytes * _BLOCK_ROWS * _PAGE_BLOCKS))
        slots = self._slots = pages * _BLOCK_ROWS * _PAGE_BLOCKS
        memory = PagedMemory(PagePool(pages, _PAGE_BLOCKS))
        self.windows = make_window_queue(window, rule, memory, schedule, block_rows=_BLOCK_ROWS)
        self._table = KeyTable([schema.field(name) for name in key]) if key else None
        self._store = RowStore(schema, slots, text_bytes)
        self._free = np.arange(slots)
        self._partial: dict[int, list[Ints]] = {}
        """By cell: the slots of the rows of its committed window that have been served."""
        self._given = 0
        """How many slots were assigned to rows so far."""
        self._collected = (-1, -1)
        """`_given`, and the number of rows that had left, at the last `_collect`."""
        self._refused = 0
        self._began: int | None = None

    def enqueue(self, rows: pa.RecordBatch, times: Ints, *, now: int) -> Admission:
        """Rows with their source times, in order of arrival."""
        self._began = now if self._began is None else self._began
        fits = self._store.fits(rows)
        kept = np.arange(len(rows)) if fits is None else np.flatnonzero(fits)
        cells = self._cells(rows)
        kept = kept[cells[kept] >= 0]
        if len(kept) > len(self._free):
            self._collect()
        if len(kept) > len(self._free) and len(rows) > 1:
            # Rows of the first half may free slots for the second.
            half = len(rows) // 2
            first = self.enqueue(rows.slice(0, half), times[:half], now=now)
            return first + self.enqueue(rows.slice(half), times[half:], now=now)
        kept = kept[: len(self._free)]
        slots = np.full(len(rows), _NO_ROOM)
        slots[kept], self._free = self._free[: len(kept)], self._free[len(kept) :]
        self._given += len(kept)
        self._store.write(slots[kept], rows.take(pa.array(kept)))
        with_cell = np.flatnonzero(cells >= 0)
        pages_missed = self.windows.without_page
        in_order = self.windows.arrive(cells[with_cell], times[with_cell], now, slots[with_cell])
        missed = self.windows.without_page - pages_missed
        outdated = int((~in_order & (slots[with_cell] != _NO_ROOM)).sum())
        refused = len(rows) - len(kept) + missed
        self._refused += refused
        return Admission(len(kept) - outdated - missed, outdated, refused)

    def serve(self, rows: int, *, now: int) -> ServedWindows:
        """Serve up to `rows` rows; returns the windows that are complete now."""
        slots: list[Ints] = [np.empty(0, np.int64)]
        starts: list[int] = []
        cells: list[int] = []
        while rows > 0:
            run = self.windows.next_run(now, rows)
            if run is None:
                break
            rows -= run.steps
            if run.begins:
                self._partial[run.cell] = []
            self._partial[run.cell].append(run.numbers)
            if run.completes:
                slots.append(np.concatenate(self._partial.pop(run.cell)))
                starts.append(run.window)
                cells.append(run.cell)
        sizes = [len(whole) for whole in slots[1:]]
        taken = self._store.read(np.concatenate(slots))
        return ServedWindows(
            taken,
            np.repeat(np.array(starts, np.int64), sizes),
            np.repeat(np.array(cells, np.int64), sizes),
            cells,
        )

    def deliver(self, served: ServedWindows, *, now: int) -> None:
        """Note that the answers have reached the application."""
        for cell in served.cells:
            self.windows.deliver_one(cell, now)

    def earliest_held(self) -> int | None:
        """The earliest time of a row that a window may still need."""
        held = self.windows.held_times()
        begun = self.windows.committed_starts()  # first rows of these are out of the buffers
        return min([*held.tolist(), *begun.tolist()], default=None)

    @property
    def waiting(self) -> int:
        """Keys with a window that waits or is being served."""
        return self.windows.busy_keys()

    def status(self, *, now: int) -> QueueStatus:
        """Counts of windows; refused are rows for which there was no room."""
        windows, size = self.windows, self.windows.size
        self._began = now if self._began is None else self._began
        staleness = Staleness.of(
            windows.application_staleness(now),
            float(windows.application_area(now).sum()),
            float(windows.queue_area(now).sum()),
            keys=size,
            elapsed=now - self._began,
        )
        return QueueStatus(
            keys=size,
            forgotten=0,
            waiting=self.waiting,
            arrived=int(windows.updates.sum()),
            taken=int(windows.taken.sum()),
            conflated=int(windows.conflated().sum()),
            outdated=int(windows.outdated.sum()),
            refused=self._refused,
            staleness_now=staleness.now,
            staleness_p99=staleness.p99,
            staleness_average=staleness.average,
            queue_staleness_average=staleness.queue_average,
            longest_wait=windows.ledger.longest_wait,
            bytes_used=self._row_bytes * (self._slots - len(self._free)),
            bytes_allowed=self._row_bytes * self._slots,
        )

    def _cells(self, rows: pa.RecordBatch) -> Ints:
        """The cell of each row, -1 for keys that are too long, or too many. A row that does not fit
        has a cell like any other: it takes windows with it, of a key that is new too."""
        if self._table is None:
            self.windows.grow(1)
            return np.zeros(len(rows), np.int64)
        columns = [rows.column(name) for name in self.key]
        fits = self._store.fits(rows, self.key)
        if fits is None:
            cells = self._table.cells(columns, limit=self._slots)
        else:
            fitting = np.flatnonzero(fits)
            chosen = pa.array(fitting)
            cells = np.full(len(rows), -1)
            cells[fitting] = self._table.cells([c.take(chosen) for c in columns], limit=self._slots)
        self.windows.grow(self._table.size)
        return cells

    def _collect(self) -> None:
        """Find the slots that no window needs, if there can be any."""
        moved = self._given, self.windows.buffers.left
        if moved == self._collected:
            return
        self._collected = moved
        worked = [part for parts in self._partial.values() for part in parts]
        taken = np.zeros(self._slots, np.bool_)
        taken[np.concatenate([self.windows.held_numbers(), *worked])] = True
        self._free = np.flatnonzero(~taken)

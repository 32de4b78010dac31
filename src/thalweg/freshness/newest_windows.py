"""Windows behind an update queue, with their rows: what leaves is a whole window of a key.

`WindowQueue` decides which window of which key is served; this module holds the rows. A row lies in
a slot of a row store, and the queue knows it by the number of its slot. Slots of rows that no
window needs any more are found when room is needed, all at once.

A window leaves when all its rows have been served. Each of them starts where the window does: that
is its mark, and the aggregate goes by it. No row of a window leaves before the window is whole, so
there is never an answer from half of its rows.

**Promises.** With T promised for the rows to come and r the earliest time of a row that is held, a
window that is still to leave starts after min(T, r) - size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.freshness._arrays import Ints
from thalweg.freshness.key_table import KeyTable
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.row_store import RowStore
from thalweg.freshness.schedules import Schedule
from thalweg.freshness.update_queue import Admission, QueueStatus
from thalweg.freshness.window_marks import UpdateWindow
from thalweg.freshness.window_queue import WindowQueue

__all__ = ["NewestWindows", "ServedWindows"]

_BLOCK_ROWS = 8
_PAGE_BLOCKS = 32
_NO_ROOM = -1
"""The number of a row that is not held: windows that contain it are lost."""
_ROW_BYTES = 48
"""What a row takes besides its values: its places in the buffers of windows."""


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
        self.windows = WindowQueue(window, rule, memory, schedule, block_rows=_BLOCK_ROWS)
        self._table = KeyTable([schema.field(name) for name in key]) if key else None
        self._store = RowStore(schema, slots, text_bytes)
        self._free = np.arange(slots)
        self._partial: dict[int, list[int]] = {}
        """By cell: the slots of its committed window that have been worked on."""
        self._refused = 0
        self._began: int | None = None

    def enqueue(self, rows: pa.RecordBatch, times: Ints, *, now: int) -> Admission:
        """Rows with their source times, in order of arrival."""
        self._began = now if self._began is None else self._began
        fits = self._store.fits(rows)
        kept = np.arange(len(rows)) if fits is None else np.flatnonzero(fits)
        cells = self._cells(rows, kept)
        kept = kept[cells[kept] >= 0]
        if len(kept) > len(self._free):
            self._collect()
        kept = kept[: len(self._free)]
        slots = np.full(len(rows), _NO_ROOM)
        slots[kept], self._free = self._free[: len(kept)], self._free[len(kept) :]
        self._store.write(slots[kept], rows.take(pa.array(kept)))
        known = np.flatnonzero(cells >= 0)
        outdated = 0
        for cell, time, slot in zip(
            cells[known].tolist(), times[known].tolist(), slots[known].tolist(), strict=True
        ):  # the states of a key change with each of its rows
            outdated += not self.windows.arrive_one(cell, time, now, slot) and slot != _NO_ROOM
        refused = len(rows) - len(kept)
        self._refused += refused
        return Admission(len(kept) - outdated, outdated, refused)

    def serve(self, rows: int, *, now: int) -> ServedWindows:
        """Work on up to `rows` rows; the windows that are whole thereby."""
        slots: list[int] = []
        starts: list[int] = []
        owners: list[int] = []
        cells: list[int] = []
        steps = 0
        while steps < rows:
            step = self.windows.next_step(now)
            if step is None:
                break
            steps += 1
            if step.number >= 0:
                if step.mark > 0:
                    self._partial[step.cell] = []
                self._partial[step.cell].append(step.number)
            if step.completes:
                whole = self._partial.pop(step.cell, [])
                slots += whole
                starts += [step.window] * len(whole)
                owners += [step.cell] * len(whole)
                cells.append(step.cell)
        taken = self._store.read(np.array(slots, np.int64))
        return ServedWindows(taken, np.array(starts, np.int64), np.array(owners, np.int64), cells)

    def deliver(self, served: ServedWindows, *, now: int) -> None:
        """The answers have reached the application."""
        for cell in served.cells:
            self.windows.deliver_one(cell, now)

    def earliest_held(self) -> int | None:
        """The earliest time of a row that a window may still need."""
        held = self.windows.held_times()
        begun = self.windows.committed_starts()  # first rows of these are out of the buffers
        return min([*held.tolist(), *begun.tolist()], default=None)

    @property
    def waiting(self) -> int:
        """Keys with a window that waits or is worked on."""
        return self.windows.busy_keys()

    def status(self, *, now: int) -> QueueStatus:
        """Counts of windows; refused are rows for which there was no room."""
        windows, size = self.windows, self.windows.size
        known = max(size, 1)
        stale = windows.application_staleness(now)
        self._began = now if self._began is None else self._began
        elapsed = max(now - self._began, 1)
        return QueueStatus(
            keys=size,
            forgotten=0,
            waiting=self.waiting,
            arrived=int(windows.updates.sum()),
            taken=int(windows.taken.sum()),
            conflated=int(windows.conflated().sum()),
            outdated=int(windows.outdated.sum()),
            refused=self._refused,
            staleness_now=float(stale.mean()) if size else 0.0,
            staleness_p99=float(np.percentile(stale, 99)) if size else 0.0,
            staleness_average=float(windows.application_area(now).sum()) / known / elapsed,
            queue_staleness_average=float(windows.queue_area(now).sum()) / known / elapsed,
            longest_wait=windows.ledger.longest_wait,
            bytes_used=self._row_bytes * (self._slots - len(self._free)),
            bytes_allowed=self._row_bytes * self._slots,
        )

    def _cells(self, rows: pa.RecordBatch, kept: Ints) -> Ints:
        """The cell of each row, -1 for keys that are not known: `kept` rows may bring new ones."""
        if self._table is None:
            self.windows.grow(1)
            return np.zeros(len(rows), np.int64)
        columns = [rows.column(name) for name in self.key]
        cells = np.full(len(rows), -1)
        if len(kept):
            chosen = pa.array(kept)
            cells[kept] = self._table.cells([c.take(chosen) for c in columns], limit=self._slots)
        if len(kept) < len(rows):
            others = np.setdiff1d(np.arange(len(rows)), kept)
            chosen = pa.array(others)
            cells[others] = self._table.cells([c.take(chosen) for c in columns], limit=0)
        self.windows.grow(self._table.size)
        return cells

    def _collect(self) -> None:
        """Find the slots that no window needs."""
        used = [self.windows.held_numbers(), *(np.array(held) for held in self._partial.values())]
        taken = np.zeros(self._slots, np.bool_)
        taken[np.concatenate(used).astype(np.int64)] = True
        self._free = np.flatnonzero(~taken)

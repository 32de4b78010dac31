"""An update queue that survives crashes: acknowledged rows are on disk, and batches are cut once.

Rows are written to a log before they are acknowledged (`sync`; many calls share one). A *cut* takes
rows out of the queue and writes them to a file of their own, under the next number: a consumer of
cut n may read it any number of times and always finds the same rows. The file is removed when the
cut is committed. An uncommitted cut survives a restart, and is processed first.

    after a crash, for every key: its newest acknowledged row waits, or is in a cut that is not
    committed, or was in a committed cut; and no older row of the key follows

The log holds rows as they arrived, and for each cut its number and keys. It is compacted to the
waiting rows when it has grown to several times their size. A cut is written as a file first, then
as a log record; a file without a record was never offered, so its rows still wait, and it is
removed.

The order of arrival is the order of updates; where a column says when a row was made (`time`), a
row that is older than the newest seen of its key is outdated. Totals continue after a restart;
staleness averages begin anew, and the counts of single keys begin with the last compaction. Rows
that waited through a restart, or were in a cut that is still open, keep their arrival times. An
adaptive queue (`target`) is an update queue after a restart: only the newest row in line of each
key is left. A compaction followed by a restart forgets the times seen of keys that did not wait: an
older row of such a key is taken for an update.

**Promises.** With `time` and `disorder`, a cut carries a promise in its file: no row of a later cut
is earlier. It is the smaller of (largest time seen - disorder) and the earliest time that waits
after the cut, so no row is late because it had to wait.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from enum import IntEnum
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import InputError, PlanError, StateError
from thalweg.freshness._arrays import NEVER
from thalweg.freshness.adaptive_queue import make_queue
from thalweg.freshness.cuts import Cut, cut_numbers, drop_unfinished_cuts
from thalweg.freshness.queue_status import Admission
from thalweg.freshness.schedules import Schedule
from thalweg.freshness.update_log import Record, UpdateLog
from thalweg.freshness.update_queue import Taken
from thalweg.io.row_bytes import read_rows, write_rows
from thalweg.io.whole_files import sync_folder, write_whole

__all__ = ["DurableQueue"]

_ARRIVED = "_arrived"
_IDENTITY = "identity"
_COMPACT_FROM = 4 * 2**20


class RecordKind(IntEnum):
    """The kinds of records in the log."""

    SCHEMA = 0
    ROWS = 1
    CUT = 2
    NEWEST = 3
    FILE = 4
    TOTALS = 5


class DurableQueue:
    """
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> schema = pa.schema({"symbol": pa.string(), "price": pa.int64()})
    >>> queue = DurableQueue(folder, schema, key="symbol")
    >>> rows = pa.record_batch({"symbol": ["IBM", "GM", "IBM"], "price": [24, 40, 25]})
    >>> queue.enqueue(rows, now=1)
    Admission(accepted=3, outdated=0, refused=0)
    >>> queue.sync()                                       # now it may be acknowledged
    >>> queue.cut(1, now=2).read().to_pylist()
    [{'symbol': 'IBM', 'price': 25}]
    >>> queue.close()
    >>> again = DurableQueue(folder, schema, key="symbol")
    >>> [cut.number for cut in again.uncommitted], again.queue.waiting
    ([1], 1)
    >>> again.close()
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        key: str | Sequence[str] = (),
        *,
        schedule: str | Schedule = "gain",
        time: str | None = None,
        disorder: int | None = None,
        capacity: int = 256 * 2**20,
        target: int | None = None,
    ) -> None:
        if time is not None:
            _require_time(schema, time)
        self.queue = make_queue(
            schema, key, schedule=schedule, time=time, capacity=capacity, target=target
        )
        self._time = time
        self._disorder = disorder
        self._newest = NEVER
        """The largest time seen in the data."""
        self._folder = folder
        self._log = UpdateLog(folder)
        self._logged = pa.schema([*schema, (_ARRIVED, pa.int64())])
        self._schema_record = json.dumps(
            {"schema": str(schema), "key": list(self.queue.key)}
        ).encode()
        self._taken: dict[int, Taken] = {}
        self._open: dict[int, Cut] = {}
        self.last_cut = 0
        self.taken_files: set[str] = set()
        """Files whose rows are in the log, and which may still be in the inbox."""
        try:
            self._recover()
        except BaseException:
            self._log.close()
            raise

    @property
    def uncommitted(self) -> list[Cut]:
        """Cuts that are still to be processed, oldest first."""
        return [self._open[number] for number in sorted(self._open)]

    @property
    def committed(self) -> int:
        """The number of the last committed cut."""
        return min(self._open, default=self.last_cut + 1) - 1

    @property
    def identity(self) -> str:
        """An identifier of this queue, unique among all queues, for the life of its folder."""
        path = self._folder / _IDENTITY
        if not path.exists():
            write_whole(path, uuid.uuid4().hex)
            sync_folder(self._folder)
        return path.read_text(encoding="ascii")

    def enqueue(self, rows: pa.RecordBatch, *, now: int) -> Admission:
        """Take rows in; they may be acknowledged after the next `sync`."""
        if self._time is not None and rows.schema == self.queue.schema:
            nulls = rows.column(self._time).null_count
            if nulls:
                raise InputError(f"{nulls} rows have no {self._time}, which is their time.")
        admitted, rows = self.queue.enqueue_accepted(rows, now=now)
        if not admitted.accepted:
            return admitted
        self._see_times(rows)
        arrived = pa.array(np.full(len(rows), now, np.int64))
        logged = pa.record_batch([*rows.columns, arrived], schema=self._logged)
        self._log.append(RecordKind.ROWS, write_rows(logged))
        return admitted

    def note_file(self, mark: str) -> None:
        """Log that the rows enqueued last came from a file, so that it is not read again."""
        self._log.append(RecordKind.FILE, mark.encode())
        self.taken_files.add(mark)

    def forget_file(self, mark: str) -> None:
        """The file was removed."""
        self.taken_files.discard(mark)

    def sync(self) -> None:
        """Return when all rows that were taken in are on disk."""
        self._log.sync()
        if self._log.nbytes > max(_COMPACT_FROM, 4 * self.queue.nbytes):
            self._log.compact(self._summary())

    def cut(self, count: int, *, now: int) -> Cut:
        """Take up to `count` rows out, under the next number."""
        taken = self.queue.dequeue(count, now=now)
        number = self.last_cut + 1
        cut = Cut.write(self._folder, number, taken.rows, self._promise())
        self._log.append(RecordKind.CUT, self._cut_record(number, self.queue.finished_keys(taken)))
        self._log.sync()
        self.last_cut = number
        self._taken[number] = taken
        self._open[number] = cut
        return cut

    def next_cut(self, after: int, count: int, *, now: int) -> Cut | None:
        """The oldest open cut with a number above `after`, else a new one; None if nothing
        waits."""
        for cut in self.uncommitted:
            if cut.number > after:
                return cut
        return self.cut(count, now=now) if self.queue.waiting else None

    def deliver(self, number: int, *, now: int) -> None:
        """Note that results of the cuts up to `number` have reached the application, which ends
        their staleness."""
        for cut_number in sorted(self._taken):
            if cut_number <= number:
                self.queue.deliver(self._taken.pop(cut_number), now=now)

    def commit(self, number: int) -> None:
        """Cuts up to `number` will not be requested again: remove their files."""
        finished = [cut_number for cut_number in self._open if cut_number <= number]
        for cut_number in finished:
            self._open.pop(cut_number).path.unlink(missing_ok=True)
        if finished:
            sync_folder(self._folder)

    def close(self) -> None:
        self._log.close()

    # ------------------------------------------------------------------------------------ recovery

    def _recover(self) -> None:
        written = set(cut_numbers(self._folder))
        records = self._log.records()
        first = next(records, None)
        if first is not None:
            with self.queue.conflating("it was started again"):  # cuts are taken out by key
                for record in chain([first], records):
                    self._replay(record, written)
        drop_unfinished_cuts(self._folder)
        for number in written:
            if number > self.last_cut:  # never offered: its rows still wait
                Cut.path_of(self._folder, number).unlink()
            else:
                self._open[number] = Cut.find(self._folder, number)
        self.queue.restart_measures()
        if first is None:
            self._log.append(RecordKind.SCHEMA, self._schema_record)
            self._log.sync()

    def _replay(self, record: Record, written: set[int]) -> None:
        """Apply a record of the log. `written` has the numbers of the cuts that have files."""
        if record.kind == RecordKind.SCHEMA and record.body != self._schema_record:
            raise StateError(
                f"the update log holds {record.body.decode()}; the queue was made for "
                f"{self._schema_record.decode()}. Use another folder, or the old schema."
            )
        if record.kind == RecordKind.ROWS:
            logged = read_rows(record.body)
            rows = logged.select(self.queue.schema.names)
            self._see_times(rows)
            self.queue.enqueue(rows, arrived=logged.column(_ARRIVED).to_numpy())
        elif record.kind == RecordKind.TOTALS:
            self.queue.add_totals(json.loads(record.body))
        elif record.kind == RecordKind.FILE:
            self.taken_files.add(record.body.decode())
        elif record.kind == RecordKind.NEWEST:
            self._newest = int.from_bytes(record.body, "little", signed=True)
        elif record.kind == RecordKind.CUT:
            self.last_cut = int.from_bytes(record.body[:8], "little")
            if len(record.body) == 8:
                return
            keys = read_rows(record.body[8:])
            is_open = self.last_cut in written  # if so, its keys stay stale until it is delivered
            taken = self.queue.take_out(keys, delivered=not is_open)
            if is_open:
                self._taken[self.last_cut] = taken

    def _summary(self) -> list[Record]:
        """The rows that wait, in the order of the schedule, and the number of the last cut."""
        rows, since = self.queue.waiting_rows()
        order = np.argsort(since, kind="stable")
        logged = pa.record_batch(
            [*rows.take(pa.array(order)).columns, pa.array(since[order])], schema=self._logged
        )
        return [
            Record(RecordKind.SCHEMA, self._schema_record),
            Record(RecordKind.CUT, self._cut_record(self.last_cut, rows.slice(0, 0))),
            Record(RecordKind.NEWEST, self._newest.to_bytes(8, "little", signed=True)),
            Record(RecordKind.TOTALS, json.dumps(self.queue.totals()).encode()),
            *(Record(RecordKind.FILE, mark.encode()) for mark in sorted(self.taken_files)),
            Record(RecordKind.ROWS, write_rows(logged)),
        ]

    def _see_times(self, rows: pa.RecordBatch) -> None:
        if self._time is not None and self._disorder is not None and len(rows):
            newest = pc.max(rows.column(self._time).cast(pa.int64())).as_py()
            self._newest = max(self._newest, NEVER if newest is None else newest)

    def _promise(self) -> int | None:
        if self._time is None or self._disorder is None or self._newest == NEVER:
            return None
        promise = self._newest - self._disorder
        held = self.queue.smallest_waiting(self._time)
        return promise if held is None else min(promise, held)

    def _cut_record(self, number: int, rows: pa.RecordBatch) -> bytes:
        """Number and keys; for a queue without a key, one column stands for the row taken."""
        keys = rows.select(list(self.queue.key) or rows.schema.names[:1])
        return number.to_bytes(8, "little") + (write_rows(keys) if len(rows) else b"")


def _require_time(schema: pa.Schema, time: str) -> None:
    kind = schema.field(time).type if time in schema.names else None
    if kind is not None and kind != pa.int64() and not _is_microseconds(kind):
        raise PlanError(
            f"time: {time!r} is {kind}; the times of a queue are int64 or timestamps in "
            "microseconds."
        )


def _is_microseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "us")

"""An update queue that survives: what was acknowledged is on disk, and batches are cut once.

Rows are written to a log before they are acknowledged (`sync`; many calls share one). A *cut* takes
rows out of the queue and writes them to a file of their own, under the next number: whoever works
on cut n may read it again and again and always finds the same rows. The file goes when the cut is
committed. A cut that was never committed is there after a restart, and is to be worked on first.

    after a crash, for every key: its newest acknowledged row waits, or is in a cut that is not
    committed, or was in a committed cut; and no older row of the key follows

The log holds rows as they came, and for each cut its number and keys. It is compacted to the rows
that wait when it has grown to several times their size. Order on disk of a cut: file, then log
record; a file without a record was never offered, its rows still wait, and it is removed.

The order of arrival is the order of updates. Staleness averages begin anew with the process; what
waited through a restart is as old as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from thalweg.errors import StateError
from thalweg.freshness.update_log import Record, UpdateLog, sync_folder
from thalweg.freshness.update_queue import Admission, Taken, UpdateQueue

__all__ = ["Cut", "DurableQueue"]

_SCHEMA, _ROWS, _CUT = 0, 1, 2
_ARRIVED = "_arrived"
_COMPACT_FROM = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Cut:
    """A numbered batch of rows."""

    number: int
    path: Path
    rows: int

    def read(self) -> pa.Table:
        with pa.OSFile(str(self.path)) as file:
            return pa.ipc.open_file(file).read_all()


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
    >>> [cut.number for cut in again.uncommitted], again.queue.keys.waiting()
    ([1], 1)
    >>> again.close()
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        key: str | Sequence[str] = (),
        *,
        schedule: str = "gain",
        capacity: int = 256 * 2**20,
    ) -> None:
        self.queue = UpdateQueue(schema, key, schedule=schedule, capacity=capacity)
        self._folder = folder
        self._log = UpdateLog(folder)
        self._logged = pa.schema([*schema, (_ARRIVED, pa.int64())])
        self._said = json.dumps({"schema": str(schema), "key": list(self.queue.key)}).encode()
        self._taken: dict[int, Taken] = {}
        self.last_cut = 0
        try:
            self._recover()
        except BaseException:
            self._log.close()
            raise

    @property
    def uncommitted(self) -> list[Cut]:
        """Cuts that are to be worked on, oldest first."""
        found = []
        for path in sorted(self._folder.glob("cut-*.arrow")):
            with pa.OSFile(str(path)) as file:
                rows = pa.ipc.open_file(file).read_all().num_rows
            found.append(Cut(_number(path), path, rows))
        return found

    def enqueue(self, rows: pa.RecordBatch, *, now: int) -> Admission:
        """Take rows in; they may be acknowledged after the next `sync`."""
        admitted = self.queue.enqueue(rows, now=now)
        if not admitted.accepted:
            return admitted
        arrived = pa.array(np.full(len(rows), now, np.int64))
        logged = pa.record_batch([*rows.columns, arrived], schema=self._logged)
        self._log.append(_ROWS, _to_bytes(logged))
        return admitted

    def sync(self) -> None:
        """Return when all rows that were taken in are on disk."""
        self._log.sync()
        if self._log.nbytes > max(_COMPACT_FROM, 4 * self.queue.nbytes):
            self._log.compact(self._summary())

    def cut(self, count: int, *, now: int) -> Cut:
        """Take up to `count` rows out, under the next number."""
        taken = self.queue.dequeue(count, now=now)
        number = self.last_cut + 1
        path = self._folder / f"cut-{number:012d}.arrow"
        unfinished = path.with_suffix(".tmp")
        with (
            pa.OSFile(str(unfinished), "wb") as file,
            pa.ipc.new_file(file, self.queue.schema) as writer,
        ):
            writer.write_batch(taken.rows)
        _sync_file(unfinished)
        unfinished.rename(path)
        sync_folder(self._folder)
        self._log.append(_CUT, self._cut_record(number, taken.rows))
        self._log.sync()
        self.last_cut = number
        self._taken[number] = taken
        return Cut(number, path, len(taken.rows))

    def deliver(self, number: int, *, now: int) -> None:
        """What follows from a cut has reached the application: staleness ends. A cut from before a
        restart has no staleness to end."""
        taken = self._taken.pop(number, None)
        if taken is not None:
            self.queue.deliver(taken, now=now)

    def commit(self, number: int) -> None:
        """Cuts up to `number` will not be asked for any more."""
        for cut in self.uncommitted:
            if cut.number <= number:
                cut.path.unlink()
        sync_folder(self._folder)

    def close(self) -> None:
        self._log.close()

    # ------------------------------------------------------------------------------------ recovery

    def _recover(self) -> None:
        empty = True
        for record in self._log.records():
            empty = False
            if record.kind == _SCHEMA and record.body != self._said:
                raise StateError(
                    f"the update log holds {record.body.decode()}; the queue was made for "
                    f"{self._said.decode()}. Use another folder, or the old schema."
                )
            if record.kind == _ROWS:
                logged = _from_bytes(record.body)
                arrived = logged.column(_ARRIVED).to_numpy()
                self.queue.enqueue(logged.select(self.queue.schema.names), arrived=arrived)
            elif record.kind == _CUT:
                self.last_cut = int.from_bytes(record.body[:8], "little")
                if len(record.body) > 8:
                    self.queue.discard(_from_bytes(record.body[8:]))
        for path in [*self._folder.glob("cut-*.tmp"), *self._folder.glob("cut-*.arrow")]:
            if path.suffix == ".tmp" or _number(path) > self.last_cut:
                path.unlink()
        self.queue.restart_measures()
        if empty:
            self._log.append(_SCHEMA, self._said)
            self._log.sync()

    def _summary(self) -> list[Record]:
        """The rows that wait, in the order of the schedule, and the number of the last cut."""
        rows, since = self.queue.waiting_rows()
        order = np.argsort(since, kind="stable")
        logged = pa.record_batch(
            [*rows.take(pa.array(order)).columns, pa.array(since[order])], schema=self._logged
        )
        return [
            Record(_SCHEMA, self._said),
            Record(_CUT, self._cut_record(self.last_cut, rows.slice(0, 0))),
            Record(_ROWS, _to_bytes(logged)),
        ]

    def _cut_record(self, number: int, rows: pa.RecordBatch) -> bytes:
        """Number and keys; without a key one column tells that the one row was taken."""
        keys = rows.select(list(self.queue.key) or rows.schema.names[:1])
        return number.to_bytes(8, "little") + (_to_bytes(keys) if len(rows) else b"")


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("cut-"))


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fdatasync(file.fileno())


def _to_bytes(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _from_bytes(body: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(body).read_next_batch()

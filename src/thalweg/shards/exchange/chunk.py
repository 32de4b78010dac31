"""What travels through an exchange: chunks of elements as Arrow bytes, each with a header.

One row of the exchange is (bucket, fragment, origin, seq, header, blob). Spark sees numbers, text
and bytes; it never touches a single element. The header says what the chunk promises and where in
its source it comes from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa

from thalweg.errors import StateError
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress, pack_values, unpack_values
from thalweg.model.rows import Rows, empty_rows
from thalweg.progress import Sighting

__all__ = [
    "EXCHANGE_COLUMNS",
    "EXCHANGE_SCHEMA",
    "UNORDERED",
    "Chunk",
    "ExchangeRow",
    "Header",
    "Message",
    "batch_of_blob",
    "blob_of_batch",
    "read_rows",
    "write_rows",
]

UNORDERED = -1
"""The `seq` of chunks that come in no order: parallel tasks of one micro-batch."""

EXCHANGE_COLUMNS = "bucket int, fragment int, origin string, seq long, header string, blob binary"
EXCHANGE_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("fragment", pa.int32()),
        ("origin", pa.string()),
        ("seq", pa.int64()),
        ("header", pa.string()),
        ("blob", pa.binary()),
    ]
)


class Message(StrEnum):
    """What a chunk carries. All but rows pass through the fragments on their way to the output."""

    ROWS = "rows"
    """Elements and progress of an input; the origin is the input's name."""
    LATE = "late"
    """Late rows of a source, its origin; or only their number, where partial sums came late."""
    SKIPPED = "skipped"
    """Windows that a module failed on; the origin is the operator."""
    DEAD = "dead"
    """Records of a source, its origin, that could not be read."""
    REPORT = "report"
    """What a bucket of an earlier fragment reports."""
    SOURCE = "source"
    """In a host: what a chunk of a source says, its origin, and the changes of its version, for
    all buckets of all stages."""
    ANSWER = "answer"
    """In a host: elements of the answer of a query, its origin."""


class ExchangeRow(NamedTuple):
    """One row of the exchange, as Spark sees it."""

    bucket: int
    fragment: int
    origin: str
    seq: int
    header: str
    blob: bytes | None


@dataclass(frozen=True, slots=True)
class Header:
    """Facts about a chunk, as of before any row of it was filtered out."""

    kind: Message = Message.ROWS
    partition: str = ""
    """The part of the source that it comes from: each has progress of its own."""
    newest: int | None = None
    """The largest sync time in it."""
    cti: int | None = None
    """A promise that follows it."""
    scope_columns: tuple[str, ...] = ()
    scoped: list[Any] = field(default_factory=list)
    """Promises for single groups: [values, time]; each value packed, since JSON has no word for
    dates and the like."""
    column_promises: list[Any] = field(default_factory=list)
    """Promises over columns: [columns, bounds]."""
    patterns: list[str] = field(default_factory=list)
    """General punctuation that follows it, as text."""
    begin: int | None = None
    """Where in its source it begins ..."""
    end: int | None = None
    """... and ends, in the source's own count, so that a gap or an overlap is seen."""
    rows: int = 0
    unwanted: int | None = None
    """How many of its rows were left out because no reader needs them (see `io.unwanted`)."""
    steps: list[Any] = field(default_factory=list)
    """Its last running maxima, for `late_by_rows` ..."""
    sample: list[Any] = field(default_factory=list)
    """... and a sample of its rows, for `estimated` (see `progress.summary`)."""
    change: str = ""
    """Of a part that is an input of a merge: whether it joins or leaves (`InputChange`) ..."""
    since: int | None = None
    """... and from which time on it is right."""
    clock: int | None = None
    """The time by the clock, of a chunk of a ticker, which carries nothing else."""
    asked: bool | None = None
    """Of such a chunk: whether it asks for a promise."""
    report: str = ""
    """Of a report: its text."""
    version: int | None = None
    """In a host: the version of its queries that the chunk was read for."""
    whole: int | None = None
    """In a host: windows of a query that was added later are whole from here on."""

    @property
    def progress(self) -> Progress:
        if self.cti is None and not self.scoped and not self.column_promises:
            return NO_PROGRESS
        common = NO_PROGRESS.cti if self.cti is None else self.cti
        scoped = {
            tuple(unpack_values(value)[0] for value in values): time for values, time in self.scoped
        }
        return Progress(
            common,
            tuple(self.scope_columns),
            scoped,
            {tuple(names): tuple(bounds) for names, bounds in self.column_promises},
        )

    def seeing(self, sighting: Sighting | None) -> Header:
        """The same chunk, with what its rows show."""
        return (
            self
            if sighting is None
            else replace(self, steps=sighting.steps, sample=sighting.sample)
        )

    @property
    def sighting(self) -> Sighting | None:
        return None if self.newest is None else Sighting(self.newest, self.steps, self.sample)

    def promising(self, progress: Progress) -> Header:
        """The same chunk with another promise."""
        cti = None if progress.cti == NO_PROGRESS.cti else progress.cti
        scoped = [
            [[pack_values([value]) for value in scope], time]
            for scope, time in progress.scoped.items()
        ]
        column_promises = [
            [list(names), list(bounds)] for names, bounds in progress.column_promises.items()
        ]
        return replace(
            self,
            cti=cti,
            scope_columns=progress.scope_columns,
            scoped=scoped,
            column_promises=column_promises,
        )

    def to_json(self) -> str:
        plain: tuple[object, ...] = (None, "", [], (), Message.ROWS)
        return json.dumps(
            {name: value for name in self.__slots__ if (value := getattr(self, name)) not in plain}
        )

    @classmethod
    def from_json(cls, text: str) -> Header:
        fields = json.loads(text)
        return cls(**fields | {"kind": Message(fields.get("kind", Message.ROWS))})

    @classmethod
    def of_progress(cls, progress: Progress, **fields: Any) -> Header:
        return cls(**fields).promising(progress)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A row of the exchange as a fragment sees it."""

    origin: str
    seq: int
    header: Header
    blob: bytes | None
    _read: list[Batch] = field(default_factory=list, compare=False)

    @classmethod
    def of(cls, origin: str, seq: int, header: str, blob: bytes | None) -> Chunk:
        """A chunk from the columns of its row."""
        content = None if blob is None else bytes(blob)
        return cls(origin, seq, Header.from_json(header), content)

    @classmethod
    def message(
        cls,
        kind: Message,
        origin: str = "",
        *,
        rows: int = 0,
        report: str = "",
        blob: bytes | None = None,
    ) -> Chunk:
        """What is not for a fragment, on its way to the output."""
        return cls(origin, 0, Header(kind, rows=rows, report=report), blob)

    def without_rows(self) -> Chunk:
        """The header and the place alone."""
        return Chunk(self.origin, self.seq, self.header, None)

    def to_row(self, bucket: int, fragment: int) -> ExchangeRow:
        """The chunk as a row for a bucket of a fragment."""
        header = self.header.to_json()
        return ExchangeRow(bucket, fragment, self.origin, self.seq, header, self.blob)

    def batch(self, schema: pa.Schema) -> Batch:
        """The elements, decoded once for all who share the chunk."""
        if self.blob is None:
            return Batch.empty(schema)
        if not self._read:
            self._read.append(batch_of_blob(self.blob))
        return self._read[0]


_IPC_OPTIONS = pa.ipc.IpcWriteOptions()
"""Made once: a writer without options reads them from the environment for every slice."""


def write_rows(rows: Rows) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_IPC_OPTIONS) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue().to_pybytes())


def read_rows(blob: bytes) -> Rows:
    try:
        table = pa.ipc.open_stream(blob).read_all()
    except (pa.ArrowInvalid, OSError) as reason:
        raise StateError(f"these bytes are no Arrow stream: {reason}.") from reason
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else empty_rows(table.schema)


def blob_of_batch(batch: Batch) -> bytes:
    """The elements of a batch, without its progress. A batch of inserts travels without `_kind` and
    `_new_end`."""
    if not batch.insert_only:
        return write_rows(batch.to_table().combine_chunks().to_batches()[0])
    arrays = [pa.array(batch.start), pa.array(batch.end), *batch.payload.columns]
    return write_rows(
        pa.RecordBatch.from_arrays(arrays, names=["_start", "_end", *batch.schema.names])
    )


def batch_of_blob(blob: bytes) -> Batch:
    """The inverse of `blob_of_batch`."""
    rows = read_rows(blob)
    if rows.schema.names[0] == "_kind":
        return Batch.from_table(rows)
    payload = pa.RecordBatch.from_arrays(rows.columns[2:], names=rows.schema.names[2:])
    return Batch(payload, rows.column(0).to_numpy(), rows.column(1).to_numpy())

"""Rows of the output: what the fragments of a query hand to its sinks.

One row carries changes of the answer, the figures of a bucket, or what stands beside an answer
(late rows, dead letters, reports). Which columns it has depends on its kind; the others are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.io.row_bytes import write_rows
from thalweg.model.batch import Batch
from thalweg.shards.exchange.blobs import blob_of_batch
from thalweg.shards.exchange.chunk import Chunk
from thalweg.shards.exchange.header import Message
from thalweg.shards.worker.answer import Answer

__all__ = [
    "FIGURE_COLUMNS",
    "OUTPUT_COLUMNS",
    "OutputKind",
    "OutputRow",
    "beside_answer",
    "changes_rows",
    "output_batch",
    "output_of_chunk",
    "tables_rows",
]


class OutputKind(StrEnum):
    """The kinds of rows of the output."""

    CHANGES = "changes"
    """Elements of the answer."""
    FIGURES = "figures"
    """The figures of a bucket of the last fragment for a micro-batch, and its promise."""
    LATE = "late"
    """Late rows of a source, its origin; or only their number."""
    SKIPPED = "skipped"
    """Windows that a module failed on; the origin is the operator."""
    DEAD = "dead"
    """Records of a source, its origin, that could not be read."""
    REPORT = "report"
    """The report of a bucket of an earlier fragment."""


class OutputRow(NamedTuple):
    """A row of the output: its columns are those of `OUTPUT_SCHEMA`."""

    bucket: int
    kind: str
    """An `OutputKind`, as the text that Spark takes."""
    origin: str = ""
    cti: int | None = None
    read: int | None = None
    taken: int | None = None
    changes: int | None = None
    adjusts: int | None = None
    late: int | None = None
    dead: int | None = None
    unwanted: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    written: int | None = None
    report: str | None = None
    blob: bytes | None = None


_TYPES = {
    "bucket": ("int", pa.int32()),
    "kind": ("string", pa.string()),
    "origin": ("string", pa.string()),
    "report": ("string", pa.string()),
    "blob": ("binary", pa.binary()),
}
"""By column: its type in Spark and in Arrow; the others are numbers."""
_NUMBER = ("long", pa.int64())

OUTPUT_COLUMNS = ", ".join(f"{name} {_TYPES.get(name, _NUMBER)[0]}" for name in OutputRow._fields)
OUTPUT_SCHEMA = pa.schema([(name, _TYPES.get(name, _NUMBER)[1]) for name in OutputRow._fields])
FIGURE_COLUMNS = ("kind", *(name for name in OutputRow._fields if name not in _TYPES), "report")
"""The columns that figures of a micro-batch are made from (see `reports.query_figures`)."""

_CHUNK_ROWS = 200_000
"""Elements in one blob of output, a few MiB."""


def changes_rows(bucket: int, batch: Batch) -> Iterator[OutputRow]:
    """The changes of an answer in pieces of a few MiB."""
    for begin in range(0, len(batch), _CHUNK_ROWS):
        piece = (
            batch
            if len(batch) <= _CHUNK_ROWS
            else batch.take(np.arange(begin, min(begin + _CHUNK_ROWS, len(batch))))
        )
        yield OutputRow(bucket, str(OutputKind.CHANGES), blob=blob_of_batch(piece))


def _tables(answer: Answer) -> Iterator[tuple[Message, str, pa.Table]]:
    """The late rows of each input, and the windows that each module failed on."""
    for kind, tables in ((Message.LATE, answer.ledgers), (Message.SKIPPED, answer.skipped)):
        for name, table in tables.items():
            yield kind, name, table


def _table_blob(table: pa.Table) -> bytes:
    return write_rows(table.combine_chunks().to_batches()[0])


def tables_rows(bucket: int, answer: Answer) -> Iterator[OutputRow]:
    """Late rows and windows that modules failed on, of the last fragment: its figures have counted
    them."""
    for kind, name, table in _tables(answer):
        yield OutputRow(bucket, kind.value, name, blob=_table_blob(table))


def beside_answer(answer: Answer, report: str) -> Iterator[Chunk]:
    """The messages of an earlier fragment to the output, besides its answer."""
    counted = 0
    for kind, name, table in _tables(answer):
        counted += len(table) if kind is Message.LATE else 0
        yield Chunk.message(kind, name, rows=len(table), blob=_table_blob(table))
    if answer.late_rows > counted:  # late partial sums have no rows for a ledger
        yield Chunk.message(Message.LATE, rows=answer.late_rows - counted)
    yield Chunk.message(Message.REPORT, report=report)


def output_of_chunk(bucket: int, chunk: Chunk) -> OutputRow:
    """A message as a row of the output."""
    kind, rows = chunk.header.kind, chunk.header.rows
    return OutputRow(
        bucket,
        kind.value,
        chunk.origin,
        late=rows if kind is Message.LATE else None,
        dead=rows if kind is Message.DEAD else None,
        report=chunk.header.report if kind is Message.REPORT else None,
        blob=chunk.blob,
    )


def output_batch(rows: Iterable[OutputRow]) -> pa.RecordBatch:
    """Rows of the output as Spark takes them."""
    columns = dict(zip(OutputRow._fields, zip(*rows, strict=True), strict=True))
    return pa.RecordBatch.from_pydict(columns, schema=OUTPUT_SCHEMA)

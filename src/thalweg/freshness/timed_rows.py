"""Rows of a source as an update queue holds them: payload columns, then start and end."""

from __future__ import annotations

import pyarrow as pa

from thalweg.model.batch import Batch

__all__ = ["END", "START", "feed_of", "timed_rows", "timed_schema"]

START, END = "_start", "_end"


def timed_schema(payload: pa.Schema) -> pa.Schema:
    """The columns of a queue whose source has this payload."""
    return pa.schema([*payload, (START, pa.int64()), (END, pa.int64())])


def timed_rows(batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch, with the columns of a queue."""
    payload = [batch.payload.column(name) for name in schema.names[:-2]]
    return pa.record_batch([*payload, pa.array(batch.start), pa.array(batch.end)], schema=schema)


def feed_of(rows: pa.RecordBatch) -> pa.Table:
    """Rows that left a queue, as input of their source."""
    return pa.Table.from_batches([rows]).select([START, END, *rows.schema.names[:-2]])

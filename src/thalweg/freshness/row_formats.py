"""Rows as senders write them, Arrow streams or JSON lines, checked against the schema of a
queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.json as pa_json

from thalweg.freshness.refusals import Refusal, RefusalError

__all__ = ["ARROW", "JSON_LINES", "ROW_FORMATS", "RowFormat"]


def _arrow_rows(body: bytes, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The rows of an Arrow IPC stream."""
    try:
        reader = pa.ipc.open_stream(body)
        if reader.schema != schema:
            raise RefusalError(Refusal.WRONG_SCHEMA, f"rows of {reader.schema}; expected {schema}.")
        batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowInvalid, OSError) as reason:
        raise RefusalError(Refusal.MALFORMED_ROWS, f"not an Arrow stream: {reason}") from reason
    return batches


def _json_rows(body: bytes, schema: pa.Schema) -> list[pa.RecordBatch]:
    """JSON lines, one object a row."""
    if not body.strip():
        return []
    options = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    reading = pa_json.ReadOptions(use_threads=False, block_size=max(len(body) + 1, 1024))
    try:
        table = pa_json.read_json(pa.BufferReader(body), reading, options)
        return [
            batch.cast(schema) for batch in table.select(schema.names).combine_chunks().to_batches()
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as reason:
        raise RefusalError(
            Refusal.MALFORMED_ROWS, f"not JSON lines of the queue's columns: {reason}"
        ) from reason


@dataclass(frozen=True, slots=True)
class RowFormat:
    """A format in which senders write rows, and its name in each transport."""

    frame: str
    """The kind of a TCP frame."""
    media_type: str
    """Of an HTTP request."""
    suffix: str
    """Of a file."""
    read: Callable[[bytes, pa.Schema], list[pa.RecordBatch]]
    """The rows of a body, of this schema."""


ARROW = RowFormat("A", "application/vnd.apache.arrow.stream", ".arrow", _arrow_rows)
JSON_LINES = RowFormat("J", "application/x-ndjson", ".jsonl", _json_rows)
ROW_FORMATS = (ARROW, JSON_LINES)

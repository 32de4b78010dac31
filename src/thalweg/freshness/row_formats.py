"""Rows as senders write them, Arrow streams or JSON lines, checked against the schema of a
queue."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.json as pa_json

__all__ = ["RefusalError", "arrow_rows", "json_rows"]


class RefusalError(Exception):
    """What a sender is answered with instead; `reason` is what it is counted under, and `closes` if
    nothing more can be read after it."""

    def __init__(self, reason: str, text: str, *, closes: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.closes = closes


def arrow_rows(body: bytes, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The rows of an Arrow IPC stream."""
    try:
        reader = pa.ipc.open_stream(body)
        if reader.schema != schema:
            raise RefusalError("wrong schema", f"rows of {reader.schema}; expected {schema}.")
        batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowInvalid, OSError) as reason:
        raise RefusalError("malformed rows", f"not an Arrow stream: {reason}") from reason
    return batches


def json_rows(body: bytes, schema: pa.Schema) -> list[pa.RecordBatch]:
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
            "malformed rows", f"not JSON lines of the queue's columns: {reason}"
        ) from reason

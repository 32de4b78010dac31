"""Rows as bytes: an Arrow stream, the form in which rows travel between processes and are saved."""

from __future__ import annotations

import pyarrow as pa

from thalweg.errors import StateError
from thalweg.model.rows import Rows, empty_rows

__all__ = ["read_rows", "write_rows"]

_IPC_OPTIONS = pa.ipc.IpcWriteOptions()
"""Made once: a writer without options reads them from the environment for every batch."""


def write_rows(rows: Rows) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_IPC_OPTIONS) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue().to_pybytes())


def read_rows(blob: bytes) -> Rows:
    """The inverse of `write_rows`."""
    try:
        table = pa.ipc.open_stream(blob).read_all()
    except (pa.ArrowInvalid, OSError) as reason:
        raise StateError(f"these bytes are no Arrow stream: {reason}.") from reason
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else empty_rows(table.schema)

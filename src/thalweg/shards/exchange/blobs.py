"""Elements as Arrow bytes, the form in which they travel and are stored."""

from __future__ import annotations

import pyarrow as pa

from thalweg.io.row_bytes import read_rows, write_rows
from thalweg.model.batch import Batch

__all__ = ["batch_of_blob", "blob_of_batch"]


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

"""Egress: packed answers as typed Spark rows, in the last stage before the sink.

The changelog has the columns `_kind` (`insert`, `adjust`, `cti`), `_start`, `_end`, `_new_end`, then the payload. Times
are ticks (microseconds); an end without limit is null, and so is what an element does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.time import INFINITY, Times
from thalweg.spark.wire import batch_of_blob

__all__ = ["CHANGELOG", "changelog_schema", "to_changelog", "unpack_changelog"]

CHANGELOG = pa.schema([("_kind", pa.string()), ("_start", pa.int64()), ("_end", pa.int64()), ("_new_end", pa.int64())])


def changelog_schema(payload: pa.Schema) -> pa.Schema:
    return pa.schema([*CHANGELOG, *payload])


def to_changelog(batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
    """Elements as typed rows; `schema` is that of the payload as Spark takes it."""
    size = len(batch)
    if batch.is_adjust is None or batch.new_end is None:
        kinds: pa.Array = pa.repeat("insert", size)
        new_end = pa.nulls(size, pa.int64())
    else:
        kinds = pa.array(np.where(batch.is_adjust, "adjust", "insert").astype(object), pa.string())
        new_end = pa.array(batch.new_end, mask=~batch.is_adjust | (batch.new_end == INFINITY))
    columns = zip(batch.payload.columns, schema, strict=True)
    payload = [column if column.type == entry.type else column.cast(entry.type) for column, entry in columns]
    return pa.RecordBatch.from_arrays([kinds, pa.array(batch.start), _end(batch.end), new_end, *payload], schema=changelog_schema(schema))


def _end(end: Times) -> pa.Array:
    endless = end == INFINITY
    return pa.array(end, mask=endless) if endless.any() else pa.array(end)


def unpack_changelog(schema: pa.Schema, *, promises: bool) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """For `mapInArrow` over the output: typed rows, and with `promises` each bucket's CTI as a row."""

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            kinds = rows.column("kind").to_pylist()
            blobs = rows.column("blob")
            ctis = rows.column("cti").to_pylist()
            for at, kind in enumerate(kinds):
                if kind == "changes":
                    yield to_changelog(batch_of_blob(blobs[at].as_py()), schema)
                elif kind == "figures" and promises and ctis[at] is not None:
                    yield _promise_row(ctis[at], schema)

    return unpack


def _promise_row(cti: int, schema: pa.Schema) -> pa.RecordBatch:
    time = pa.array([None if cti == INFINITY else cti], pa.int64())
    arrays = [pa.array(["cti"]), time, pa.nulls(1, pa.int64()), pa.nulls(1, pa.int64()), *(pa.nulls(1, f.type) for f in schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=changelog_schema(schema))

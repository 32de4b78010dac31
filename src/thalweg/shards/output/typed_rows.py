"""Egress: packed answers as typed Spark rows, in the last stage before the sink.

    changelog   `_kind` (`insert` or `adjust`), `_start`, `_end`, `_new_end`, then the payload
    final       `_start`, `_end`, then the payload; for queries with `final` consistency
    upserts     `_deleted`, `_start`, `_end`, then the payload: the newest row of a group and start

Times are ticks (microseconds), or instants where the query has a clock; an end without limit is
null, and so is what an element does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import PlanError, did_you_mean
from thalweg.io.records import LETTERS
from thalweg.io.row_bytes import read_rows
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Rows, encode_together
from thalweg.model.time import INFINITY, Times
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.output.rows import OutputKind

__all__ = [
    "DEAD_RECORDS",
    "FORMS",
    "PACKED",
    "Form",
    "changelog_schema",
    "converter",
    "ledger_schema",
    "to_changelog",
    "unpack_dead",
    "unpack_ledger",
    "unpack_skipped",
    "unpacker",
]


class Form(StrEnum):
    """The form of answers, as `output=` names it."""

    CHANGELOG = "changelog"
    FINAL = "final"
    UPSERTS = "upserts"


FORMS = tuple(Form)
PACKED = "packed"
"""The word of `output=` for answers as they leave the fragments, in no form yet."""

CHANGELOG = pa.schema(
    [("_kind", pa.string()), ("_start", pa.int64()), ("_end", pa.int64()), ("_new_end", pa.int64())]
)


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
    return pa.RecordBatch.from_arrays(
        [kinds, pa.array(batch.start), _end(batch.end), new_end, *_typed(batch.payload, schema)],
        schema=changelog_schema(schema),
    )


def _typed(payload: Rows, schema: pa.Schema) -> list[pa.Array]:
    columns = zip(payload.columns, schema, strict=True)
    return [
        column if column.type == entry.type else column.cast(entry.type)
        for column, entry in columns
    ]


def _end(end: Times) -> pa.Array:
    endless = end == INFINITY
    return pa.array(end, mask=endless) if endless.any() else pa.array(end)


def to_finals(batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows that will not change any more, the answers of a query with `final` consistency."""
    changes = to_changelog(batch, schema)
    return changes.select(["_start", "_end", *schema.names])


def to_upserts(batch: Batch, schema: pa.Schema, keys: tuple[str, ...]) -> pa.RecordBatch:
    """One row for each (keys, start) that changed: its row now, or `_deleted`."""
    net = Delta.of_batch(batch).consolidate()
    added, removed = net.filter(net.weight > 0), net.filter(net.weight < 0)
    added_code, removed_code, size = encode_together(
        _identity(added, keys), _identity(removed, keys), (len(added), len(removed))
    )
    replaced = np.zeros(size, np.bool_)
    replaced[added_code] = True
    deleted = removed.filter(~replaced[removed_code])
    rows = Delta.concat([added, deleted], net.schema)
    flags = pa.array(np.arange(len(rows)) >= len(added))
    return pa.RecordBatch.from_arrays(
        [flags, pa.array(rows.start), _end(rows.end), *_typed(rows.payload, schema)],
        schema=upserts_schema(schema),
    )


def _identity(rows: Delta, keys: tuple[str, ...]) -> list[pa.Array]:
    return [*(rows.payload.column(name) for name in keys), pa.array(rows.start)]


def finals_schema(payload: pa.Schema) -> pa.Schema:
    return pa.schema([("_start", pa.int64()), ("_end", pa.int64()), *payload])


def upserts_schema(payload: pa.Schema) -> pa.Schema:
    return pa.schema(
        [("_deleted", pa.bool_()), ("_start", pa.int64()), ("_end", pa.int64()), *payload]
    )


Unpack = Callable[[Iterable[Any]], Iterator[Any]]
Convert = Callable[[Batch], pa.RecordBatch]


def unpacker(
    form: str, schema: pa.Schema, keys: tuple[str, ...], *, has_clock: bool
) -> tuple[Unpack, pa.Schema]:
    """For `mapInArrow` over the packed output: how its rows become typed ones, and their schema."""
    convert = converter(form, schema, keys, has_clock=has_clock)
    typed = _SCHEMAS[Form(form)](schema)
    return _each(convert), _schema_with_instants(typed) if has_clock else typed


def converter(form: str, schema: pa.Schema, keys: tuple[str, ...], *, has_clock: bool) -> Convert:
    """How elements become typed rows of a form; with a clock, their times are instants."""
    convert = _converter_to_ticks(form, schema, keys)
    return (lambda batch: _with_instants(convert(batch))) if has_clock else convert


def _converter_to_ticks(form: str, schema: pa.Schema, keys: tuple[str, ...]) -> Convert:
    if form not in FORMS:
        raise PlanError(
            f"output must be one of {', '.join(FORMS)}{did_you_mean(form, map(str, FORMS))}"
        )
    if form == Form.UPSERTS:
        return lambda batch: to_upserts(batch, schema, keys)
    convert = to_finals if form == Form.FINAL else to_changelog
    return lambda batch: convert(batch, schema)


_SCHEMAS = {
    Form.CHANGELOG: changelog_schema,
    Form.FINAL: finals_schema,
    Form.UPSERTS: upserts_schema,
}
_TIMES = ("_start", "_end", "_new_end")
_INSTANT = pa.timestamp("us", "UTC")


def _schema_with_instants(schema: pa.Schema) -> pa.Schema:
    return pa.schema([e.with_type(_INSTANT) if e.name in _TIMES else e for e in schema])


def _with_instants(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with their times as Spark's timestamps; the numbers stay the same."""
    columns = [
        column.view(_INSTANT) if name in _TIMES else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_schema_with_instants(rows.schema))


def _each(convert: Convert) -> Unpack:
    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            for kind, blob in zip(
                rows.column("kind").to_pylist(), rows.column("blob"), strict=True
            ):
                if kind == OutputKind.CHANGES:
                    yield convert(batch_of_blob(blob.as_py()))

    return unpack


def ledger_schema(payload: pa.Schema) -> pa.Schema:
    """A late element as it arrived, the promise it broke, and the action of the policy."""
    control = [
        ("_kind", pa.int8()),
        ("_start", pa.int64()),
        ("_end", pa.int64()),
        ("_new_end", pa.int64()),
    ]
    return pa.schema([*control, *payload, ("_promise", pa.int64()), ("_action", pa.string())])


DEAD_RECORDS = pa.schema([("source", pa.string()), *LETTERS])
"""A record that could not be read: its source, file, line and text, and the reason."""


def unpack_dead(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over the packed output: the records of all sources that could not be
    read."""
    for rows in batches:
        columns = (rows.column(name).to_pylist() for name in ("kind", "origin", "blob"))
        for kind, origin, blob in zip(*columns, strict=True):
            if kind == OutputKind.DEAD and blob is not None:
                records = read_rows(blob)
                source = pa.array([origin] * records.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays([source, *records.columns], schema=DEAD_RECORDS)


def unpack_ledger(origin: str) -> Unpack:
    """For `mapInArrow` over the packed output: the late rows of one source."""
    return _ledgers(OutputKind.LATE, origin)


def unpack_skipped() -> Unpack:
    """For `mapInArrow` over the packed output: the windows that modules failed on."""
    return _ledgers(OutputKind.SKIPPED)


def _ledgers(ledger: OutputKind, origin: str | None = None) -> Unpack:
    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            columns = (rows.column(name).to_pylist() for name in ("kind", "origin", "blob"))
            for kind, source, blob in zip(*columns, strict=True):
                if kind == ledger and origin in (None, source) and blob is not None:
                    yield read_rows(blob)

    return unpack

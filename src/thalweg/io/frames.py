"""Frames in: whatever shows its columns to Arrow becomes a table of the columns that a source
declared.

A frame is an Arrow table, batch or reader, anything with `__arrow_c_stream__` (pandas, Polars,
DuckDB), a list of dictionaries or a dictionary of columns. Columns are matched by name. Differences
that lose nothing are cast: the width of numbers (if the values fit), encodings of text,
dictionaries, units and zones of timestamps, columns of nothing but null. Anything else is refused
by the name of the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from thalweg.errors import MalformedElementError, SchemaChangeError, did_you_mean, list_names

__all__ = ["conform", "is_frame", "needs_plain_type", "plain_type", "table_of"]


def is_frame(value: object) -> bool:
    """Whether something can be read as a table."""
    if isinstance(value, (pa.Table, pa.RecordBatch)) or hasattr(value, "__arrow_c_stream__"):
        return True
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(column, Sequence) for column in value.values())
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def table_of(frame: object, schema: pa.Schema | None = None, where: str = "a frame") -> pa.Table:
    """A frame as an Arrow table; a list of dictionaries is read with a schema, if one is known.

    >>> table_of([{"v": 1}, {"v": 2}]).to_pydict()
    {'v': [1, 2]}
    """
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    try:
        if hasattr(frame, "__arrow_c_stream__"):
            return _without_index(pa.RecordBatchReader.from_stream(frame).read_all())
        if isinstance(frame, Mapping):
            return pa.table(dict(frame))
        if isinstance(frame, list):
            return _from_rows(frame, schema, where)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
        why = ". ".join(str(part).rstrip(".") for part in reason.args) or type(reason).__name__
        raise SchemaChangeError(f"{where}: it cannot be read as a table: {why}.") from reason
    if hasattr(frame, "collect"):
        raise MalformedElementError(
            f"{where}: {type(frame).__name__} is lazy; give frame.collect()."
        )
    raise MalformedElementError(
        f"{where}: expected a frame (Arrow, pandas, Polars, DuckDB) or a list of dictionaries; got "
        f"{frame!r}."
    )


def _without_index(table: pa.Table) -> pa.Table:
    """Without the columns in which pandas keeps an index that has no name."""
    names = [name for name in table.schema.names if not name.startswith("__index_level_")]
    return _plain(table.select(names).replace_schema_metadata(None))


def _plain(table: pa.Table) -> pa.Table:
    """Without views and run-end encoding, which few kernels of Arrow take."""
    types_ = [plain_type(field.type) for field in table.schema]
    if types_ == table.schema.types:
        return table
    columns = [
        column if column.type == type_ else _plain_column(column, type_)
        for column, type_ in zip(table.columns, types_, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=table.schema.names)


def _plain_column(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if types.is_dictionary(column.type):  # of views: a categorical of Polars
        plain = plain_type(column.type.value_type)
        chunks: Any = column.chunks
        column = pa.chunked_array(
            [part.dictionary.cast(plain).take(part.indices) for part in chunks], plain
        )
    if types.is_list_view(column.type):  # the cast of a null among them is not a valid array
        return pa.chunked_array([pa.array(column.to_pylist(), type_)])
    return column if column.type == type_ else column.cast(type_)


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type with the same values, without views and run-end encoding."""
    if types.is_string_view(type_):
        return pa.string()
    if types.is_binary_view(type_):
        return pa.binary()
    if types.is_run_end_encoded(type_) or (
        types.is_dictionary(type_) and needs_plain_type(type_.value_type)
    ):
        return plain_type(type_.value_type)
    if _is_list(type_):
        return pa.list_(plain_type(type_.value_type))
    if types.is_struct(type_):
        return pa.struct([(field.name, plain_type(field.type)) for field in type_])
    return type_


def needs_plain_type(type_: pa.DataType) -> bool:
    """Whether a type has views or run-end encoding in it, which few kernels of Arrow take."""
    odd = (types.is_string_view, types.is_binary_view, types.is_list_view, types.is_run_end_encoded)
    if any(is_odd(type_) for is_odd in odd) or types.is_large_list_view(type_):
        return True
    if types.is_dictionary(type_):
        return needs_plain_type(type_.value_type)
    return types.is_nested(type_) and any(
        needs_plain_type(type_.field(at).type) for at in range(type_.num_fields)
    )


def _from_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None, where: str) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    for number, row in enumerate(rows):
        if len(row) != len(names):
            lacking = next(name for name in names if name not in row)
            raise SchemaChangeError(f"{where}, row {number}: the column {lacking!r} is missing.")
    types_by_name = {} if schema is None else {field.name: field.type for field in schema}
    columns = [pa.array([row[name] for row in rows], types_by_name.get(name)) for name in names]
    return pa.Table.from_arrays(columns, names=names)


def conform(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """The columns of a schema, in its order and types; refused by name where they are not there."""
    if table.schema.equals(schema):
        return table
    extra = [name for name in table.schema.names if name not in schema.names]
    missing = [name for name in schema.names if name not in table.schema.names]
    if missing:
        hint = did_you_mean(missing[0], extra)
        raise SchemaChangeError(
            f"{where}: the column {missing[0]!r} is missing{hint} It has "
            f"{list_names(table.schema.names)}; the source declared {', '.join(schema.names)}."
        )
    if extra:
        raise SchemaChangeError(
            f"{where}: the column {extra[0]!r} is not one of the source, which declared "
            f"{', '.join(schema.names)}."
        )
    columns = [_cast(table.column(field.name), field, where) for field in schema]
    return pa.Table.from_arrays(columns, schema=pa.schema([(f.name, f.type) for f in schema]))


def _cast(column: pa.ChunkedArray, field: pa.Field, where: str) -> pa.ChunkedArray:
    actual, declared = column.type, field.type
    if actual == declared:
        return column
    if not len(column):  # pandas has no types for columns without values
        return pa.chunked_array([], declared)
    if needs_plain_type(actual):
        column = _plain_column(column, plain_type(actual))
        actual = column.type
    if types.is_dictionary(actual):
        column = column.cast(actual.value_type)
        actual = actual.value_type
    if not _harmless(actual, declared):
        raise SchemaChangeError(
            f"{where}: the column {field.name!r} is {actual}; the source declared {declared}. Cast "
            "it first."
        )
    try:
        return column.cast(declared)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as reason:
        raise SchemaChangeError(
            f"{where}: the column {field.name!r} is {actual} and does not fit {declared}: "
            f"{str(reason).splitlines()[0]}."
        ) from reason


def _harmless(actual: pa.DataType, declared: pa.DataType) -> bool:
    """Whether a cast between the types keeps the meaning of every value that fits."""
    if actual == declared or types.is_null(actual):
        return True
    if types.is_integer(actual):
        return bool(
            types.is_integer(declared) or types.is_floating(declared) or types.is_decimal(declared)
        )
    if types.is_floating(actual):
        return bool(types.is_floating(declared))
    if types.is_decimal(actual):
        return bool(types.is_decimal(declared))
    if types.is_dictionary(declared):
        return _harmless(actual, declared.value_type)
    if types.is_timestamp(actual) and types.is_timestamp(declared):
        return (actual.tz is None) == (declared.tz is None)
    if types.is_struct(actual) and types.is_struct(declared):
        return actual.num_fields == declared.num_fields and all(
            left.name == right.name and _harmless(left.type, right.type)
            for left, right in zip(actual, declared, strict=True)
        )
    for alike in (_is_text, _is_bytes, types.is_date, types.is_duration, types.is_time):
        if alike(actual) and alike(declared):
            return True
    if _is_list(actual) and _is_list(declared):
        return _harmless(actual.value_type, declared.value_type)
    return False


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    )


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        types.is_binary(type_) or types.is_large_binary(type_) or types.is_binary_view(type_)
    )


def _is_list(type_: pa.DataType) -> bool:
    return bool(
        types.is_list(type_)
        or types.is_large_list(type_)
        or types.is_list_view(type_)
        or types.is_large_list_view(type_)
        or types.is_fixed_size_list(type_)
    )

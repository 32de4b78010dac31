"""Arrow types as JSON: their names where a name says all, else the bytes that Arrow writes."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

__all__ = ["read_schema", "read_type", "write_schema", "write_type"]


def write_type(kind: pa.DataType) -> Any:
    """
    >>> write_type(pa.int64()), sorted(write_type(pa.list_(pa.int8())))
    ('int64', ['arrow'])
    """
    try:
        if pa.type_for_alias(str(kind)) == kind:
            return str(kind)
    except ValueError:
        pass
    blob = pa.schema([("type", kind)]).serialize().to_pybytes()
    return {"arrow": base64.b64encode(blob).decode()}


def read_type(written: Any) -> pa.DataType:
    """
    >>> read_type(write_type(pa.timestamp("us", "UTC")))
    TimestampType(timestamp[us, tz=UTC])
    """
    if isinstance(written, str):
        return pa.type_for_alias(written)
    blob = base64.b64decode(written["arrow"], validate=True)
    return pa.ipc.read_schema(pa.py_buffer(blob)).field(0).type


def write_schema(schema: pa.Schema) -> list[Any]:
    return [
        [entry.name, write_type(entry.type), *([] if entry.nullable else ["not null"])]
        for entry in schema
    ]


def read_schema(written: Any) -> pa.Schema:
    """
    >>> read_schema(write_schema(pa.schema([pa.field("a", pa.int64(), nullable=False)])))
    a: int64 not null
    """
    entries = []
    for name, kind, *rest in written:
        if rest not in ([], ["not null"]) or not isinstance(name, str):
            raise ValueError(f"{name!r} is no column")
        entries.append(pa.field(name, read_type(kind), nullable=not rest))
    return pa.schema(entries)

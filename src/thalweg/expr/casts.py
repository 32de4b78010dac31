"""CAST: conversions between types, and their SQL names.

Null stays null. A value that does not fit is an error, never a wrong value: text that is no number,
a whole number out of range. A double loses its fraction on the way to a whole number (as in SQL); a
whole number becomes the nearest double.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from thalweg.expr.kinds import Datum, convert, plain

__all__ = ["TYPE_NAMES", "cast_to", "type_name"]

TYPE_NAMES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "real": pa.float32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "string": pa.string(),
    "text": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
"""SQL's names of types; of several for one type the first is the one that is printed."""


def type_name(type_: pa.DataType) -> str:
    """The name of a type in text.

    >>> type_name(pa.int64()), type_name(pa.list_(pa.int8()))
    ('bigint', 'list<item: int8>')
    """
    return next((name for name, known in TYPE_NAMES.items() if known == type_), str(type_))


def cast_to(value: Datum, type_: pa.DataType) -> Datum:
    """The value as another type; Arrow's error when it does not fit."""
    value = plain(value)
    if value.type == type_:
        return value
    if types.is_floating(value.type) and types.is_integer(type_):
        value = pc.trunc(value)
    elif types.is_integer(value.type) and types.is_floating(type_):
        return convert(value, type_)
    return value.cast(type_)

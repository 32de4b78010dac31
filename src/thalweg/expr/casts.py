"""CAST: conversions between types, and their SQL names.

Null stays null. A value that does not fit is an error, never a wrong value: text that is no number,
a whole number out of range. A double loses its fraction on the way to a whole number (as in SQL); a
whole number becomes the nearest double. TRY_CAST gives null where CAST fails.

Text is read as ISO 8601 where a time is wanted. A whole number is a time of the clock, in
microseconds, and back.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from thalweg.expr._time_formats import timestamps_of_text
from thalweg.expr.kinds import Datum, column, convert, plain

__all__ = ["TYPE_NAMES", "cast_to", "try_cast_to", "type_name", "type_named"]

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
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
}
"""SQL's names of types; of several for one type the first is the one that is printed."""


def type_name(type_: pa.DataType) -> str:
    """The name of a type in text.

    >>> type_name(pa.int64()), type_name(pa.list_(pa.int8()))
    ('bigint', 'list<item: int8>')
    """
    if types.is_decimal128(type_):
        return f"decimal({type_.precision}, {type_.scale})"
    return next(
        (name for name, named_type in TYPE_NAMES.items() if named_type == type_), str(type_)
    )


_DECIMAL = re.compile(r"(?:decimal|numeric|dec)(?:\((\d+)(?:, ?(\d+))?\))?")
_SIZED = re.compile(r"(varchar|char|timestamp|timestamp_ltz)\(\d+\)")
_ZONED = re.compile(r"timestamp(?:\(\d+\))? with time zone")


def type_named(name: str) -> pa.DataType | None:
    """The type with this SQL name; None for an unknown name.

    >>> type_named("DECIMAL(10, 2)"), type_named("timestamp(3)"), type_named("blob")
    (Decimal128Type(decimal128(10, 2)), TimestampType(timestamp[us]), None)
    """
    lower_name = name.lower()
    found = _DECIMAL.fullmatch(lower_name)
    if found is not None:
        digits, scale = int(found.group(1) or 38), int(found.group(2) or 0)
        return pa.decimal128(digits, scale) if 0 < digits <= 38 and scale <= digits else None
    if _ZONED.fullmatch(lower_name):
        return TYPE_NAMES["timestamptz"]
    return TYPE_NAMES.get(_SIZED.sub(r"\1", lower_name))


def try_cast_to(value: Datum, type_: pa.DataType) -> Datum:
    """The value as another type, null where it does not fit."""
    if isinstance(value, pa.Scalar):
        return column(try_cast_to(pa.array([value.as_py()], value.type), type_))[0]
    try:
        return cast_to(value, type_)
    except (pa.ArrowInvalid, ValueError):
        pass
    codes = value.dictionary_encode()
    return _fitting(codes.dictionary, type_).take(codes.indices)


def _fitting(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast distinct values, null for each that does not fit. The values are halved until a half
    fits whole, so that few misfits cost little."""
    try:
        return column(cast_to(values, type_))
    except (pa.ArrowInvalid, ValueError):
        if len(values) == 1:
            return pa.nulls(1, type_)
    middle = len(values) // 2
    halves = [_fitting(half, type_) for half in (values.slice(0, middle), values.slice(middle))]
    return pa.concat_arrays(halves)


def cast_to(value: Datum, type_: pa.DataType) -> Datum:
    """The value as another type; Arrow's error when it does not fit."""
    value = plain(value)
    if value.type == type_:
        return value
    if types.is_floating(value.type) and types.is_integer(type_):
        value = pc.trunc(value)
    elif types.is_integer(value.type) and types.is_floating(type_):
        return convert(value, type_)
    elif types.is_timestamp(type_) or types.is_date(type_):
        return _cast_to_time(value, type_)
    elif types.is_timestamp(value.type) and types.is_string(type_):
        return _time_as_text(value)
    elif types.is_decimal(type_) and types.is_integer(value.type):
        value = value.cast(pa.decimal128(19, 0))
    elif types.is_decimal(type_) and not types.is_string(value.type):
        value = pc.round(value, ndigits=type_.scale, round_mode="half_towards_infinity")
    return value.cast(type_)


def _cast_to_time(value: Datum, type_: pa.DataType) -> Datum:
    if types.is_string(value.type) or types.is_large_string(value.type):
        value = timestamps_of_text(value)
    if types.is_timestamp(value.type) and types.is_date(type_):
        wall = value if value.type.tz is None else pc.local_timestamp(value)
        return pc.floor_temporal(wall, unit="day").cast(type_)
    return value.cast(type_)


def _time_as_text(value: Datum) -> Datum:
    """A timestamp as databases print it: no fraction of a second when it is zero."""
    with_fraction = pc.strftime(
        value.cast(pa.timestamp("us", value.type.tz)), format="%Y-%m-%d %H:%M:%S"
    )
    short = pc.replace_substring_regex(with_fraction, pattern=r"\.?0*$", replacement="")
    whole = pc.match_substring(with_fraction, pattern=".")
    return pc.if_else(whole, short, with_fraction)

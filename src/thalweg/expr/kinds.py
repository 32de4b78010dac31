"""Kinds of values: which types may meet in one operation, and the type they meet in.

Numbers meet in int64 when all are whole and in double otherwise; decimals meet whole numbers in a
decimal and others in double; texts meet in text, timestamps in the finest unit, and an untyped NULL
meets every type. Beside a time, constant text is read as a time, and a constant time without a zone
as one of the other's zone. Other types meet only themselves. Booleans are not numbers.

A function refuses a type by raising `Refusal`, on empty input as on full: this is what makes typing
and evaluation agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

__all__ = [
    "Datum",
    "Refusal",
    "column",
    "common_type",
    "constant",
    "convert",
    "kind_of",
    "meet",
    "moment",
    "number",
    "numbers",
    "plain",
    "text",
    "truth",
]

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A column of values, or one value that stands for every row."""

_INT64, _DOUBLE, _STRING, _BOOL, _NULL = (
    t.id for t in (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.null())
)
_UNITS = ("s", "ms", "us", "ns")
_NUMBERS = frozenset({_INT64, _DOUBLE})
_SIMPLE = frozenset({_INT64, _DOUBLE, _STRING, _BOOL})
_FLOAT64 = pa.float64()
_TO_DOUBLE = pc.CastOptions.unsafe(_FLOAT64)
_cast = pc.get_function("cast").call


class Refusal(Exception):  # noqa: N818
    """A type, or a constant, that a function does not take.

    It never leaves the package: it becomes the error of the expression at hand.
    """


def kind_of(type_: pa.DataType) -> str:
    """The kind of a type, as users call it.

    >>> kind_of(pa.int16()), kind_of(pa.large_string()), kind_of(pa.bool_()), kind_of(pa.null())
    ('number', 'text', 'condition', 'null')
    """
    if types.is_integer(type_) or types.is_floating(type_):
        return "number"
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return "text"
    if types.is_boolean(type_):
        return "condition"
    if types.is_null(type_):
        return "null"
    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if types.is_timestamp(type_):
        return "timestamp" if type_.tz is None else f"timestamp with time zone {type_.tz}"
    if types.is_decimal(type_):
        return "decimal"
    return "bytes" if types.is_binary(type_) or types.is_large_binary(type_) else str(type_)


def common_type(parts: Sequence[pa.DataType]) -> pa.DataType:
    """The type that values of several types meet in.

    >>> common_type([pa.int8(), pa.null(), pa.int32()]), common_type([pa.int64(), pa.float32()])
    (DataType(int64), DataType(double))
    """
    value_types = [
        t.value_type if types.is_dictionary(t) else t for t in parts if not types.is_null(t)
    ]
    if not value_types:
        return pa.null()
    if all(t == value_types[0] for t in value_types[1:]):
        return value_types[0]
    kinds = {kind_of(t) for t in value_types}
    if "decimal" in kinds and kinds <= {"decimal", "number"}:
        return _decimal_type(value_types)
    if all(types.is_timestamp(t) or types.is_date(t) for t in value_types):
        return _time_type(value_types)
    if len(kinds) > 1:
        raise _not_together(value_types)
    if kinds == {"number"}:
        return pa.int64() if all(types.is_integer(t) for t in value_types) else pa.float64()
    if kinds == {"text"}:
        return (
            pa.large_string() if any(types.is_large_string(t) for t in value_types) else pa.string()
        )
    if all(types.is_duration(t) for t in value_types):
        return max(value_types, key=lambda t: _UNITS.index(t.unit))
    raise _not_together(value_types)


def _decimal_type(parts: Sequence[pa.DataType]) -> pa.DataType:
    """Decimals and whole numbers meet in a decimal that holds both; a double makes all double."""
    if any(types.is_floating(t) for t in parts):
        return pa.float64()
    decimals = [t if types.is_decimal(t) else pa.decimal128(19, 0) for t in parts]
    scale = max(t.scale for t in decimals)
    digits = max(t.precision - t.scale for t in decimals) + scale
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(min(digits, 76), scale)


def _time_type(parts: Sequence[pa.DataType]) -> pa.DataType:
    """Times meet in the finest unit, instants of several zones in UTC."""
    stamps = [t for t in parts if types.is_timestamp(t)]
    if not stamps:
        return max(parts, key=lambda t: t.bit_width)
    if len({t.tz is None for t in stamps}) > 1 or (stamps[0].tz and len(stamps) < len(parts)):
        raise _not_together(parts)
    unit = max((t.unit for t in stamps), key=_UNITS.index)
    return pa.timestamp(unit, stamps[0].tz if len({t.tz for t in stamps}) == 1 else "UTC")


def _not_together(parts: Sequence[pa.DataType]) -> Refusal:
    listed = " and ".join(dict.fromkeys(str(t) for t in parts))
    return Refusal(f"{listed} do not go together; convert one of them with CAST(... AS ...)")


def plain(value: Datum) -> Datum:
    """Without dictionary encoding, and text in the form that every kernel takes."""
    if types.is_dictionary(value.type):
        value = (
            value.dictionary_decode()
            if isinstance(value, pa.Array)
            else pa.scalar(value.as_py(), value.type.value_type)
        )
    return value.cast(pa.string()) if types.is_string_view(value.type) else value


def convert(value: Datum, type_: pa.DataType) -> Datum:
    """A value in a wider type of its kind. Whole numbers become the nearest double."""
    if value.type.id == _INT64 and type_.id == _DOUBLE:  # by far the most frequent
        return _cast([value], _TO_DOUBLE) if isinstance(value, pa.Array) else _nearest(value)
    value = plain(value)
    if value.type == type_:
        return value
    if types.is_floating(type_) and types.is_integer(value.type):
        return value.cast(options=pc.CastOptions.unsafe(type_))
    return value.cast(type_)


def _nearest(value: pa.Scalar) -> pa.Scalar:
    return pa.scalar(float(value.as_py()) if value.is_valid else None, _FLOAT64)


def meet(values: Sequence[Datum]) -> list[Datum]:
    """Several values in their common type."""
    code = values[0].type.id
    if code in _SIMPLE and all(value.type.id == code for value in values):
        return list(values)
    values = moment(values)
    type_ = common_type([value.type for value in values])
    return [convert(value, type_) for value in values]


def moment(values: Sequence[Datum]) -> list[Datum]:
    """Values beside times: constant text becomes a time, a constant time without a zone gets the
    zone of the others, and a duration beside ticks becomes ticks."""
    stamps = [value.type for value in values if types.is_temporal(value.type)]
    if not stamps:
        return list(values)
    if any(types.is_integer(value.type) for value in values):
        return [
            (
                value.cast(pa.duration("us")).cast(pa.int64())
                if types.is_duration(value.type)
                else value
            )
            for value in values
        ]
    zone = next((t.tz for t in stamps if types.is_timestamp(t) and t.tz is not None), None)
    return [_as_time(value, zone) for value in values]


def _as_time(value: Datum, zone: str | None) -> Datum:
    if not isinstance(value, pa.Scalar) or not value.is_valid:
        return value
    if kind_of(value.type) == "text":
        try:
            found = datetime.fromisoformat(value.as_py().strip())
        except ValueError:
            raise Refusal(
                f"{value.as_py()!r} is no time; write it as '2026-01-31 12:00:00'"
            ) from None
        value = pa.scalar(found, pa.timestamp("us", None if found.tzinfo is None else "UTC"))
        if zone is None and value.type.tz is not None:  # times without a zone are read as UTC
            return value.cast(pa.timestamp("us"))
    bare = types.is_timestamp(value.type) and value.type.tz is None
    if zone is not None and (bare or types.is_date(value.type)):
        wall = value.cast(pa.timestamp("us"))
        return pc.assume_timezone(wall, zone, ambiguous="earliest", nonexistent="latest")
    return value


def number(value: Datum) -> Datum:
    """A number as int64 or double."""
    code = value.type.id
    if code in _NUMBERS:
        return value
    if code == _NULL:
        return value.cast(pa.int64())
    if types.is_decimal(value.type):
        return value
    if kind_of(value.type) != "number":
        raise Refusal(
            f"a number is needed, not {value.type}; convert it with CAST(... AS bigint) or CAST(..."
            " AS double)"
        )
    value = plain(value)
    return value.cast(pa.int64() if types.is_integer(value.type) else pa.float64())


def numbers(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Two numbers, both int64 or both double."""
    left, right = number(left), number(right)
    if types.is_decimal(left.type) or types.is_decimal(right.type):
        return _decimals(left, right)
    if left.type.id == right.type.id:
        return left, right
    return convert(left, pa.float64()), convert(right, pa.float64())


def _decimals(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Both decimal, a whole number with no more digits than it may need; or both double."""
    if types.is_floating(left.type) or types.is_floating(right.type):
        return left.cast(pa.float64()), right.cast(pa.float64())
    return _decimal(left), _decimal(right)


def _decimal(value: Datum) -> Datum:
    return value if types.is_decimal(value.type) else value.cast(pa.decimal128(19, 0))


def text(value: Datum) -> Datum:
    """A value that must be text."""
    if value.type.id == _STRING:
        return value
    if value.type.id == _NULL:
        return value.cast(pa.string())
    if kind_of(value.type) != "text":
        raise Refusal(f"text is needed, not {value.type}; convert it with CAST(... AS varchar)")
    return plain(value)


def column(value: Datum) -> pa.Array:
    """The same value, typed as a column: a kernel over a column returns a column."""
    assert isinstance(value, pa.Array)
    return value


def truth(value: Datum) -> Datum:
    """A value that must be a condition."""
    if value.type.id == _BOOL:
        return value
    if value.type.id != _NULL:
        raise Refusal(
            f"a condition (true or false) is needed, not {value.type}; compare it with something"
        )
    return value.cast(pa.bool_())


def constant(value: Datum, what: str) -> object:
    """The Python value of an argument that must be the same for all rows."""
    if not isinstance(value, pa.Scalar):
        raise Refusal(f"{what} must be a constant; it is a column here")
    result: object = value.as_py()
    return result

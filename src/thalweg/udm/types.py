"""Types as module writers say them: Arrow types, or their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

from thalweg.errors import TypeMismatchError, did_you_mean

__all__ = ["ANY", "TypeLike", "arrow_type", "fits", "schema_of"]

TypeLike: TypeAlias = "str | pa.DataType"

ANY = "any"
"""An input that may be of any type."""

_OTHER_NAMES = {
    "int": "int64",
    "bigint": "int64",
    "float": "float64",
    "text": "string",
    "str": "string",
    "boolean": "bool",
}
_NAMES = ("bool", "int32", "int64", "float32", "double", "string", "binary", "date32")


def arrow_type(kind: TypeLike, where: str) -> pa.DataType:
    """
    >>> arrow_type("double", "module m"), arrow_type("text", "module m")
    (DataType(double), DataType(string))
    """
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.type_for_alias(_OTHER_NAMES.get(kind, kind))
    except (ValueError, TypeError, AttributeError):
        names = [*_NAMES, *_OTHER_NAMES]
        hint = did_you_mean(str(kind), names)
        raise TypeMismatchError(
            f"{where}: unknown type {kind!r}{hint} Types: {', '.join(_NAMES)}, or a pyarrow type."
        ) from None


def schema_of(columns: pa.Schema | Mapping[str, TypeLike], where: str) -> pa.Schema:
    """Names and types as a schema."""
    if isinstance(columns, pa.Schema):
        return columns
    if not columns or not isinstance(columns, Mapping):
        raise TypeMismatchError(
            f"{where}: columns are a pyarrow schema or {{'name': 'type'}}; got {columns!r}."
        )
    return pa.schema([(name, arrow_type(kind, where)) for name, kind in columns.items()])


def fits(actual: pa.DataType, declared: pa.DataType) -> bool:
    """Whether values of the actual type may be passed as the declared one: the same type, or a wider
    number.

    >>> fits(pa.int64(), pa.float64()), fits(pa.float64(), pa.int64())
    (True, False)
    """
    if actual == declared or pa.types.is_null(actual):
        return True
    if pa.types.is_floating(declared):
        return bool(
            pa.types.is_integer(actual)
            or pa.types.is_boolean(actual)
            or pa.types.is_floating(actual)
        )
    return bool(
        pa.types.is_integer(declared)
        and pa.types.is_integer(actual)
        and actual.bit_width <= declared.bit_width
    )

"""Types of modules: columns as a schema, and which types fit which."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from thalweg.errors import TypeMismatchError
from thalweg.model.type_names import TypeLike, arrow_type

__all__ = ["ANY", "fits", "schema_of"]

ANY = "any"
"""An input that may be of any type."""


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
    """Whether values of the actual type may be passed as the declared one: the same type, or a
    wider number.

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

"""Types of columns by name, as sources, modules and registers take them: Arrow types, their names,
and what Python and SQL call them.

>>> arrow_type("int", "source 's'"), arrow_type("timestamptz", "source 's'")
(DataType(int64), TimestampType(timestamp[us, tz=UTC]))
>>> arrow_type("timestamp[ms, tz=Europe/Berlin]", "source 's'")
TimestampType(timestamp[ms, tz=Europe/Berlin])
"""

from __future__ import annotations

import re
from typing import TypeAlias

import pyarrow as pa

from thalweg.errors import TypeMismatchError, did_you_mean

__all__ = ["TypeLike", "arrow_type", "shown_columns"]

TypeLike: TypeAlias = "str | pa.DataType"

_ARROW_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "string", "binary", "date32", "timestamp[us]"),
    "timestamp[us, tz=UTC]",
)
_OTHER_NAMES: dict[str, str] = {
    "int": "int64",
    "bigint": "int64",
    "float": "float64",
    "double": "float64",
    "text": "string",
    "str": "string",
    "boolean": "bool",
    "date": "date32",
    "timestamp": "timestamp[us]",
    "timestamptz": "timestamp[us, tz=UTC]",
}
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]")


def arrow_type(kind: TypeLike, where: str) -> pa.DataType:
    """The type of a name; `where` begins the message if there is none."""
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, type):  # int, str: as Python calls them
        kind = kind.__name__
    try:
        name = _OTHER_NAMES.get(kind, kind)
        zoned = _ZONED.fullmatch(name)
        return pa.timestamp(zoned[1], zoned[2]) if zoned else pa.type_for_alias(name)
    except (ValueError, TypeError, AttributeError):
        hint = did_you_mean(str(kind), [*_ARROW_NAMES, *_OTHER_NAMES])
        raise TypeMismatchError(
            f"{where}: unknown type {kind!r}{hint} Types: {', '.join(_ARROW_NAMES)}, or a pyarrow "
            "type."
        ) from None


def shown_columns(schema: pa.Schema) -> str:
    """Columns with their types, as messages show them.

    >>> shown_columns(pa.schema([("k", pa.string()), ("n", pa.int64())]))
    'k string, n int64'
    """
    return ", ".join(f"{field.name} {field.type}" for field in schema)

"""Conditions as Spark's SQL, where both mean the same for every row.

That is so for comparisons of whole numbers, for equality of text that is compared byte by byte, for
truth values and for the question whether a value is null, put together by AND, OR and NOT: nulls
follow the same three-valued logic. Numbers with a point, times and computed values are left alone.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.expr import Call, Column, Expr, Literal

__all__ = ["sql_condition"]

_COMPARED = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_EQUATED = {"eq", "ne"}
_JOINED = {"and": "AND", "or": "OR"}
_ASKED = {"is_null": "IS NULL", "is_not_null": "IS NOT NULL"}


def sql_condition(expr: Expr, schema: pa.Schema) -> str | None:
    """The condition as SQL over columns of these types; None: Spark might see it otherwise.

    >>> from thalweg.expr import col
    >>> columns = pa.schema({"v": "int32", "t": "string", "f": "float64"})
    >>> sql_condition((col("v") > 3) & ~(col("t") == "a"), columns)
    "((`v` > 3L) AND (NOT (`t` = 'a')))"
    >>> sql_condition(col("f") > 3, columns) is None
    True
    """
    if isinstance(expr, Column):
        return _value(expr) if pa.types.is_boolean(expr.type_in(schema)) else None
    if not isinstance(expr, Call):
        return None
    name, args = expr.function, expr.args
    if name in _JOINED or name == "not":
        return _joined(name, [sql_condition(arg, schema) for arg in args])
    if name in _ASKED and isinstance(args[0], Column):
        return f"({_value(args[0])} {_ASKED[name]})"
    if name in _COMPARED:
        return _comparison(name, args, schema)
    return None


def _joined(name: str, parts: list[str | None]) -> str | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return f"(NOT {known[0]})" if name == "not" else f"({f' {_JOINED[name]} '.join(known)})"


def _comparison(name: str, args: tuple[Expr, ...], schema: pa.Schema) -> str | None:
    kinds = [arg.type_in(schema) for arg in args]
    whole = all(pa.types.is_signed_integer(kind) for kind in kinds)
    text = name in _EQUATED and all(pa.types.is_string(kind) for kind in kinds)
    values = [_value(arg) for arg in args]
    if not (whole or text) or any(value is None for value in values):
        return None
    return f"({values[0]} {_COMPARED[name]} {values[1]})"


def _value(expr: Expr) -> str | None:
    """A column or a constant."""
    if isinstance(expr, Column):
        return f"`{expr.name}`" if "`" not in expr.name else None
    if not isinstance(expr, Literal):
        return None
    if isinstance(expr.value, str):
        return _quoted(expr.value)
    return f"{expr.value}L" if type(expr.value) is int and expr.value > -(2**63) else None


def _quoted(text: str) -> str | None:
    """Text that SQL reads alike, whatever its settings say about escapes."""
    return f"'{text}'" if text.isprintable() and not set(text) & set("'\\\"") else None

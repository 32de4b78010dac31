"""Expressions as text: SQL that parses back to the same expression, with only the parentheses that
are needed.

Two exceptions parse to an equal expression of another shape: a literal with a type of its own
prints as a CAST, and a type without an SQL name prints under its Arrow name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

__all__ = [
    "ATOM",
    "RESERVED_WORDS",
    "STATEMENT_WORDS",
    "Rendered",
    "render_call",
    "render_name",
    "render_value",
]

Rendered = tuple[str, int]
"""Text, and how tightly its outermost operator binds."""

_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _NEGATE, ATOM = range(8)
_INFIX = {
    "or": (" OR ", _OR),
    "and": (" AND ", _AND),
    "eq": (" = ", _COMPARE),
    "ne": (" <> ", _COMPARE),
    "lt": (" < ", _COMPARE),
    "le": (" <= ", _COMPARE),
    "gt": (" > ", _COMPARE),
    "ge": (" >= ", _COMPARE),
    "like": (" LIKE ", _COMPARE),
    "ilike": (" ILIKE ", _COMPARE),
    "is_distinct": (" IS DISTINCT FROM ", _COMPARE),
    "in": (" IN ", _COMPARE),
    "add": (" + ", _ADD),
    "subtract": (" - ", _ADD),
    "multiply": (" * ", _MULTIPLY),
    "divide": (" / ", _MULTIPLY),
    "floor_div": (" // ", _MULTIPLY),
    "mod": (" % ", _MULTIPLY),
}
_POSTFIX = {"is_null": " IS NULL", "is_not_null": " IS NOT NULL"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

STATEMENT_WORDS = frozenset(
    {"SELECT", "FROM", "WITH", "INSERT", "UPDATE", "DELETE", "DROP", "CREATE", "ALTER"}
)
"""Words that begin another statement; they name a column only between quotes."""

RESERVED_WORDS = STATEMENT_WORDS | {
    "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "NULL", "TRUE", "FALSE",
    "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "CAST", "DIV", "ILIKE", "RLIKE", "REGEXP",
    "INTERVAL",
}  # fmt: skip
"""Words that are printed between quotes when they name a column."""


def render_name(name: str) -> str:
    """A column as it must be written.

    >>> render_name("len"), render_name("l.price"), render_name('odd "name"'), render_name("end")
    ('len', 'l.price', '"odd ""name\"""', '"end"')
    """
    parts = name.split(".")
    if len(parts) <= 2 and all(
        _PLAIN.fullmatch(part) and part.upper() not in RESERVED_WORDS for part in parts
    ):
        return name
    return '"' + name.replace('"', '""') + '"'


def render_value(value: object) -> str:
    """A constant as it must be written."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"CAST('{value}' AS double)"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, timedelta):
        return f"INTERVAL '{value // timedelta(microseconds=1)}' MICROSECOND"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(render_value(item) for item in value) + ")"
    return "'" + str(value).replace("'", "''") + "'"


def render_call(function: str, args: Sequence[Rendered]) -> Rendered:
    """A call of a function or operator whose arguments are rendered already."""
    if function in _INFIX:
        symbol, level = _INFIX[function]
        chains = level != _COMPARE
        left = _within(args[0], level if chains else level + 1)
        return left + symbol + _within(args[1], level + 1), level
    if function in _POSTFIX:
        return _within(args[0], _COMPARE + 1) + _POSTFIX[function], _COMPARE
    if function == "not":
        # NOT x IS NULL would read as x IS NOT NULL: equal, but not the same expression.
        return "NOT " + _within(
            args[0], ATOM if args[0][0].endswith(_POSTFIX["is_null"]) else _NOT + 1
        ), _NOT
    if function == "negate":
        text, level = args[0]
        bare = level == ATOM and not text[0].isdigit() and not text.startswith("-")
        return "-" + (text if bare else f"({text})"), _NEGATE
    return f"{function}({', '.join(text for text, _ in args)})", ATOM


def _within(part: Rendered, level: int) -> str:
    return part[0] if part[1] >= level else f"({part[0]})"

"""Facts about expressions that plans use: which column goes where, and what can fail."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping

import pyarrow as pa

from thalweg.expr import Call, Column, Expr, Literal
from thalweg.expr.functions import FUNCTIONS

__all__ = [
    "START",
    "Keys",
    "Named",
    "Side",
    "cannot_fail",
    "columns_of_side",
    "is_floating",
    "passed_on",
    "show_columns",
    "show_expressions",
    "substitute",
    "unchanged",
]

Named = tuple[tuple[str, Expr], ...]
"""Output columns in order: name and expression."""

Keys = tuple[Expr, ...]
"""Expressions whose values decide which rows belong together."""

Side: typing.TypeAlias = typing.Literal["l", "r"]
"""What stands before the columns of a side in expressions over pairs: `l.x`, `r.x`."""

START = "_start"


def show_expressions(expressions: Iterable[Expr]) -> str:
    """Expressions as messages and `explain()` show them."""
    return ", ".join(map(str, expressions))


def show_columns(columns: Named) -> str:
    """Columns as `explain()` shows them.

    >>> from thalweg.expr import parse
    >>> show_columns((("a", parse("a")), ("b", parse("a + 1"))))
    'a, b = a + 1'
    """
    return ", ".join(name if str(expr) == name else f"{name} = {expr}" for name, expr in columns)


def columns_of_side(names: Iterable[str], side: Side) -> Named:
    """All columns of one side of a pair, under their own names.

    >>> [(name, str(expr)) for name, expr in columns_of_side(["a", "b"], "l")]
    [('a', 'l.a'), ('b', 'l.b')]
    """
    return tuple((name, Column(f"{side}.{name}")) for name in names)


def unchanged(names: Iterable[str]) -> Named:
    """Columns as they are, under their own names."""
    return tuple((name, Column(name)) for name in names)


def passed_on(columns: Named) -> dict[str, str]:
    """The output columns that are input columns, perhaps under another name: new name to old.

    >>> from thalweg.expr import parse
    >>> passed_on((("a", parse("x")), ("b", parse("x + 1"))))
    {'a': 'x'}
    """
    return {name: expr.name for name, expr in columns if isinstance(expr, Column)}


def cannot_fail(expr: Expr) -> bool:
    """Whether an expression has a value for every row, so that it may be evaluated on rows it did
    not see before.

    >>> from thalweg.expr import parse
    >>> cannot_fail(parse("a > 1 and b is not null")), cannot_fail(parse("cast(a as bigint) > 1"))
    (True, False)
    """
    if isinstance(expr, Call):
        return FUNCTIONS[expr.function].is_total and all(map(cannot_fail, expr.args))
    return isinstance(expr, (Column, Literal))


def is_floating(names: Iterable[str], schema: pa.Schema) -> bool:
    """Whether one of the columns holds floating-point numbers."""
    return any(pa.types.is_floating(schema.field(name).type) for name in names)


def substitute(expr: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """The expression with other expressions in place of some columns.

    >>> from thalweg.expr import lit, parse
    >>> str(substitute(parse("coalesce(a, b)"), {"a": lit(1)})) == str(parse("coalesce(1, b)"))
    True
    """
    if isinstance(expr, Column):
        return replacements.get(expr.name, expr)
    return expr.with_parts([substitute(part, replacements) for part in expr.parts()])

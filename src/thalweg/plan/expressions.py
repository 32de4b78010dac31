"""What plans need to know about expressions: which column goes where, and what can fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from thalweg.expr import Call, Case, Cast, Column, Expr, Literal, UserCall

__all__ = ["START", "Keys", "Named", "cannot_fail", "is_floating", "passed_on", "substitute"]

Named = tuple[tuple[str, Expr], ...]
"""Output columns in order: name and expression."""

Keys = tuple[Expr, ...]
"""Expressions whose values decide which rows belong together."""

START = "_start"

_CONDITIONS = {
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and",
    "or",
    "not",
    "in",
    "is_null",
    "is_not_null",
    "coalesce",
    "nullif",
}
_TOTAL = _CONDITIONS | {"lower", "upper", "length", "starts_with", "ends_with", "contains"}
"""Functions that have an answer for every row: no overflow, no division, no parsing."""


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
    match expr:
        case Column() | Literal():
            return True
        case Call(function=function, args=args):
            return function in _TOTAL and all(map(cannot_fail, args))
    return False


def is_floating(names: Iterable[str], schema: pa.Schema) -> bool:
    """Whether one of the columns holds floating-point numbers."""
    return any(pa.types.is_floating(schema.field(name).type) for name in names)


def substitute(expr: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """The expression with other expressions in place of some columns.

    >>> from thalweg.expr import lit, parse
    >>> str(substitute(parse("coalesce(a, b)"), {"a": lit(1)})) == str(parse("coalesce(1, b)"))
    True
    """
    match expr:
        case Column(name=name):
            return replacements.get(name, expr)
        case Call(function=function, args=args):
            return Call(function, tuple(substitute(part, replacements) for part in args))
        case Case(branches=branches, default=default):
            cases = tuple(
                (substitute(when, replacements), substitute(then, replacements))
                for when, then in branches
            )
            return Case(cases, None if default is None else substitute(default, replacements))
        case Cast(expr=operand, type=type_):
            return Cast(substitute(operand, replacements), type_)
        case UserCall(function=own, args=args):
            return UserCall(own, tuple(substitute(part, replacements) for part in args))
    return expr

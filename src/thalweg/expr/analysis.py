"""Facts about expressions, from which the properties of a plan's rows follow.

`is_monotone_in_start(f)`: s <= t implies f(s) <= f(t); `is_monotone_in(f, columns)`: the same for
each of several columns. Found by following the direction of growth through the tree; an expression
whose direction is not certain counts as unknown, so the answer errs towards no.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import timedelta
from enum import Enum

import pyarrow as pa
from pyarrow import types

from thalweg.errors import ThalwegError
from thalweg.expr.frame import Frame
from thalweg.expr.nodes import Call, Cast, Column, Expr, Literal

__all__ = ["is_monotone_in", "is_monotone_in_start"]

_KEEPS_DIRECTION = {"floor", "ceil", "sign", "exp"}


class _Growth(Enum):
    """What an expression does while a column grows."""

    STAYS = 0
    RISES = 1
    FALLS = -1
    UNKNOWN = None


def is_monotone_in_start(expr: Expr) -> bool:
    """Whether it depends on `_start` alone and never falls while `_start` grows.

    >>> from thalweg.expr import parse
    >>> [is_monotone_in_start(parse(text)) for text in ("_start // 10 * 10 + 5", "100 - _start")]
    [True, False]
    """
    return is_monotone_in(expr, {"_start"})


def is_monotone_in(expr: Expr, columns: Collection[str]) -> bool:
    """Whether it depends on these columns alone and never falls while one of them grows.

    >>> from thalweg.expr import parse
    >>> [is_monotone_in(parse(text), {"a", "b"}) for text in ("greatest(a, b) + 5", "a - b")]
    [True, False]
    """
    return _growth(expr, columns) in (_Growth.STAYS, _Growth.RISES)


def _growth(expr: Expr, rising: Collection[str]) -> _Growth:
    if isinstance(expr, Column):
        return _Growth.RISES if expr.name in rising else _Growth.UNKNOWN
    if not expr.columns():
        return _Growth.UNKNOWN if _number(expr) is None else _Growth.STAYS
    if isinstance(expr, Cast):
        ordered = types.is_integer(expr.type) or types.is_floating(expr.type)
        kept = ordered or types.is_timestamp(expr.type)  # from ticks, or from another timestamp
        return _growth(expr.expr, rising) if kept else _Growth.UNKNOWN
    return _growth_of_call(expr, rising) if isinstance(expr, Call) else _Growth.UNKNOWN


def _growth_of_call(expr: Call, rising: Collection[str]) -> _Growth:
    name, args = expr.function, expr.args
    if name in ("add", "least", "greatest"):
        return _together(*(_growth(arg, rising) for arg in args))
    if name == "subtract":
        return _together(_growth(args[0], rising), _reverse(_growth(args[1], rising)))
    if name == "negate":
        return _reverse(_growth(args[0], rising))
    if name == "multiply":
        factor, other = (args[0], args[1]) if not args[0].columns() else (args[1], args[0])
        return _scaled(_growth(other, rising), _number(factor))
    if name in ("divide", "floor_div"):
        divisor = _number(args[1])
        return _scaled(_growth(args[0], rising), divisor) if divisor else _Growth.UNKNOWN
    if name in _KEEPS_DIRECTION or (
        name == "round" and all(isinstance(arg, Literal) for arg in args[1:])
    ):
        return _growth(args[0], rising)
    return _Growth.UNKNOWN


def _together(*growths: _Growth) -> _Growth:
    moving = {growth for growth in growths if growth is not _Growth.STAYS}
    if len(moving) > 1:
        return _Growth.UNKNOWN
    return moving.pop() if moving else _Growth.STAYS


def _reverse(growth: _Growth) -> _Growth:
    return _Growth.UNKNOWN if growth.value is None else _Growth(-growth.value)


def _scaled(growth: _Growth, factor: float | None) -> _Growth:
    if factor is None or growth is _Growth.UNKNOWN:
        return _Growth.UNKNOWN
    return growth if factor > 0 else _reverse(growth) if factor < 0 else _Growth.STAYS


def _number(expr: Expr) -> float | None:
    """The value of a constant expression, when it is a finite number."""
    if expr.columns():
        return None
    try:
        value = expr.evaluate(Frame({}, 1))[0].as_py()
    except (ThalwegError, pa.ArrowException):
        return None
    if isinstance(value, timedelta):
        value = value // timedelta(microseconds=1)
    return (
        value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        else None
    )

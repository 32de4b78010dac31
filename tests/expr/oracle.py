"""Expressions evaluated one row at a time in plain Python: the meaning, written as naively as
possible.

Conditions know true, false and None. Operands of AND, OR and every function are evaluated before
the operation; a CASE evaluates only what it needs. `Undefined` is what must become an
`EvaluationError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from thalweg.expr import Call, Case, Cast, Column, Expr, Literal


class Undefined(Exception):  # noqa: N818
    """No value, not even null."""


def value_of(expr: Expr, row: Mapping[str, Any]) -> Any:
    """The value of an expression on one row."""
    if isinstance(expr, Column):
        return row[expr.name]
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, Cast):
        return _cast(value_of(expr.expr, row), expr.type)
    if isinstance(expr, Case):
        for condition, value in expr.branches:
            if value_of(condition, row) is True:
                return value_of(value, row)
        return None if expr.default is None else value_of(expr.default, row)
    assert isinstance(expr, Call)
    args = [value_of(arg, row) for arg in expr.args]
    if expr.function in SEES_NULL:
        return SEES_NULL[expr.function](*args)
    return None if any(arg is None for arg in args) else STRICT[expr.function](*args)


def int64(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise Undefined("overflow")
    return value


def _pair(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Two numbers of one type: doubles as soon as one is."""

    def apply(a: Any, b: Any) -> Any:
        if isinstance(a, float) != isinstance(b, float):
            a, b = float(a), float(b)
        return int64(operation(a, b))

    return apply


def _divisor(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        if b == 0:
            if isinstance(a, float) or isinstance(b, float):
                return None
            raise Undefined("division by zero")
        return operation(a, b)

    return apply


def _truncated_mod(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return math.nan if math.isinf(a) or math.isnan(a) or math.isnan(b) else math.fmod(a, b)
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _and(a: Any, b: Any) -> Any:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: Any, b: Any) -> Any:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _in(a: Any, choices: tuple[Any, ...]) -> Any:
    answer: Any = False
    for choice in choices:
        answer = _or(answer, None if a is None or choice is None else STRICT["eq"](a, choice))
    return answer


def like(text: str, pattern: str) -> bool:
    """SQL's LIKE by its definition."""
    if not pattern:
        return not text
    head, tail = pattern[0], pattern[1:]
    if head == "%":
        return any(like(text[cut:], tail) for cut in range(len(text) + 1))
    if head == "\\":
        head, tail = tail[0], tail[1:]
        return text[:1] == head and like(text[1:], tail)
    return bool(text) and head in ("_", text[0]) and like(text[1:], tail)


def _cast(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if type_ == pa.string():
        return str(value)
    if type_ == pa.float64():
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise Undefined("not a whole number")
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]+", value):
        raise Undefined("not a number")
    return int64(int(value))


STRICT: dict[str, Callable[..., Any]] = {
    "add": _pair(lambda a, b: a + b),
    "subtract": _pair(lambda a, b: a - b),
    "multiply": _pair(lambda a, b: a * b),
    "divide": lambda a, b: None if b == 0 else float(a) / float(b),
    "floor_div": _divisor(_pair(lambda a, b: a // b)),
    "mod": _divisor(_pair(_truncated_mod)),
    "floor_mod": _divisor(_pair(lambda a, b: a % b)),
    "negate": lambda a: int64(-a),
    "abs": lambda a: int64(abs(a)),
    "sign": lambda a: a if a != a else type(a)((a > 0) - (a < 0)),
    "eq": _pair(lambda a, b: a == b),
    "ne": _pair(lambda a, b: a != b),
    "lt": _pair(lambda a, b: a < b),
    "le": _pair(lambda a, b: a <= b),
    "gt": _pair(lambda a, b: a > b),
    "ge": _pair(lambda a, b: a >= b),
    "not": lambda a: not a,
    "concat": lambda *texts: "".join(texts),
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
    "trim": lambda text: text.strip(" "),
    "substring": lambda text, start, size: text[start - 1 : start - 1 + size],
    "char_at": lambda text, place: text[place : place + 1] or None,
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "like": like,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": lambda text, part: part in text,
}

SEES_NULL: dict[str, Callable[..., Any]] = {
    "and": _and,
    "or": _or,
    "in": _in,
    "is_null": lambda a: a is None,
    "is_not_null": lambda a: a is not None,
    "coalesce": lambda *values: next((v for v in values if v is not None), None),
    "nullif": lambda a, b: None if a is not None and b is not None and STRICT["eq"](a, b) else a,
    "least": lambda *values: min((v for v in values if v is not None), default=None),
    "greatest": lambda *values: max((v for v in values if v is not None), default=None),
}

"""An expression over one row, evaluated on Python values: the cheapest form for a batch of one row.

A kernel over a column costs several microseconds whatever the number of rows; over one row, a few
comparisons in Python give the same value in a fraction of that. Only what has the same meaning in
both worlds is translated: columns and constants of int64, double, text and truth, comparisons of
equal types, sums and products of equal types, extremes of int64, AND, OR, NOT and IS NULL. For any
other expression there is no such form, and the kernels are used.

A value that needs the kernels (a sum beyond int64, which is an error there) raises `NeedsKernel`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from thalweg.expr.nodes import Call, Column, Expr, Literal

__all__ = ["Cell", "NeedsKernel", "RowFunction", "Values", "row_function"]

Values: TypeAlias = list[Any]
"""The values of one row, by slot; None is null."""
RowFunction: TypeAlias = Callable[[Values], Any]

_INT, _DOUBLE, _TEXT, _TRUTH = pa.int64(), pa.float64(), pa.string(), pa.bool_()
_TYPES = (_INT, _DOUBLE, _TEXT, _TRUTH)
_LOW, _HIGH = -(2**63), 2**63 - 1

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}

_EXTREMES: dict[str, Callable[[list[Any]], Any]] = {"least": min, "greatest": max}


class NeedsKernel(Exception):  # noqa: N818 - no error: the kernels give the answer
    """This value can only be found, or refused, by the kernels."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Where the value of a column is in a row: its slot, its type, and the column of the batch that
    holds it unchanged, if one does."""

    slot: int
    type: pa.DataType
    source: int | None = None


def row_function(
    expr: Expr, cells: Mapping[str, Cell], used: set[Cell]
) -> tuple[RowFunction, pa.DataType] | None:
    """The expression as a function of the values of one row, and its type; None where only the
    kernels will do. The cells that it reads are added to `used`.

    >>> from thalweg.expr import parse
    >>> f, kind = row_function(parse("v * 2 > 5"), {"v": Cell(0, pa.int64())}, set())
    >>> f([3]), f([None]), str(kind)
    (True, None, 'bool')
    """
    if isinstance(expr, Column):
        cell = cells.get(expr.name)
        if cell is None or cell.type not in _TYPES:
            return None
        used.add(cell)
        return operator.itemgetter(cell.slot), cell.type
    if isinstance(expr, Literal):
        kind = expr.scalar.type
        value = expr.scalar.as_py() if kind in _TYPES else None
        return None if kind not in _TYPES else (lambda _: value, kind)
    if not isinstance(expr, Call):
        return None
    parts = [row_function(part, cells, used) for part in expr.args]
    functions, types = [], []
    for part in parts:
        if part is None:
            return None
        functions.append(part[0])
        types.append(part[1])
    return _applied(expr.function, functions, types)


def _applied(
    name: str, functions: list[RowFunction], types: list[pa.DataType]
) -> tuple[RowFunction, pa.DataType] | None:
    if name == "is_null":
        (operand,) = functions
        return (lambda values: operand(values) is None), _TRUTH
    if name == "is_not_null":
        (operand,) = functions
        return (lambda values: operand(values) is not None), _TRUTH
    if any(kind != types[0] for kind in types):
        return None
    if name in _COMPARISONS:
        return _compare(_COMPARISONS[name], *functions), _TRUTH
    if name in _ARITHMETIC and types[0] == _INT:
        return _whole(_ARITHMETIC[name], *functions), _INT
    if name in _EXTREMES and types[0] == _INT:
        return _extreme(_EXTREMES[name], functions), _INT
    if name in _ARITHMETIC and types[0] == _DOUBLE:
        return _compare(_ARITHMETIC[name], *functions), _DOUBLE
    if types[0] != _TRUTH:
        return None
    if name == "not":
        (operand,) = functions
        return (lambda values: None if (value := operand(values)) is None else not value), _TRUTH
    if name in ("and", "or"):
        return _connect(*functions, decides=name == "or"), _TRUTH
    return None


def _compare(
    apply: Callable[[Any, Any], Any], left: RowFunction, right: RowFunction
) -> RowFunction:
    def function(values: Values) -> Any:
        left_value, right_value = left(values), right(values)
        return None if left_value is None or right_value is None else apply(left_value, right_value)

    return function


def _whole(apply: Callable[[Any, Any], Any], left: RowFunction, right: RowFunction) -> RowFunction:
    def function(values: Values) -> Any:
        left_value, right_value = left(values), right(values)
        if left_value is None or right_value is None:
            return None
        result = apply(left_value, right_value)
        if not _LOW <= result <= _HIGH:
            raise NeedsKernel
        return result

    return function


def _extreme(choose: Callable[[list[Any]], Any], functions: list[RowFunction]) -> RowFunction:
    """The least or greatest of the values that are not null."""

    def function(values: Values) -> Any:
        present = [value for operand in functions if (value := operand(values)) is not None]
        return choose(present) if present else None

    return function


def _connect(left: RowFunction, right: RowFunction, *, decides: bool) -> RowFunction:
    """Three-valued AND and OR. `decides` is the value that settles the result even beside a null:
    False for AND, True for OR. Both sides are always computed, as the kernels do, so that an error
    of either side is raised."""

    def function(values: Values) -> Any:
        left_value, right_value = left(values), right(values)
        if left_value is decides or right_value is decides:
            return decides
        return None if left_value is None or right_value is None else not decides

    return function

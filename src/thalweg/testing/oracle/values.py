"""Expressions and times for the oracle: one row at a time, Python integers, no arrays of more than
one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from thalweg.expr import Expr, Frame
from thalweg.model import INFINITY
from thalweg.plan.nodes import Named

__all__ = ["ceiling", "columns_of", "evaluate", "floor", "later", "ticks_of"]


def evaluate(expr: Expr, values: Mapping[str, Any], schema: pa.Schema) -> Any:
    """The value of an expression on one row; a column that the row lacks is null."""
    frame = Frame(
        {field.name: pa.array([values.get(field.name)], field.type) for field in schema}, 1
    )
    return expr.evaluate(frame).to_pylist()[0]


def columns_of(columns: Named, values: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """The payload that a list of named expressions makes of one row."""
    return {name: evaluate(expr, values, schema) for name, expr in columns}


def ticks_of(expr: Expr, values: Mapping[str, Any], schema: pa.Schema) -> int | None:
    """A time or a number of ticks from an expression; None where it has no place on the time
    axis."""
    value = evaluate(expr, values, schema)
    return None if value is None else int(value)


def later(time: int, ticks: int) -> int:
    """`time + ticks`; infinity on either side stays infinite."""
    return INFINITY if INFINITY in (time, ticks) else time + ticks


def floor(time: int, step: int, offset: int) -> int:
    """The last point of the grid `offset + k * step` at or before a time."""
    return time if time == INFINITY else offset + (time - offset) // step * step


def ceiling(time: int, step: int, offset: int) -> int:
    """The first point of the grid at or after a time."""
    below = floor(time, step, offset)
    return below if below == time else below + step

"""The clock of a query: what its times are to its reader, from what they are in its sources.

`_start` and `_end` are ticks inside a plan. In the expressions that a user writes they are
timestamps where the clock is one: `with_clock` puts the casts there, once, where the text is read.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.errors import UnknownColumnError
from thalweg.expr import Cast, Column, Expr
from thalweg.expr.fields import with_fields
from thalweg.model.clocks import Clock, common_clock
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.sources import Leaf, Source
from thalweg.plan.nodes.traversal import find

__all__ = [
    "as_ticks",
    "clock_of",
    "refuse_time_column",
    "resolve_expression",
    "time_columns",
    "with_clock",
]

_TIMES = frozenset({"_start", "_end", "l._start", "l._end", "r._start", "r._end"})


def clock_of(root: Node) -> Clock:
    """The clock of all sources of a plan together."""
    return common_clock([leaf.clock for leaf in find(root, Leaf)])


def time_columns(root: Node) -> frozenset[str]:
    """The columns from which the sources of a plan read the start of a row."""
    columns = (source.start_columns for source in find(root, Source))
    return frozenset[str]().union(*columns)


def refuse_time_column(name: str, node: Node, where: str) -> None:
    """Refuse the name under which a source read its times: behind it they are `_start`."""
    if name not in node.schema.names and name in time_columns(node):
        raise UnknownColumnError(
            name,
            [*node.schema.names, "_start"],
            where,
            hint="It is the time of the rows, which expressions call _start.",
        )


def with_clock(expr: Expr, clock: Clock) -> Expr:
    """The same expression, in which the times of rows are timestamps of the clock.

    >>> from thalweg.expr import parse
    >>> str(with_clock(parse("hour(_start) > 8"), pa.timestamp("us")))
    'hour(CAST(_start AS timestamp)) > 8'
    """
    if clock is None or not expr.columns() & _TIMES:
        return expr
    if isinstance(expr, Column):
        return Cast(expr, clock) if expr.name in _TIMES else expr
    if isinstance(expr, Cast) and isinstance(expr.expr, Column) and _takes_ticks(expr.type):
        return expr  # the user has said which type
    return expr.with_parts([with_clock(part, clock) for part in expr.parts()])


def _takes_ticks(type_: pa.DataType) -> bool:
    """Whether a time is cast to this type from its ticks: a number is made of them, and a timestamp
    is one whatever its zone; texts and dates are those of the clock."""
    number = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    return number or pa.types.is_timestamp(type_)


def resolve_expression(expr: Expr, node: Node) -> Expr:
    """What a user wrote over the rows of a node: names with dots as fields, times as timestamps."""
    found = with_fields(expr, node.schema)
    for name in sorted(found.columns() - _TIMES):
        refuse_time_column(name, node, f"in {expr}")
    # The clock is looked for in all sources of the plan: not for expressions that read no times.
    return with_clock(found, clock_of(node)) if found.columns() & _TIMES else found


def as_ticks(expr: Expr, schema: pa.Schema) -> Expr:
    """An expression that gives a time, in ticks."""
    type_ = expr.type_in(schema)
    if pa.types.is_date(type_):
        expr = Cast(expr, pa.timestamp("us"))
    return Cast(expr, pa.int64()) if pa.types.is_temporal(type_) else expr

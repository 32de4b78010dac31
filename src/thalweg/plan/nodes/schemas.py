"""Which columns the expressions of a node see, and of which types; what it refuses of them."""

from __future__ import annotations

import pyarrow as pa

from thalweg.errors import TypeMismatchError, UnknownColumnError
from thalweg.expr import Expr
from thalweg.plan.expressions import Named

__all__ = [
    "columns_schema",
    "lifetime_schema",
    "require_condition",
    "require_known",
    "require_ticks",
]


def lifetime_schema(schema: pa.Schema, *, with_end: bool = False) -> pa.Schema:
    """A payload schema plus the columns that expressions may read: `_start`, and `_end` where it is
    safe."""
    extra = [pa.field("_start", pa.int64())] + ([pa.field("_end", pa.int64())] if with_end else [])
    return pa.schema([*schema, *extra])


def require_condition(expr: Expr, schema: pa.Schema, what: str) -> None:
    """Refuse an expression that is neither true nor false."""
    kind = expr.type_in(schema)
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise TypeMismatchError(f"{what} must be a condition (true or false); {expr} is {kind}.")


def require_ticks(expr: Expr, schema: pa.Schema, what: str) -> None:
    """Refuse an expression that gives no whole numbers."""
    kind = expr.type_in(schema)
    if not pa.types.is_integer(kind):
        raise TypeMismatchError(f"{what} must be a whole number of ticks; {expr} is {kind}.")


def columns_schema(columns: Named, schema: pa.Schema) -> pa.Schema:
    """The columns that expressions make."""
    return pa.schema([(name, expr.type_in(schema)) for name, expr in columns])


def require_known(names: tuple[str, ...], schema: pa.Schema, what: str) -> None:
    """Refuse names of columns that are not there."""
    for name in names:
        if name not in schema.names:
            raise UnknownColumnError(name, schema.names, what)

"""What the methods of streams take: columns, keys, durations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from thalweg.errors import (
    ExpressionError,
    PlanError,
    TypeMismatchError,
    UnknownColumnError,
    WindowError,
)
from thalweg.expr import Column, Expr, ExprLike, as_expr
from thalweg.io.frames import needs_plain_type, plain_type
from thalweg.model.clocks import zone_named
from thalweg.model.time import INFINITY, Duration, duration_us
from thalweg.model.type_names import arrow_type
from thalweg.plan.expressions import columns_of_side
from thalweg.plan.nodes import Named
from thalweg.windows.kinds import positive_ticks

__all__ = [
    "Columns",
    "Keys",
    "On",
    "Registers",
    "column_names",
    "default_result",
    "duration_or_expr",
    "filled_groups",
    "key_pairs",
    "lasting_ticks",
    "named_columns",
    "not_negative",
    "refuse_moved",
    "require_column",
    "schema_of",
    "shared_keys",
]

Keys: TypeAlias = "str | Sequence[str] | Mapping[str, ExprLike]"
"""Grouping keys: columns, or names with the expressions that give them."""
On: TypeAlias = "str | Expr | Sequence[str | Expr] | Mapping[str, ExprLike] | None"
"""Join keys: expressions that both sides have, or left expressions with their right ones."""
Registers: TypeAlias = "Mapping[str, str | pa.DataType | tuple[str | pa.DataType, Any]]"

Columns: TypeAlias = "Mapping[str, ExprLike] | Sequence[str]"


def named_columns(columns: Columns) -> Named:
    if isinstance(columns, Mapping):
        return tuple((name, as_expr(value)) for name, value in columns.items())
    return tuple((name.split(".")[-1], as_expr(name)) for name in columns)


def column_names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def require_column(name: str, schema: pa.Schema, what: str) -> None:
    if name not in schema.names:
        raise UnknownColumnError(name, schema.names, what)


def refuse_list(name: object, what: str) -> None:
    """Refuse a list of columns, or a star, where the name of a column is expected."""
    if isinstance(name, (list, tuple)):
        listed = ", ".join(map(repr, name))
        raise PlanError(f"{what}: columns are given one by one: {what}({listed}).")
    if name == "*":
        raise PlanError(
            f"{what}: '*' is no column; with_columns keeps all columns, drop leaves some out."
        )


def schema_of(columns: pa.Schema | Mapping[str, str | pa.DataType], where: str) -> pa.Schema:
    if isinstance(columns, pa.Schema):
        # a file may say that a column has no nulls; a stream does not promise that of rows to come
        return pa.schema([_plain(field.with_nullable(True), where) for field in columns])
    if not isinstance(columns, Mapping):
        raise PlanError(
            f"{where}: columns must be a pyarrow schema or {{'name': 'type'}}; got {columns!r}."
        )
    for column in columns:
        if not isinstance(column, str):
            raise PlanError(f"{where}: the name of a column is text; got {column!r}.")
    fields = [pa.field(column, arrow_type(kind, where)) for column, kind in columns.items()]
    return pa.schema([_plain(field, where) for field in fields])


def _plain(field: pa.Field, where: str) -> pa.Field:
    zone = field.type.tz if pa.types.is_timestamp(field.type) else None
    if zone is not None and zone_named(zone) is None:
        raise TypeMismatchError(
            f"{where}: the column {field.name!r} is in the unknown time zone {zone!r}; zones are "
            "named like 'Europe/Berlin', 'UTC' or '+02:00'. Cast it first."
        )
    return field.with_type(plain_type(field.type)) if needs_plain_type(field.type) else field


def not_negative(value: Duration, what: str) -> int:
    ticks = duration_us(value, what=what)
    if ticks < 0:
        raise WindowError(f"{what} must not be negative; got {value!r}.")
    return ticks


def duration_or_expr(value: Duration | Expr | None) -> Duration | Expr | None:
    """Text that reads as a duration is one; other text is an expression."""
    if not isinstance(value, str) or value == "forever":
        return value
    try:
        return duration_us(value)
    except WindowError:
        try:
            found = as_expr(value)
        except ExpressionError:
            return value  # the mistake is in a duration: its own message is the better one
        return found if found.columns() else value


def lasting_ticks(duration: Duration | None, what: str) -> int:
    endless = duration is None or duration == "forever" or duration == INFINITY
    return INFINITY if endless else positive_ticks(duration, what)  # type: ignore[arg-type]


def key_pairs(on: On) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    if on is None:
        return (), ()
    if isinstance(on, Mapping):
        return tuple(as_expr(key) for key in on), tuple(as_expr(value) for value in on.values())
    both = tuple(as_expr(key) for key in ([on] if isinstance(on, str | Expr) else on))
    return both, both


def shared_keys(left_keys: tuple[Expr, ...], right_keys: tuple[Expr, ...]) -> set[str]:
    """The columns that are keys under one name on both sides: the result has them once."""
    pairs = zip(left_keys, right_keys, strict=True)
    return {
        left.name
        for left, right in pairs
        if isinstance(left, Column) and isinstance(right, Column) and left.name == right.name
    }


def default_result(left: pa.Schema, right: pa.Schema, shared: set[str]) -> Named:
    right_columns = [
        (f"{name}_right" if name in left.names else name, Column(f"r.{name}"))
        for name in right.names
        if name not in shared
    ]
    return (*columns_of_side(left.names, "l"), *right_columns)


def refuse_moved(name: str) -> str:
    """Where an option went that used to be an argument of `aggregate`."""
    method = {"fill": "fill(...)", "wid": 'with_id("w")', "strategy": 'using("panes")'}.get(name)
    return "" if method is None else f" The option is a method before it: .{method}.aggregate(...)."


def filled_groups(
    schema: pa.Schema, keys: tuple[str, ...], fill: Iterable[Any] | None
) -> tuple[tuple[Any, ...], ...]:
    if fill is None:
        if keys:
            raise PlanError(f"fill: say which groups: a list of values of {', '.join(keys)}.")
        return ((),)
    if not keys:
        raise PlanError("fill: this stream has no groups; write fill().")
    groups = tuple(group if isinstance(group, tuple) else (group,) for group in fill)
    types = [schema.field(key).type for key in keys]
    for group in groups:
        if len(group) != len(types):
            raise PlanError(
                f"fill: the group {group!r} must have a value for each of {', '.join(keys)}."
            )
        for key, value, kind in zip(keys, group, types, strict=True):
            try:
                pa.scalar(value, kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as reason:
                raise TypeMismatchError(
                    f"fill: {value!r} is not a value of the key {key!r}, which is {kind}."
                ) from reason
    return groups

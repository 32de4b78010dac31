"""Window joins as plans: lifetimes as windows.

A window join is made of operators that are there. Each side's time becomes a column and its
lifetime what the window says (`join_windows`); the rows are joined where lifetimes overlap; and the
result starts at one of the two times, or at the later or earlier of both. The promises for that
start follow from the promises on both columns (`column_promises`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from thalweg.errors import PlanError, require_choice
from thalweg.expr import Column, Expr, Literal, call
from thalweg.model.time import INFINITY
from thalweg.plan.expressions import START, columns_of_side, passed_on, substitute, unchanged
from thalweg.plan.join_kinds import JOIN_KINDS
from thalweg.plan.join_windows import JoinWindow
from thalweg.plan.nodes import (
    AlterLifetime,
    ClipBy,
    Join,
    Named,
    Node,
    Retime,
    Select,
    SetDuration,
    Shift,
    Source,
)

__all__ = [
    "STAMPS",
    "asof_join",
    "is_of_points",
    "multi_join",
    "one_side",
    "prefixed",
    "side_by_side",
    "time_of",
    "window_join",
]

Keys = tuple[tuple[Expr, ...], tuple[Expr, ...]]

STAMPS = JOIN_KINDS["inner"].stamps


def is_of_points(node: Node) -> bool:
    """Whether the rows of a plan are points as their source gave them: such rows meet those of
    another stream only at the very same instant."""
    while node.row_by_row and node.before_exchange:
        (node,) = node.inputs
    return isinstance(node, Source) and node.declared.constant_duration == 1


def side_by_side(parts: Sequence[Node], keys: tuple[str, ...]) -> Node:
    """The answers of one group and window, from several computations of it."""
    joined = parts[0]
    for part in parts[1:]:
        answers = (name for name in part.schema.names if name not in keys)
        result = (
            *columns_of_side(joined.schema.names, "l"),
            *columns_of_side(answers, "r"),
        )
        start = (Column(START),)
        joined = Join(joined, part, start, start, result=result, same=keys)
    return joined


def window_join(
    sides: tuple[Node, Node],
    keys: Keys,
    window: JoinWindow,
    *,
    times: tuple[Expr, Expr],
    names: tuple[str, str],
    predicate: Expr | None,
    how: str,
    result: Named,
    shared: set[str],
    at: str,
) -> Node:
    """The plan of a window join; `result` says the columns of a pair, without its times."""
    kind = JOIN_KINDS[how]
    _refuse_stamp(at, how)
    left, right = (
        timed(side, time, name, which)
        for side, time, name, which in zip(sides, times, names, ("left", "right"), strict=True)
    )
    times_of_pairs = _times_of_pairs(names)
    left_keys = tuple(substitute(key, {START: Column(names[0])}) for key in keys[0])
    right_keys = tuple(substitute(key, {START: Column(names[1])}) for key in keys[1])
    where = None if predicate is None else substitute(predicate, times_of_pairs)
    inside = window.condition(Column(f"l.{names[0]}"), Column(f"r.{names[1]}"))
    if inside is not None:
        where = inside if where is None else where & inside
    left, right = Retime(left, *window.left()), Retime(right, *window.right())
    if kind.only_left_rows:
        matched = Join(left, right, left_keys, right_keys, where, how, whole=True)
        stamped = AlterLifetime(matched, Column(names[0]), 1)
        return Select(stamped, unchanged(sides[0].schema.names))
    carried: Named = tuple(
        (name, Column(f"{side}.{name}")) for side, name in zip("lr", names, strict=True)
    )
    columns: Named = (
        *((name, substitute(expr, times_of_pairs)) for name, expr in result),
        *carried,
    )
    left_only = one_side(columns, left.schema, right.schema, "l", shared) if kind.left_alone else ()
    right_only = (
        one_side(columns, right.schema, left.schema, "r", shared) if kind.right_alone else ()
    )
    joined = Join(
        left,
        right,
        left_keys,
        right_keys,
        where,
        how,
        columns,
        left_only,
        right_only,
        whole=not kind.only_pairs,
    )
    return AlterLifetime(joined, _stamp(at, [Column(name) for name in names]), 1)


def asof_join(
    sides: tuple[Node, Node],
    keys: Keys,
    *,
    within: int | None,
    exact: bool,
    names: tuple[str, str] | None,
    how: str,
    result: Named,
) -> Node:
    """Each left row with the latest right row before it: a right row lasts until the next one of
    its key starts.

    Right rows of one key and time are equally good, and all of them match. The times of both become
    columns of these names; without names, left rows are points.
    """
    left, right = sides
    carried: Named = ()
    if names is not None:
        left = timed(left, Column(START), names[0], "left")
        right = timed(right, Column(START), names[1], "right")
        carried = tuple(
            (name, Column(f"{side}.{name}")) for side, name in zip("lr", names, strict=True)
        )
    lasting: Node = SetDuration(right, INFINITY if within is None else within + (1 if exact else 0))
    if not exact:
        lasting = Shift(lasting, 1)
    signal = ClipBy(lasting, lasting, keys[1], keys[1])
    columns = (*result, *carried)
    left_only = (
        one_side(columns, left.schema, signal.schema, "l") if JOIN_KINDS[how].left_alone else ()
    )
    return Join(left, signal, *keys, how=how, result=columns, left_only=left_only)


def multi_join(
    streams: Mapping[str, Node],
    keys: Mapping[str, tuple[Expr, ...]],
    sizes: Mapping[str, int],
    *,
    predicate: Expr | None,
    result: Named,
) -> Node:
    """Rows of three or more streams whose windows, each as long as its stream's size, have an
    instant in common.

    One join after the other; what has been joined carries its lifetime on, so that no order is
    needed in between.
    """
    names = list(streams)
    joined = _windowed(names[0], streams[names[0]], sizes[names[0]])
    for name in names[1:]:
        other = _windowed(name, streams[name], sizes[name])
        columns: Named = (
            *columns_of_side(joined.schema.names, "l"),
            *columns_of_side(other.schema.names, "r"),
        )
        last = (
            None if predicate is None or name != names[-1] else predicate.rename(passed_on(columns))
        )
        left_keys = tuple(prefixed(key, names[0]) for key in keys[names[0]])
        joined = Join(
            joined,
            other,
            left_keys,
            tuple(prefixed(key, name) for key in keys[name]),
            last,
            result=columns,
        )
    stamped = AlterLifetime(joined, call("greatest", *(Column(time_of(name)) for name in names)), 1)
    return Select(stamped, (*result, *((f"{name}_time", Column(time_of(name))) for name in names)))


def timed(node: Node, time: Expr, name: str, side: str) -> Node:
    """Points at a row's time, which becomes a column."""
    if name in node.schema.names:
        raise PlanError(
            f"window_join: the {side} stream has a column {name!r} already; name the times "
            "otherwise with times=(..., ...)."
        )
    if not node.progresses(time):
        other = "right" if side == "left" else "left"
        time_columns = ", ".join(["_start", *sorted(node.progressing)])
        raise PlanError(
            f"window_join: the time of the {side} stream, {time}, makes no promises, so that rows "
            f"of the {other} input could never be dropped and its state would grow for ever. Times "
            f"that do: {time_columns}, or what rises with them."
        )
    points = node
    if not (isinstance(time, Column) and time.name == START):
        points = AlterLifetime(node, time, 1)
    elif node.properties.constant_duration != 1:
        points = SetDuration(node, 1)
    return Select(points, (*unchanged(node.schema.names), (name, Column(START))))


def one_side(
    result: Named, present: pa.Schema, missing: pa.Schema, side: str, shared: set[str] | None = None
) -> Named:
    """The result columns for a row whose partner is missing: the other side's columns are null,
    equal keys are known."""
    other = "r" if side == "l" else "l"
    replacements: dict[str, Expr] = {
        f"{side}.{name}": Column(name) for name in (*present.names, START)
    }
    replacements[f"{other}.{START}"] = Literal(None, pa.int64())
    for field in missing:
        null: Expr = (
            Column(field.name) if shared and field.name in shared else Literal(None, field.type)
        )
        replacements[f"{other}.{field.name}"] = null
        if field.name not in present.names:
            replacements[field.name] = null
    return tuple((name, substitute(expr, replacements)) for name, expr in result)


def _windowed(name: str, node: Node, size: int) -> Node:
    points = timed(node, Column(START), f"{name}_time", name)
    columns: Named = tuple((f"{name}.{column}", Column(column)) for column in node.schema.names)
    return SetDuration(Select(points, (*columns, (time_of(name), Column(f"{name}_time")))), size)


def time_of(name: str) -> str:
    """The column with the time of one of several streams or steps."""
    return f"{name}.{START}"


def prefixed(key: Expr, name: str) -> Expr:
    """An expression over one stream or step for the joined rows, whose columns are
    `name.column`."""
    return key.rename({column: f"{name}.{column}" for column in key.columns()})


def _times_of_pairs(names: tuple[str, str]) -> dict[str, Expr]:
    return {
        f"{side}.{START}": Column(f"{side}.{name}") for side, name in zip("lr", names, strict=True)
    }


def _stamp(at: str, times: list[Column]) -> Expr:
    if at in ("left", "right"):
        return times[at == "right"]
    return call("greatest" if at == "later" else "least", *times)


def _refuse_stamp(at: str, how: str) -> None:
    require_choice(at, STAMPS, "window_join: at")
    possible = JOIN_KINDS[how].stamps
    if at not in possible:
        raise PlanError(
            f"window_join: rows of a {how} join may lack the other time; at must be "
            f"{' or '.join(possible)}, not {at!r}."
        )

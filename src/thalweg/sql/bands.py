"""Interval joins, as Flink and Spark write them: conditions that bind the times of two streams.

    p.ts BETWEEN o.ts AND o.ts + INTERVAL '10' MINUTE
    o.ts >= p.ts - INTERVAL '5' MINUTE AND o.ts < p.ts

Each condition is a bound on the difference d = right time - left time, in ticks; together they mean
low <= d < high, which is the band join `l - before <= r < l + after` with before = -low and
after = high. A bound on one side alone would make a stream wait for ever, and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from thalweg.plan.join_windows import Band
from thalweg.plan.window_joins import is_of_points
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.relations import Relation

__all__ = ["band_of"]


@dataclass(frozen=True, slots=True)
class _Moment:
    """The time of one side plus `offset` ticks."""

    is_right: bool
    offset: int


def band_of(
    context: Context, left: Relation, right: Relation, conditions: list[exp.Expr]
) -> tuple[Band | None, list[exp.Expr]]:
    """The band that the conditions on times define, and the other conditions."""
    low: int | None = None
    high: int | None = None
    others: list[exp.Expr] = []
    found: exp.Expr | None = None
    for condition in conditions:
        bounds = _bounds(context, left, right, condition)
        if bounds is None:
            others.append(condition)
            continue
        found = condition
        for is_low, value in bounds:
            if is_low:
                low = value if low is None else max(low, value)
            else:
                high = value if high is None else min(high, value)
    if found is None:
        return None, conditions
    if low is None or high is None:
        context.text.refuse_node(
            found,
            "the times of a join need a bound on both sides, or its rows would wait for ever: "
            "b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' MINUTE.",
        )
    if low >= high:
        context.text.refuse_node(found, "no two times fulfil these bounds.")
    if (low, high) == (0, 1) and not all(is_of_points(side.stream.node) for side in (left, right)):
        # Rows that last, such as answers of windows, with equal starts: a key beside their
        # lifetimes.
        return None, conditions
    return Band(-low, high), others


def _bounds(
    context: Context, left: Relation, right: Relation, node: exp.Expr
) -> list[tuple[bool, int]] | None:
    """The bounds that a condition sets on the difference, as (is the lower bound, ticks); None
    where it does not compare the times of both sides."""
    if isinstance(node, exp.Paren):
        return _bounds(context, left, right, node.this)
    if isinstance(node, exp.Between):
        parts = [
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        ]
        pair = [_bounds(context, left, right, part) for part in parts]
        return None if pair[0] is None or pair[1] is None else [*pair[0], *pair[1]]
    if not isinstance(node, (exp.GTE, exp.GT, exp.LTE, exp.LT, exp.EQ)):
        return None
    left_time, right_time = (
        _moment(context, left, right, side) for side in (node.this, node.expression)
    )
    if left_time is None or right_time is None or left_time.is_right == right_time.is_right:
        return None
    if isinstance(node, exp.EQ):
        return [
            *_bound(left_time, right_time, strict=False),
            *_bound(right_time, left_time, strict=False),
        ]
    later, earlier = (
        (left_time, right_time) if isinstance(node, (exp.GTE, exp.GT)) else (right_time, left_time)
    )
    return _bound(later, earlier, strict=isinstance(node, (exp.GT, exp.LT)))


def _bound(later: _Moment, earlier: _Moment, *, strict: bool) -> list[tuple[bool, int]]:
    """later >= earlier, or later > earlier: r + a >= l + b is d >= b - a; l + b >= r + a is
    d < b - a + 1."""
    if later.is_right:
        return [(True, earlier.offset - later.offset + (1 if strict else 0))]
    return [(False, later.offset - earlier.offset + (0 if strict else 1))]


def _moment(context: Context, left: Relation, right: Relation, node: exp.Expr) -> _Moment | None:
    if isinstance(node, exp.Paren):
        return _moment(context, left, right, node.this)
    if isinstance(node, (exp.Add, exp.Sub)) and isinstance(node.expression, exp.Interval):
        inner = _moment(context, left, right, node.this)
        if inner is None:
            return None
        ticks = RowReader(context, left).interval_ticks(node.expression)
        sign = 1 if isinstance(node, exp.Add) else -1
        return _Moment(inner.is_right, inner.offset + sign * ticks)
    if not isinstance(node, exp.Column):
        return None
    sides = [
        any(field.is_time for field in relation.find(node.name, node.text("table")))
        for relation in (left, right)
    ]
    return _Moment(sides[1], 0) if sides[0] != sides[1] else None

"""An operator that keeps rows in its state keeps only the columns it reads.

    G(R) = G(select(columns that G reads, R))

for a window aggregate or module (keys and arguments; a rank breaks ties by all columns, so that it
keeps them), the sides of a join that makes pairs (keys, predicate, result), the right side of a
semi or anti join (keys, predicate; the left rows are the result), and the right side of a clip
(keys). Projection keeps the bag: rows that become equal stay as many as they were, and an adjust of
one is an adjust of any. A group's promise survives whenever it could serve the operator: its
columns are then keys or part of the result, and those are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from thalweg.expr import Column, Expr
from thalweg.plan.nodes import (
    ClipBy,
    Join,
    Node,
    Select,
    WidAggregate,
    WindowAggregate,
    WindowApply,
)
from thalweg.plan.nodes.wid import ARRIVED_AT, ROW_NUMBER
from thalweg.windows import SlidingRows

name = "prune_columns"
sole_reader = False


def apply(node: Node) -> Node | None:
    match node:
        case WindowAggregate():
            calls = (part for _, call in node.aggregates for part in (call.of, call.by, call.where))
            told_by = set() if node.sources is None else {node.sources}
            narrow = _narrow(node.input, {*node.keys, *told_by, *_read(calls)})
            return None if narrow is node.input else replace(node, input=narrow)
        case WindowApply():
            narrow = _narrow(node.input, {*node.keys, *_read(expr for _, expr in node.arguments)})
            return None if narrow is node.input else replace(node, input=narrow)
        case WidAggregate() if not (
            isinstance(node.kind, SlidingRows) and node.kind.ranked
        ):  # equal starts are ordered by all columns
            calls = (part for _, call in node.aggregates for part in (call.of, call.by, call.where))
            numbers = {ROW_NUMBER, ARRIVED_AT} if node.by_number else set()
            narrow = _narrow(node.input, {*node.columns, *node.kind.reads, *numbers, *_read(calls)})
            return None if narrow is node.input else replace(node, input=narrow)
        case ClipBy():
            narrow = _narrow(node.right, {*node.same, *_read(node.right_keys)})
            return None if narrow is node.right else replace(node, right=narrow)
        case Join():
            return _join(node)
    return None


def _join(node: Join) -> Node | None:
    if node.how not in ("inner", "semi", "anti") and not node.whole:
        return None
    pair = _read([node.predicate, *(expr for _, expr in node.result)])
    alone = _read(expr for _, expr in node.right_only)
    right = _narrow(
        node.right,
        {*node.same, *_read(node.right_keys), *alone} | _side(pair, "r.", node.right, node.left),
    )
    left = node.left
    if node.how not in ("semi", "anti"):
        alone = _read(expr for _, expr in node.left_only)
        left = _narrow(
            node.left,
            {*node.same, *_read(node.left_keys), *alone} | _side(pair, "l.", node.left, node.right),
        )
    return (
        None if left is node.left and right is node.right else replace(node, left=left, right=right)
    )


def _read(exprs: Iterable[Expr | None]) -> set[str]:
    return {column for expr in exprs if expr is not None for column in expr.columns()}


def _side(pair: set[str], prefix: str, side: Node, other: Node) -> set[str]:
    """The columns of one side among those that are read of a pair: `l.x`, or `x` where only this
    side has it."""
    return {
        name
        for name in side.schema.names
        if f"{prefix}{name}" in pair or (name in pair and name not in other.schema.names)
    }


def _narrow(node: Node, read: set[str]) -> Node:
    keep = [name for name in node.schema.names if name in read] or [_cheapest(node.schema)]
    if len(keep) == len(node.schema.names):
        return node
    return Select(node, tuple((name, Column(name)) for name in keep))


def _cheapest(schema: pa.Schema) -> str:
    """A row needs a column: one of fixed width if there is one."""
    fixed = [field.name for field in schema if pa.types.is_primitive(field.type)]
    return str((fixed or schema.names)[0])

"""Joins by comparing every left row with every right row. A null key matches nothing, as in SQL."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from thalweg.expr import Expr
from thalweg.model import Row
from thalweg.plan.nodes import Chronicle, ClipBy, Join, Node, lifetime_schema
from thalweg.testing.identity import identity, order
from thalweg.testing.oracle.scene import Scene, meaning
from thalweg.testing.oracle.values import columns_of, evaluate

__all__: list[str] = []

Span = tuple[int, int]


def _keys(
    rows: list[Row], exprs: tuple[Expr, ...], node: Node
) -> list[tuple[Hashable, ...] | None]:
    """The key of each row; None when a part of it is null."""
    schema = lifetime_schema(node.schema)
    found: list[tuple[Hashable, ...] | None] = []
    for start, _, payload in rows:
        parts = [evaluate(expr, {**payload, "_start": start}, schema) for expr in exprs]
        found.append(
            None if any(part is None for part in parts) else tuple(identity(part) for part in parts)
        )
    return found


def _pair(node: Join | Chronicle, left: Row, right: Row) -> dict[str, Any]:
    """What predicate and result see of a pair: `l.x`, `r.x`, and the names that only one side
    has."""
    seen = {f"l.{name}": value for name, value in left[2].items()} | {
        f"r.{name}": value for name, value in right[2].items()
    }
    seen |= {name: value for name, value in left[2].items() if name not in node.right.schema.names}
    seen |= {name: value for name, value in right[2].items() if name not in node.left.schema.names}
    return seen | {"l._start": left[0], "r._start": right[0]}


def _matches(node: Join, left: list[Row], right: list[Row]) -> list[tuple[int, int, Span]]:
    """Every pair that matches, by position, with the time that both are alive."""
    left_keys, right_keys = (
        _keys(left, node.left_keys, node.left),
        _keys(right, node.right_keys, node.right),
    )
    schema = node.pair_schema()
    found = []
    for i, left_row in enumerate(left):
        for j, right_row in enumerate(right):
            both = max(left_row[0], right_row[0]), min(left_row[1], right_row[1])
            if both[0] >= both[1] or left_keys[i] is None or left_keys[i] != right_keys[j]:
                continue
            if any(
                identity(left_row[2][name]) != identity(right_row[2][name]) for name in node.same
            ):
                continue
            if (
                node.predicate is None
                or evaluate(node.predicate, _pair(node, left_row, right_row), schema) is True
            ):
                found.append((i, j, both))
    return found


def _covered(spans: list[Span]) -> list[Span]:
    """The union of lifetimes, as maximal pieces."""
    pieces: list[Span] = []
    for start, end in sorted(spans):
        if pieces and start <= pieces[-1][1]:
            pieces[-1] = pieces[-1][0], max(pieces[-1][1], end)
        else:
            pieces.append((start, end))
    return pieces


def _uncovered(row: Row, spans: list[Span]) -> list[Span]:
    """What is left of a row's lifetime outside those spans."""
    pieces, at = [], row[0]
    for start, end in _covered(spans):
        pieces.append((at, start))
        at = end
    return [(start, end) for start, end in [*pieces, (at, row[1])] if start < end]


@meaning(Join)
def join(node: Join, scene: Scene) -> list[Row]:
    left, right = scene.rows(node.left), scene.rows(node.right)
    matches = _matches(node, left, right)
    of_left = [[span for i, _, span in matches if i == at] for at in range(len(left))]
    of_right = [[span for _, j, span in matches if j == at] for at in range(len(right))]
    if node.whole:  # what has a match at all is matched all the time
        of_left = [[row[:2]] if spans else [] for row, spans in zip(left, of_left, strict=True)]
        of_right = [[row[:2]] if spans else [] for row, spans in zip(right, of_right, strict=True)]
    if node.how == "semi":
        return [
            (*span, row[2])
            for row, spans in zip(left, of_left, strict=True)
            for span in _covered(spans)
        ]
    if node.how == "anti":
        return [
            (*span, row[2])
            for row, spans in zip(left, of_left, strict=True)
            for span in _uncovered(row, spans)
        ]
    schema = node.pair_schema()
    result: list[Row] = [
        (*span, columns_of(node.result, _pair(node, left[i], right[j]), schema))
        for i, j, span in matches
    ]
    if node.how in ("left", "full"):
        result += _alone(left, of_left, node.left_only, node.left)
    if node.how in ("right", "full"):
        result += _alone(right, of_right, node.right_only, node.right)
    return result


def _alone(
    rows: list[Row], spans: list[list[Span]], columns: tuple[tuple[str, Expr], ...], node: Node
) -> list[Row]:
    schema = lifetime_schema(node.schema)
    result: list[Row] = []
    for row, covered in zip(rows, spans, strict=True):
        payload = columns_of(columns, {**row[2], "_start": row[0]}, schema)
        result += [(*piece, payload) for piece in _uncovered(row, covered)]
    return result


@meaning(ClipBy)
def clip_by(node: ClipBy, scene: Scene) -> list[Row]:
    left, right = scene.rows(node.left), scene.rows(node.right)
    left_keys, right_keys = (
        _keys(left, node.left_keys, node.left),
        _keys(right, node.right_keys, node.right),
    )
    result: list[Row] = []
    for (start, end, payload), key in zip(left, left_keys, strict=True):
        alike = [
            right_row
            for right_row, other in zip(right, right_keys, strict=True)
            if key is not None and key == other
        ]
        alike = [
            right_row
            for right_row in alike
            if all(identity(payload[name]) == identity(right_row[2][name]) for name in node.same)
        ]
        cuts = [right_row[0] for right_row in alike if right_row[0] > start]
        result.append((start, min([end, *cuts]), payload))
    return result


@meaning(Chronicle)
def chronicle(node: Chronicle, scene: Scene) -> list[Row]:
    """Right rows one after the other; each takes the first left row that is alive and not taken."""
    left, right = scene.rows(node.left), scene.rows(node.right)
    left = sorted(left, key=lambda row: (row[0], row[1], _columns_in_order(row)))
    right = sorted(right, key=lambda row: (row[0], _columns_in_order(row)))
    left_keys = _keys(left, node.left_keys, node.left)
    right_keys = _keys(right, node.right_keys, node.right)
    schema = node.pair_schema()
    taken: set[int] = set()
    result: list[Row] = []
    for j, right_row in enumerate(right):
        for i, left_row in enumerate(left):
            alive = left_row[0] <= right_row[0] < left_row[1]
            alike = left_keys[i] is not None and left_keys[i] == right_keys[j]
            grouped = all(identity(left_row[2][n]) == identity(right_row[2][n]) for n in node.same)
            if i not in taken and alive and alike and grouped:
                taken.add(i)
                pair = columns_of(node.result, _pair(node, left_row, right_row), schema)
                result.append((right_row[0], right_row[0] + 1, pair))
                break
    return result


def _columns_in_order(row: Row) -> list[tuple[int, Any]]:
    return [order(value) for value in row[2].values()]

"""Span operators: every row becomes zero, one or more rows by itself, whatever other rows there
are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thalweg.expr import Expr
from thalweg.model import INFINITY, Row
from thalweg.plan.nodes import (
    AlterLifetime,
    Chop,
    ClipDuration,
    Describe,
    Extend,
    HoppingLifetime,
    InOrder,
    Merge,
    Node,
    PointAtEnd,
    Quantize,
    Retime,
    Select,
    SelectMany,
    SetDuration,
    Shift,
    Union,
    Where,
    lifetime_schema,
)
from thalweg.testing.oracle.scene import Scene, meaning
from thalweg.testing.oracle.values import ceiling, columns_of, evaluate, floor, later, ticks_of

__all__: list[str] = []


def _seen(rows: list[Row]) -> Iterator[tuple[int, int, dict[str, Any], dict[str, Any]]]:
    """Each row with what its expressions see: the payload and `_start`."""
    for start, end, payload in rows:
        yield start, end, dict(payload), {**payload, "_start": start}


def _schema(node: Node) -> Any:
    return lifetime_schema(node.schema)


@meaning(Where)
def where(node: Where, scene: Scene) -> list[Row]:
    schema = _schema(node.input)
    return [
        (s, e, p)
        for s, e, p, seen in _seen(scene.rows(node.input))
        if evaluate(node.predicate, seen, schema) is True
    ]


@meaning(Select)
def select(node: Select, scene: Scene) -> list[Row]:
    schema = _schema(node.input)
    return [
        (s, e, columns_of(node.columns, seen, schema))
        for s, e, _, seen in _seen(scene.rows(node.input))
    ]


@meaning(SelectMany)
def select_many(node: SelectMany, scene: Scene) -> list[Row]:
    result: list[Row] = []
    for s, e, _, seen in _seen(scene.rows(node.input)):
        if node.unnest is not None:
            views = [{**seen, node.unnest: item} for item in seen[node.unnest] or []]
            result += [
                (s, e, columns_of(node.columns, view, node.unnested_schema())) for view in views
            ]
        else:
            assert node.repeat is not None
            schema = _schema(node.input)
            result += [(s, e, columns_of(node.columns, seen, schema))] * (
                evaluate(node.repeat, seen, schema) or 0
            )
    return result


@meaning(SetDuration)
def set_duration(node: SetDuration, scene: Scene) -> list[Row]:
    return [(s, later(s, node.ticks), p) for s, _, p in scene.rows(node.input)]


@meaning(AlterLifetime)
def alter_lifetime(node: AlterLifetime, scene: Scene) -> list[Row]:
    starts = [
        (ticks_of(node.start, seen, _schema(node.input)), p)
        for _, _, p, seen in _seen(scene.rows(node.input))
    ]
    return [(start, later(start, node.ticks), p) for start, p in starts if start is not None]


@meaning(Retime)
def retime(node: Retime, scene: Scene) -> list[Row]:
    result: list[Row] = []
    schema = lifetime_schema(node.input.schema, with_end=True)
    for _, e, p, seen in _seen(scene.rows(node.input)):
        start, end = (
            evaluate(expr, {**seen, "_end": e}, schema) for expr in (node.start, node.end)
        )
        if start is not None and end is not None:
            result.append((start, end, p))
    return result


@meaning(InOrder)
def in_order(node: InOrder, scene: Scene) -> list[Row]:
    return scene.rows(node.input)


@meaning(Describe)
def describe(node: Describe, scene: Scene) -> list[Row]:
    return scene.rows(node.input)


@meaning(Shift)
def shift(node: Shift, scene: Scene) -> list[Row]:
    result: list[Row] = []
    for s, e, p, seen in _seen(scene.rows(node.input)):
        by = ticks_of(node.by, seen, _schema(node.input)) if isinstance(node.by, Expr) else node.by
        if by is not None:
            result.append((later(s, by), later(e, by), p))
    return result


@meaning(Extend)
def extend(node: Extend, scene: Scene) -> list[Row]:
    return [(s, later(e, node.by), p) for s, e, p in scene.rows(node.input)]


@meaning(ClipDuration)
def clip_duration(node: ClipDuration, scene: Scene) -> list[Row]:
    return [(s, min(e, later(s, node.limit)), p) for s, e, p in scene.rows(node.input)]


@meaning(PointAtEnd)
def point_at_end(node: PointAtEnd, scene: Scene) -> list[Row]:
    return [(e, e + 1, p) for _, e, p in scene.rows(node.input) if e != INFINITY]


@meaning(Chop)
def chop(node: Chop, scene: Scene) -> list[Row]:
    result: list[Row] = []
    for s, e, p in scene.rows(node.input):
        until = e
        if e == INFINITY:
            if scene.horizon is None:
                raise ValueError(
                    f"chopping the endless row {p} from {s} gives endlessly many pieces; give a "
                    "horizon"
                )
            until = scene.horizon
        cut = floor(s, node.period, node.offset) + node.period
        while cut < until:
            result.append((s, cut, p))
            s, cut = cut, cut + node.period
        result.append((s, e, p))
    return result


@meaning(HoppingLifetime)
def hopping_lifetime(node: HoppingLifetime, scene: Scene) -> list[Row]:
    grid = (node.hop, node.offset)
    if node.size < node.hop:
        points = [(ceiling(s, *grid), s, p) for s, _, p in scene.rows(node.input)]
        return [(t, t + node.size, p) for t, s, p in points if s > t - node.size]
    return [
        (ceiling(s, *grid), ceiling(s + node.size, *grid), p) for s, _, p in scene.rows(node.input)
    ]


@meaning(Quantize)
def quantize(node: Quantize, scene: Scene) -> list[Row]:
    hop, fine = (node.hop, node.offset), (node.progress or node.hop, node.offset)
    return [
        (floor(s, *fine), max(ceiling(e, *hop), floor(s + node.size, *hop)), p)
        for s, e, p in scene.rows(node.input)
    ]


@meaning(Merge)
def merge(node: Merge, scene: Scene) -> list[Row]:
    return scene.rows(node.streams[0])


@meaning(Union)
def union(node: Union, scene: Scene) -> list[Row]:
    return [*scene.rows(node.left), *scene.rows(node.right)]

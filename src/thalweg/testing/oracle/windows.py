"""Windows: which there are, which rows belong to each, and what top-k and aggregates make of
them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from thalweg.model import INFINITY, Row
from thalweg.plan.nodes import CombinePanes, Panes, TopK, WindowAggregate, lifetime_schema
from thalweg.testing.identity import identity, order
from thalweg.testing.oracle.aggregates import aggregate
from thalweg.testing.oracle.chains import alive, by_group, endpoints, runs
from thalweg.testing.oracle.scene import Scene, meaning
from thalweg.testing.oracle.values import evaluate, floor
from thalweg.windows import CountWindow, HoppingWindow, SessionWindow, SnapshotWindow, Window

__all__ = ["Framed", "windows_of"]

Framed = tuple[int, int, list[Row]]
"""A window `[start, end)` and the rows that belong to it."""


def windows_of(rows: list[Row], window: Window, horizon: int | None = None) -> list[Framed]:
    """Every window that is not empty, in order of its start."""
    if isinstance(window, SnapshotWindow):
        times = endpoints(rows)
        framed = [(a, b, alive(rows, a, b)) for a, b in pairwise(times)]
        return [found for found in framed if found[2]]
    if isinstance(window, SessionWindow):
        return [(run[0][0], run[-1][0] + window.gap, run) for run in runs(rows, window.gap)]
    if isinstance(window, CountWindow):
        return _counted(rows, window)
    assert isinstance(window, HoppingWindow), f"the oracle has no definition for {window}"
    starts = {start for row in rows for start in _window_starts(row, window, horizon)}
    return [
        (start, start + window.size, alive(rows, start, start + window.size))
        for start in sorted(starts)
    ]


def _counted(rows: list[Row], window: CountWindow) -> list[Framed]:
    """N distinct endpoints that follow each other; a row belongs by that endpoint (of an end: by
    its last tick)."""
    endpoint: Callable[[Row], int] = (
        (lambda row: row[0]) if window.by == "start" else (lambda row: row[1])
    )
    times = sorted({endpoint(row) for row in rows if endpoint(row) != INFINITY})
    found: list[Framed] = []
    for first, last in zip(times, times[window.count - 1 :], strict=False):
        members = [row for row in rows if first <= endpoint(row) <= last]
        found.append(
            (first, last + 1, members) if window.by == "start" else (first - 1, last, members)
        )
    return found


def _window_starts(row: Row, window: HoppingWindow, horizon: int | None) -> list[int]:
    """The starts of the hopping windows that overlap one row."""
    begin, end, payload = row
    if end == INFINITY:
        if horizon is None:
            raise ValueError(
                f"the endless row {payload} from {begin} belongs to endlessly many windows; give a "
                "horizon"
            )
        end = horizon
    at = floor(begin - window.size, window.hop, window.offset)
    found = []
    while at < end:
        if begin < at + window.size:
            found.append(at)
        at += window.hop
    return found


@meaning(WindowAggregate)
def window_aggregate(node: WindowAggregate, scene: Scene) -> list[Row]:
    rows = scene.rows(node.input)
    schema = lifetime_schema(node.input.schema)
    result: list[Row] = []
    for group in by_group(rows, node.keys):
        keys = {key: group[0][2].get(key) for key in node.keys}
        for start, end, members in windows_of(group, node.window, scene.horizon):
            values = {name: aggregate(call, members, schema) for name, call in node.aggregates}
            result.append((start, end, keys | values))
    return result + (_filled(node, rows, scene) if node.fill is not None else [])


def _filled(node: WindowAggregate, rows: list[Row], scene: Scene) -> list[Row]:
    """The rows of the groups named by `fill` for windows in which they have no rows."""
    assert isinstance(node.window, HoppingWindow) and node.fill is not None
    everyone = windows_of(rows, node.window, scene.horizon)
    if not everyone:
        return []
    schema = lifetime_schema(node.input.schema)
    nothing = {name: aggregate(call, [], schema) for name, call in node.aggregates}
    result: list[Row] = []
    for values in node.fill:
        own = [
            row
            for row in rows
            if all(
                identity(row[2].get(k)) == identity(v)
                for k, v in zip(node.keys, values, strict=True)
            )
        ]
        spans = [
            (start, start + node.window.size)
            for start in range(everyone[0][0], everyone[-1][0] + 1, node.window.hop)
        ]
        result += [
            (*span, dict(zip(node.keys, values, strict=True)) | nothing)
            for span in spans
            if not alive(own, *span)
        ]
    return result


@meaning(CombinePanes)
def combine_panes(node: CombinePanes, scene: Scene) -> list[Row]:
    """By its definition the aggregate over the rows that became the panes."""
    assert isinstance(node.input, Panes)
    return window_aggregate(
        WindowAggregate(node.input.input, node.window, node.aggregates, node.keys), scene
    )


@meaning(TopK)
def top_k(node: TopK, scene: Scene) -> list[Row]:
    schema = lifetime_schema(node.input.schema)
    result: list[Row] = []
    for group in by_group(scene.rows(node.input), node.keys):
        for start, end, members in windows_of(group, node.window, scene.horizon):
            values = [
                evaluate(node.by, {**payload, "_start": s}, schema) for s, _, payload in members
            ]
            for (_, _, payload), value in zip(members, values, strict=True):
                rank = 1 + sum(
                    _better(other, value, descending=node.descending) for other in values
                )
                if rank <= node.k:
                    result.append(
                        (
                            start,
                            end,
                            dict(payload) | ({} if node.rank is None else {node.rank: rank}),
                        )
                    )
    return result


def _better(left: Any, right: Any, *, descending: bool) -> bool:
    """Whether a value comes strictly before another; null comes after every value, in either
    direction."""
    if left is None or right is None:
        return left is not None and right is None
    return order(left) > order(right) if descending else order(left) < order(right)

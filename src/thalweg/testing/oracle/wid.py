"""The kinds of the WID framework, window by window, from their equations. Nothing here is shared
with the kinds' own code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model import INFINITY, Row
from thalweg.plan.nodes import NumberRows, WidAggregate, WidApply, lifetime_schema, walk
from thalweg.plan.nodes.wid import ARRIVED_AT, ROW_NUMBER
from thalweg.testing.identity import order
from thalweg.testing.oracle.aggregates import aggregate
from thalweg.testing.oracle.chains import by_group
from thalweg.testing.oracle.scene import Scene, meaning
from thalweg.windows import LandmarkTime, SlideByTuple, SlidingRows, SlidingTime, Tuples, WindowKind

__all__ = ["extents", "numbers_given"]

Extent = tuple[int, int, int, list[Row]]
"""A window's id, the lifetime of its answer, and its rows."""


@meaning(NumberRows)
def number_rows(node: NumberRows, scene: Scene) -> list[Row]:
    """Rows numbered as if they had arrived in the order of their starts."""
    result: list[Row] = []
    for group in by_group(scene.rows(node.input), node.partition):
        highest = -INFINITY
        for number, (start, end, payload) in enumerate(sorted(group, key=lambda row: row[0]), 1):
            highest = max(highest, start)
            result.append((start, end, {**payload, ROW_NUMBER: number, ARRIVED_AT: highest}))
    return result


@meaning(WidAggregate)
def wid_aggregate(node: WidAggregate, scene: Scene) -> list[Row]:
    rows = scene.rows(node.input)
    schema = lifetime_schema(node.input.schema)
    result: list[Row] = []
    whole = node.columns if isinstance(node.kind, LandmarkTime) else node.partition
    for part in by_group(rows, whole):
        for window, start, end, members in extents(
            node.kind, part, rows, node, numbers_given(node, scene)
        ):
            for group in by_group(members, node.keys):
                keys = {key: group[0][2].get(key) for key in node.columns}
                ids = {} if node.wid is None else {node.wid: window}
                result.append(
                    (
                        start,
                        end,
                        keys
                        | ids
                        | {name: aggregate(call, group, schema) for name, call in node.aggregates},
                    )
                )
    return result


def extents(
    kind: WindowKind,
    part: list[Row],
    rows: list[Row],
    node: WidAggregate | WidApply,
    number_count: int,
) -> Iterator[Extent]:
    """The windows of one partition that are not empty. `rows` are those of all partitions."""
    if isinstance(kind, SlidingTime):
        yield from _sliding_time(
            kind, part, kind.origin if kind.origin is not None else min(row[0] for row in rows)
        )
    elif isinstance(kind, SlideByTuple):
        yield from _slide_by_tuple(kind, part, node)
    elif isinstance(kind, SlidingRows):
        yield from _sliding_rows(kind, part, node, number_count)
    elif isinstance(kind, LandmarkTime):
        yield from _landmark(kind, part)
    else:
        yield from _users_kind(kind, part, node.input.schema)


def _sliding_time(kind: SlidingTime, part: list[Row], origin: int) -> Iterator[Extent]:
    window = 0
    while origin + (window + 1) * kind.slide - kind.range <= max(row[0] for row in part):
        end = origin + (window + 1) * kind.slide
        members = [row for row in part if end - kind.range <= row[0] < end]
        if members:
            yield window, end - kind.range, end, members
        window += 1


def _landmark(kind: LandmarkTime, group: list[Row]) -> Iterator[Extent]:
    """A window of a group answers where the group has a new row, until it has the next."""
    found = sorted({max((row[0] - kind.origin) // kind.slide, 0) for row in group})
    for window, following in zip(found, [*found[1:], None], strict=True):
        end = kind.origin + (window + 1) * kind.slide
        until = INFINITY if following is None else kind.origin + following * kind.slide
        yield window, end - kind.slide, until, [row for row in group if row[0] < end]


def _position(
    kind: SlideByTuple | SlidingRows, part: list[Row], node: WidAggregate | WidApply
) -> list[tuple[int, int, Row]]:
    """Each row with its number and the time at which it counts, in order."""
    if not kind.ranked and ROW_NUMBER in node.input.schema.names:
        numbered = [(row[2][ROW_NUMBER], row[2][ARRIVED_AT], row) for row in part]
        in_order = sorted(numbered, key=lambda entry: entry[0])
        whole = isinstance(kind, SlidingRows) and kind.partitioned
        return (
            [(at, time, row) for at, (_, time, row) in enumerate(in_order, 1)]
            if whole
            else in_order
        )
    names = node.input.schema.names
    ranked = sorted(part, key=lambda row: (row[0], *(order(row[2].get(name)) for name in names)))
    return [(at, row[0], row) for at, row in enumerate(ranked, 1)]


def _slide_by_tuple(
    kind: SlideByTuple, part: list[Row], node: WidAggregate | WidApply
) -> Iterator[Extent]:
    for time in sorted(
        {row[0] for number, _, row in _position(kind, part, node) if number % kind.every == 0}
    ):
        members = [row for row in part if time - kind.range < row[0] <= time]
        yield time, time - kind.range + 1, time + 1, members


def numbers_given(node: WidAggregate | WidApply, scene: Scene) -> int:
    """How many numbers were given in all, where rows were filtered after they got theirs. A
    partition counts its own rows, those that it has."""
    if isinstance(node.kind, SlidingRows) and node.kind.partitioned:
        return 0
    below = [under for under in walk(node.input) if isinstance(under, NumberRows)]
    if not below or below[0] is node.input or below[0].partition:
        return 0
    return len(scene.rows(below[0]))


def _sliding_rows(
    kind: SlidingRows, part: list[Row], node: WidAggregate | WidApply, number_count: int
) -> Iterator[Extent]:
    """A window is complete when all its numbers were given; the time of its answer is that of its
    last row. Without a range, a window answers only if its last slide has rows."""
    numbered = _position(kind, part, node)
    for window in range(max(numbered[-1][0], number_count) // kind.slide):
        end = (window + 1) * kind.slide
        since = 1 if kind.range is None else end - kind.range + 1
        inside = [entry for entry in numbered if since <= entry[0] <= end]
        if inside and (kind.range is not None or inside[-1][0] > end - kind.slide):
            complete = inside[-1][1]
            yield window, complete, complete + 1, [row for _, _, row in inside]


def _users_kind(kind: WindowKind, part: list[Row], schema: pa.Schema) -> Iterator[Extent]:
    columns: dict[str, Any] = {
        name: pa.array([row[2].get(name) for row in part], schema.field(name).type)
        for name in kind.reads
    }
    tuples = Tuples.of(np.array([row[0] for row in part], np.int64), **columns)
    for window in kind.windows(tuples).number.tolist():
        members = [
            row for row, inside in zip(part, kind.extent(window, 0, tuples), strict=True) if inside
        ]
        start, end = kind.time_range(np.array([window]))
        if members:
            yield window, int(start[0]), int(end[0]), members

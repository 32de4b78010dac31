"""Windows of the WID framework as plans: which kind a query's words mean, and what has to stand
below it.

Windows over time with a known origin are hopping windows over points, and are evaluated as such.
Windows over arriving rows stand on `NumberRows`: at the operator right below it, at the system
right above the source. Windows over arrival time stand on `StampArrivals`, right above the source
too, and are windows over time from there on.
"""

from __future__ import annotations

import math

from thalweg.errors import UnknownColumnError, WindowError
from thalweg.expr import Column
from thalweg.model.time import Duration, duration_us
from thalweg.plan.nodes import (
    AlterLifetime,
    Node,
    NumberRows,
    SetDuration,
    Source,
    StampArrivals,
    Union,
)
from thalweg.plan.nodes.arrivals import ARRIVED
from thalweg.plan.nodes.schemas import require_known
from thalweg.plan.nodes.wid import ARRIVED_AT, ROW_NUMBER
from thalweg.windows import (
    HoppingWindow,
    LandmarkTime,
    SlideByTuple,
    SlidingRows,
    SlidingTime,
    Window,
    WindowKind,
)
from thalweg.windows.specification import (
    TIME_NAMES,
    Arrival,
    Rank,
    Rows,
    Size,
    check_slide,
    row_count,
    ticks,
    warn_about_panes,
)

__all__ = [
    "by_tuple_windows",
    "kind_windows",
    "landmark_windows",
    "sliding_windows",
    "stamped",
]

Over = str | Rows | Rank | Arrival
Built = tuple[Node, Window | WindowKind]


def sliding_windows(
    node: Node,
    range_: Size,
    slide: Size,
    over: Over,
    partition: tuple[str, ...],
    origin: Duration | None,
) -> Built:
    """The plan below a sliding window, and its kind."""
    require_known(partition, node.schema, "sliding, partition_by")
    if isinstance(over, str | Arrival):
        size = ticks(range_, "sliding range")
        step = size if slide is None else ticks(slide, "sliding slide")
        first = 0 if origin is None else duration_us(origin, what="sliding origin")
        if isinstance(over, Arrival):
            node, over = stamped(node, math.gcd(size, step, first)), ARRIVED
        _require_time(over, node, "sliding")
        check_slide(size, step, "sliding")
        warn_about_panes(size, step, "sliding")
        if origin is None:
            return _by_time(over, node), SlidingTime(size, step, None)
        return _points(over, node), HoppingWindow(size, step, (first - size) % step)
    count = row_count(range_, "sliding range")
    step = count if slide is None else row_count(slide, "sliding slide")
    check_slide(count, step, "sliding")
    return _numbered(node, over, partition), SlidingRows(
        count, step, isinstance(over, Rank), bool(partition)
    )


def landmark_windows(
    node: Node, slide: Size, over: Over, partition: tuple[str, ...], origin: Duration
) -> Built:
    require_known(partition, node.schema, "landmark, partition_by")
    if isinstance(over, str | Arrival):
        span = ticks(slide, "landmark slide")
        first = duration_us(origin, what="landmark origin")
        if isinstance(over, Arrival):
            node, over = stamped(node, math.gcd(span, first)), ARRIVED
        _require_time(over, node, "landmark")
        return _by_time(over, node), LandmarkTime(span, first)
    step = row_count(slide, "landmark slide")
    return _numbered(node, over, partition), SlidingRows(
        None, step, isinstance(over, Rank), bool(partition)
    )


def by_tuple_windows(
    node: Node, range_: Duration, every: int, order: Rows | Rank | None, partition: tuple[str, ...]
) -> Built:
    require_known(partition, node.schema, "slide_by_tuple, partition_by")
    size = ticks(range_, "slide_by_tuple range")
    step = row_count(every, "slide_by_tuple every")
    if step == 1:  # every tuple, in whatever order
        return node, SlideByTuple(size)
    if order is None:
        raise WindowError(
            f"slide_by_tuple: every {step} tuples in which order? Write order=rows() for arrival, "
            "order=rank('ts') for time."
        )
    return _numbered(node, order, partition), SlideByTuple(size, step, isinstance(order, Rank))


def kind_windows(node: Node, kind: WindowKind) -> Built:
    if not isinstance(kind, WindowKind):
        raise WindowError(
            "windows: give a WindowKind with windows(), extent(), wids() and time_range(); got "
            f"{kind!r}."
        )
    if kind.context and kind.assigner() is None:
        raise WindowError(
            f"windows: {kind} is {kind.category}: its windows may depend on other tuples, and it "
            "has no assigner() to find them. A kind whose wids() reads nothing but the tuple "
            "itself says so with context = frozenset()."
        )
    require_known(kind.reads, node.schema, f"windows, {kind}")
    return node, kind


def _points(over: str, node: Node) -> Node:
    """Points at the start of each row, or at a column that progresses as the start does."""
    return SetDuration(node, 1) if over in TIME_NAMES else AlterLifetime(node, Column(over), 1)


def _by_time(over: str, node: Node) -> Node:
    return node if over in TIME_NAMES else _points(over, node)


def _require_time(over: str, node: Node, what: str) -> None:
    if over in TIME_NAMES or over in node.progressing:
        return
    if over not in node.schema.names:
        raise UnknownColumnError(over, [*TIME_NAMES, *node.schema.names], f"{what} over")
    raise WindowError(
        f"{what}: {over!r} is a column, and nothing promises that its values progress, so that no "
        f"window over it could close. Declare it on the source, progressing={{{over!r}: "
        "disorder}, or use over='ts'."
    )


def _numbered(node: Node, over: Over, partition: tuple[str, ...]) -> Node:
    if isinstance(over, Rank) or ROW_NUMBER in node.schema.names:
        return node
    if isinstance(over, Rows) and over.at == "system":
        return _numbered_at_system(node)
    return NumberRows(node, partition)


def stamped(node: Node, every: int) -> Node:
    """The same plan over rows that have the time at which they arrived, to a multiple of `every`:
    finer than that no window can tell."""
    if ARRIVED in node.schema.names:
        return node
    if isinstance(node, Source):
        below = node if node.properties.insert_only else NumberRows(node)
        return StampArrivals(below, every)
    carrying = node.carrying((ARRIVED,), lambda below: stamped(below, every))
    if carrying is not None:
        return carrying
    raise WindowError(
        f"arrival(): {node.label} stands between the source and the window; write stamp_arrivals() "
        f"on the source, and carry its column {ARRIVED!r} along."
    )


def _numbered_at_system(node: Node) -> Node:
    """The same plan over rows that were numbered where they came in."""
    if isinstance(node, Source | Union):
        return NumberRows(node)
    carrying = node.carrying((ROW_NUMBER, ARRIVED_AT), _numbered_at_system)
    if carrying is not None:
        return carrying
    raise WindowError(
        f"rows(at='system'): {node.label} stands between the source and the window; write "
        "number_rows() on the stream where rows are to be numbered."
    )

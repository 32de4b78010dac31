"""Which assigner runs which kind of window. Adding a kind ends with a line here, or with its own
`assigner()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.errors import PlanError
from thalweg.operators.window.assigners.assigner import Assigner
from thalweg.operators.window.assigners.by_rank import RankAssigner
from thalweg.operators.window.assigners.by_rows import RowsAssigner
from thalweg.operators.window.assigners.by_time import (
    FirstOriginAssigner,
    MembershipAssigner,
    TupleAssigner,
)
from thalweg.operators.window.assigners.counts import CountAssigner
from thalweg.operators.window.assigners.landmark import LandmarkAssigner
from thalweg.operators.window.assigners.sessions import SessionAssigner
from thalweg.plan.nodes import Node, NumberRows
from thalweg.plan.nodes.wid import ARRIVED_AT, ROW_NUMBER
from thalweg.windows import (
    AnyWindow,
    CountWindow,
    LandmarkTime,
    SessionWindow,
    SlideByTuple,
    SlidingRows,
    SlidingTime,
    WindowKind,
)

__all__ = ["assigner_for"]


def assigner_for(kind: AnyWindow, node: Node) -> Assigner:
    """The run time of a kind of window over the input of a node; a kind without one is refused."""
    own = kind.assigner() if isinstance(kind, WindowKind) else None
    if isinstance(own, Assigner):
        return own
    for known in type(kind).__mro__:
        if known in _ASSIGNERS:
            return _ASSIGNERS[known](kind, node.inputs[0])
    if isinstance(kind, WindowKind) and not kind.context:
        return MembershipAssigner(kind)
    raise PlanError(
        f"{node.label}: the windows of {kind} depend on other tuples, which `wids` does not see; "
        "write an assigner for it."
    )


def _landmark(kind: LandmarkTime, rows: Node) -> Assigner:
    return LandmarkAssigner(kind, insert_only=rows.properties.insert_only)


def _slide_by_tuple(kind: SlideByTuple, _rows: Node) -> Assigner:
    if kind.every > 1 and kind.ranked:
        return RankAssigner(kind)
    return TupleAssigner(kind, ROW_NUMBER if kind.by_number else None)


def _sliding_rows(kind: SlidingRows, rows: Node) -> Assigner:
    counted = not (kind.ranked or kind.partitioned)
    return RowsAssigner(
        kind,
        (ROW_NUMBER, ARRIVED_AT) if kind.by_number else None,
        tuple(rows.schema.names) if kind.ranked else (),
        sparse=counted and not isinstance(rows, NumberRows),
    )


def _sliding_time(kind: SlidingTime, _rows: Node) -> Assigner:
    return FirstOriginAssigner(kind) if kind.origin is None else MembershipAssigner(kind)


_ASSIGNERS: dict[type, Callable[[Any, Node], Assigner]] = {
    SessionWindow: lambda kind, _: SessionAssigner(kind),
    CountWindow: lambda kind, _: CountAssigner(kind),
    LandmarkTime: _landmark,
    SlideByTuple: _slide_by_tuple,
    SlidingRows: _sliding_rows,
    SlidingTime: _sliding_time,
}

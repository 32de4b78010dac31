"""The assigner and the values of a node."""

from __future__ import annotations

from thalweg.errors import PlanError
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.window.assigner import Assigner
from thalweg.operators.window.by_count import RankAssigner, RowsAssigner
from thalweg.operators.window.by_time import (
    FirstOriginAssigner,
    MembershipAssigner,
    TupleAssigner,
)
from thalweg.operators.window.counts import CountAssigner
from thalweg.operators.window.engine import WindowEngine
from thalweg.operators.window.landmark import LandmarkAssigner
from thalweg.operators.window.module_values import ModuleValues
from thalweg.operators.window.sessions import SessionAssigner
from thalweg.operators.window.values import PartialValues, RowValues, Values
from thalweg.plan.nodes import NumberRows, WidAggregate, WidApply, WindowAggregate, WindowApply
from thalweg.plan.nodes.wid import ARRIVED_AT, ROW_NUMBER
from thalweg.progress.frontier import Consistency
from thalweg.windows import (
    CountWindow,
    LandmarkTime,
    SessionWindow,
    SlideByTuple,
    SlidingRows,
    SlidingTime,
)

__all__ = ["held_engine", "held_module_engine", "wid_engine", "wid_module_engine"]


def held_engine(node: WindowAggregate, consistency: Consistency) -> WindowEngine:
    """Sessions and count windows.

    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).session(5).aggregate(n=tw.count())
    >>> tw.table(query, {"s": [tw.point({"v": 1}, time) for time in (1, 4, 20)]})
    [(1, 9, {'n': 2}), (20, 25, {'n': 1})]
    """
    assigner = _held_assigner(node)
    values = _values(node, node.keys, assigner)
    return WindowEngine(
        node.schema, node.input.schema, assigner, values, node.keys, node.keys, consistency
    )


def held_module_engine(node: WindowApply, consistency: Consistency) -> WindowEngine:
    """Modules over sessions and count windows, computed from their rows.

    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}).count_by_end(2).apply("average", "v")
    >>> ends = {1.0: 4, 3.0: 6, 9.0: 8}
    >>> tw.table(query, {"s": [tw.insert({"v": v}, 0, end) for v, end in ends.items()]})
    [(3, 6, {'average': 2.0}), (5, 8, {'average': 6.0})]
    """
    return WindowEngine(
        node.schema,
        node.input.schema,
        _held_assigner(node),
        ModuleValues(node),
        node.keys,
        node.keys,
        consistency,
        what="WindowApply",
    )


def _held_assigner(node: WindowAggregate | WindowApply) -> Assigner:
    window = node.window
    if isinstance(window, SessionWindow):
        return SessionAssigner(window)
    if isinstance(window, CountWindow):
        return CountAssigner(window)
    raise PlanError(f"{node.label}: no assigner evaluates {window} windows.")


def wid_engine(node: WidAggregate, consistency: Consistency) -> WindowEngine:
    """
    >>> import thalweg as tw
    >>> s = tw.source("s", {"v": "int64"})
    >>> query = s.slide_by_tuple(5).aggregate(n=tw.count(), most=tw.max_("v"))
    >>> tw.table(query, {"s": [tw.point({"v": v}, t) for v, t in ((7, 2), (3, 4), (1, 8))]})
    [(-2, 3, {'n': 1, 'most': 7}), (0, 5, {'n': 2, 'most': 7}), (4, 9, {'n': 2, 'most': 3})]
    >>> query = s.landmark(10).aggregate(n=tw.count())
    >>> rows = [tw.point({"v": 7}, time) for time in (2, 14, 15)]
    >>> [(start, end, row["n"]) for start, end, row in tw.table(query, {"s": rows})]
    [(0, 10, 1), (10, 9223372036854775807, 3)]
    """
    assigner = assigner_for(node)
    partition = node.partition if _by_partition(node) else node.columns
    return WindowEngine(
        node.schema,
        node.input.schema,
        assigner,
        _values(node, node.columns, assigner),
        node.columns,
        partition,
        consistency,
        wid=node.wid,
        what="WidAggregate",
    )


def wid_module_engine(node: WidApply, consistency: Consistency) -> WindowEngine:
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}).slide_by_tuple(5).apply("median", "v")
    >>> tw.table(query, {"s": [tw.point({"v": 7.0}, 2), tw.point({"v": 3.0}, 4)]})
    [(-2, 3, {'median': 7.0}), (0, 5, {'median': 5.0})]
    """
    return WindowEngine(
        node.schema,
        node.input.schema,
        assigner_for(node),
        ModuleValues(node),
        node.columns,
        node.partition if _by_partition(node) else node.columns,
        consistency,
        wid=node.wid,
        what="WidApply",
    )


def assigner_for(node: WidAggregate | WidApply) -> Assigner:
    """The run time of a node's kind of window; a kind without one is refused."""
    kind = node.kind
    if isinstance(kind, LandmarkTime):
        return LandmarkAssigner(kind, insert_only=node.input.properties.insert_only)
    if isinstance(kind, SlideByTuple):
        if kind.every > 1 and kind.ranked:
            return RankAssigner(kind)
        return TupleAssigner(kind, ROW_NUMBER if kind.by_number else None)
    if isinstance(kind, SlidingRows):
        counted = not (kind.ranked or kind.partitioned)
        return RowsAssigner(
            kind,
            (ROW_NUMBER, ARRIVED_AT) if kind.by_number else None,
            tuple(node.input.schema.names) if kind.ranked else (),
            sparse=counted and not isinstance(node.input, NumberRows),
        )
    if isinstance(kind, SlidingTime) and kind.origin is None:
        return FirstOriginAssigner(kind)
    own = kind.assigner()
    if isinstance(own, Assigner):
        return own
    if kind.context:
        raise PlanError(
            f"{node.label}: the windows of {kind} depend on other tuples, which `wids` does "
            "not see; write an assigner for it."
        )
    return MembershipAssigner(kind)


def _by_partition(node: WidAggregate | WidApply) -> bool:
    """Whether rows of other groups of a partition decide where windows lie."""
    return node.kind.decided_by != "tuple"


def _values(
    node: WindowAggregate | WidAggregate, columns: tuple[str, ...], assigner: Assigner
) -> Values:
    arguments = ArgumentProjection(node.aggregates, columns, node.input.schema)
    bounded = all(call.bounded for _, call in node.aggregates)
    if bounded and not assigner.disjoint:
        return PartialValues(arguments, node.schema)
    return RowValues(arguments, node.schema)

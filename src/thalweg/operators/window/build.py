"""Which kernel runs windows of a node: the one for its kind of window.

Windows that are evaluated from held rows run in the engine, with an assigner (see `assigners`) and
the results of windows (see `values`). Hopping windows and snapshots have kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.assigners.assigner import Assigner
from thalweg.operators.window.assigners.by_kind import assigner_for
from thalweg.operators.window.bins import BinsAggregateKernel
from thalweg.operators.window.engine import WindowEngine
from thalweg.operators.window.grid.build import (
    grid_aggregate_kernel,
    grid_apply_kernel,
    grid_top_k_kernel,
)
from thalweg.operators.window.module_values import ModuleValues
from thalweg.operators.window.modules.window_apply import WindowApplyKernel
from thalweg.operators.window.snapshot.aggregate import SnapshotAggregateKernel
from thalweg.operators.window.snapshot.apply import SnapshotApplyKernel
from thalweg.operators.window.snapshot.top_k import TopKKernel
from thalweg.operators.window.values import PartialValues, RowValues, Values
from thalweg.plan.nodes import TopK, WidAggregate, WidApply, WindowAggregate, WindowApply
from thalweg.windows import (
    AnyWindow,
    CountWindow,
    HoppingWindow,
    SessionWindow,
    SnapshotWindow,
    Window,
)

__all__ = [
    "aggregate_kernel",
    "apply_kernel",
    "top_k_kernel",
    "wid_aggregate_kernel",
    "wid_apply_kernel",
]

_Make = Callable[[Any, Consistency], Operator]


def _held_aggregate(node: WindowAggregate, consistency: Consistency) -> WindowEngine:
    """Sessions and count windows.

    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).session(5).aggregate(n=tw.count())
    >>> tw.table(query, {"s": [tw.point({"v": 1}, time) for time in (1, 4, 20)]})
    [(1, 9, {'n': 2}), (20, 25, {'n': 1})]
    """
    return _engine(node, consistency, what="WindowAggregate")


def _held_apply(node: WindowApply, consistency: Consistency) -> WindowEngine:
    """Modules over sessions and count windows, computed from their rows.

    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}).count_by_end(2).apply("average", "v")
    >>> ends = {1.0: 4, 3.0: 6, 9.0: 8}
    >>> tw.table(query, {"s": [tw.insert({"v": v}, 0, end) for v, end in ends.items()]})
    [(3, 6, {'average': 2.0}), (5, 8, {'average': 6.0})]
    """
    return _engine(node, consistency, what="WindowApply")


_AGGREGATES: dict[type[Window], _Make] = {
    HoppingWindow: grid_aggregate_kernel,
    SnapshotWindow: SnapshotAggregateKernel,
    SessionWindow: _held_aggregate,
    CountWindow: _held_aggregate,
}
_TOP_K: dict[type[Window], _Make] = {
    HoppingWindow: grid_top_k_kernel,
    SnapshotWindow: TopKKernel,
}
_APPLIES: dict[type[Window], _Make] = {
    HoppingWindow: grid_apply_kernel,
    SnapshotWindow: WindowApplyKernel,
    SessionWindow: WindowApplyKernel,
    CountWindow: WindowApplyKernel,
}
_APPLIES_AT_ONCE: dict[type[Window], _Make] = {
    SnapshotWindow: SnapshotApplyKernel,
    SessionWindow: _held_apply,
    CountWindow: _held_apply,
}


def aggregate_kernel(node: WindowAggregate, consistency: Consistency) -> Operator:
    return _AGGREGATES[type(node.window)](node, consistency)


def top_k_kernel(node: TopK, consistency: Consistency) -> Operator:
    return _TOP_K[type(node.window)](node, consistency)


def apply_kernel(node: WindowApply, consistency: Consistency) -> Operator:
    kernels = _APPLIES_AT_ONCE if node.at_once else _APPLIES
    return kernels[type(node.window)](node, consistency)


def wid_aggregate_kernel(node: WidAggregate, consistency: Consistency) -> Operator:
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
    if node.strategy == "bins":
        return BinsAggregateKernel(node, consistency)
    return _engine(node, consistency, what="WidAggregate")


def wid_apply_kernel(node: WidApply, consistency: Consistency) -> Operator:
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}).slide_by_tuple(5).apply("median", "v")
    >>> tw.table(query, {"s": [tw.point({"v": 7.0}, 2), tw.point({"v": 3.0}, 4)]})
    [(-2, 3, {'median': 7.0}), (0, 5, {'median': 5.0})]
    """
    return _engine(node, consistency, what="WidApply")


def _engine(
    node: WindowAggregate | WindowApply | WidAggregate | WidApply,
    consistency: Consistency,
    *,
    what: str,
) -> WindowEngine:
    """The engine of a node; `what` names it in messages."""
    kind: AnyWindow
    if isinstance(node, (WidAggregate, WidApply)):
        kind, columns, partition, wid = node.kind, node.columns, node.window_columns, node.wid
    else:
        kind, columns, partition, wid = node.window, node.keys, node.keys, None
    assigner = assigner_for(kind, node)
    values = (
        ModuleValues(node)
        if isinstance(node, (WindowApply, WidApply))
        else _values(node, columns, assigner)
    )
    return WindowEngine(
        node.schema,
        node.input.schema,
        assigner,
        values,
        columns,
        partition,
        consistency,
        wid=wid,
        what=what,
    )


def _values(
    node: WindowAggregate | WidAggregate, columns: tuple[str, ...], assigner: Assigner
) -> Values:
    arguments = ArgumentProjection(node.aggregates, columns, node.input.schema)
    bounded = all(call.bounded for _, call in node.aggregates)
    if bounded and not assigner.disjoint:
        return PartialValues(arguments, node.schema)
    return RowValues(arguments, node.schema)

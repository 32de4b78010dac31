"""Which kernel runs which node. Adding an operator ends with a line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.errors import PlanError
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.operators.joining.clip_by import ClipByKernel
from thalweg.operators.joining.coverage import CoverageKernel
from thalweg.operators.joining.join import JoinKernel
from thalweg.operators.joining.match_join import MatchJoinKernel
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.operators.merging.named_inputs import merged_source_kernel
from thalweg.operators.patterns.chronicle import ChronicleKernel
from thalweg.operators.patterns.detect import DetectKernel
from thalweg.operators.rows.alter_lifetime import AlterLifetimeKernel
from thalweg.operators.rows.chop import ChopKernel
from thalweg.operators.rows.clip_duration import ClipDurationKernel
from thalweg.operators.rows.describe import DescribeKernel
from thalweg.operators.rows.extend import ExtendKernel
from thalweg.operators.rows.hopping_lifetime import HoppingLifetimeKernel
from thalweg.operators.rows.in_order import InOrderKernel
from thalweg.operators.rows.number_rows import NumberRowsKernel
from thalweg.operators.rows.point_at_end import PointAtEndKernel
from thalweg.operators.rows.quantize import QuantizeKernel
from thalweg.operators.rows.retime import RetimeKernel
from thalweg.operators.rows.select import SelectKernel
from thalweg.operators.rows.select_many import SelectManyKernel
from thalweg.operators.rows.session_lifetime import SessionLifetimeKernel
from thalweg.operators.rows.set_duration import SetDurationKernel
from thalweg.operators.rows.shift import ShiftKernel
from thalweg.operators.rows.stitch import StitchKernel
from thalweg.operators.rows.union import UnionKernel
from thalweg.operators.rows.where import WhereKernel
from thalweg.operators.source.ingress import IngressKernel
from thalweg.operators.source.stamp_arrivals import StampArrivalsKernel
from thalweg.operators.window.build import (
    held_engine,
    held_module_engine,
    wid_engine,
    wid_module_engine,
)
from thalweg.operators.window.grid.bins import BinsAggregateKernel
from thalweg.operators.window.grid.buckets import BucketAggregateKernel
from thalweg.operators.window.grid.deferred import DeferredKernel
from thalweg.operators.window.grid.loop import GridOperator
from thalweg.operators.window.grid.merged_panes import CombineMergedPanesKernel, MergedPanesKernel
from thalweg.operators.window.grid.pane_table import TablePanesKernel
from thalweg.operators.window.grid.panes import CombinePanesKernel, PanesKernel
from thalweg.operators.window.grid.promised_groups import PromisedGroupsKernel
from thalweg.operators.window.grid.rows import HoppingRowsAggregateKernel, HoppingTopKKernel
from thalweg.operators.window.grid.sums import HoppingAggregateKernel
from thalweg.operators.window.modules.grid_apply import GridApplyKernel
from thalweg.operators.window.modules.paned_apply import PanedApplyKernel
from thalweg.operators.window.modules.window_apply import WindowApplyKernel
from thalweg.operators.window.snapshot.aggregate import SnapshotAggregateKernel
from thalweg.operators.window.snapshot.apply import SnapshotApplyKernel
from thalweg.operators.window.snapshot.distinct import DistinctKernel
from thalweg.operators.window.snapshot.top_k import TopKKernel
from thalweg.plan import nodes
from thalweg.plan.nodes import Join, Node, TopK, WindowAggregate
from thalweg.windows import HoppingWindow, SnapshotWindow

__all__ = ["kernel_for"]

_KERNELS: dict[type[Node], Callable[[Any], Operator]] = {
    nodes.Source: IngressKernel,
    nodes.Where: WhereKernel,
    nodes.Select: SelectKernel,
    nodes.SelectMany: SelectManyKernel,
    nodes.SetDuration: SetDurationKernel,
    nodes.AlterLifetime: AlterLifetimeKernel,
    nodes.Retime: RetimeKernel,
    nodes.Shift: ShiftKernel,
    nodes.Extend: ExtendKernel,
    nodes.ClipDuration: ClipDurationKernel,
    nodes.PointAtEnd: PointAtEndKernel,
    nodes.Chop: ChopKernel,
    nodes.HoppingLifetime: HoppingLifetimeKernel,
    nodes.Quantize: QuantizeKernel,
    nodes.SessionLifetime: SessionLifetimeKernel,
    nodes.Union: UnionKernel,
    nodes.Chronicle: ChronicleKernel,
    nodes.ClipBy: ClipByKernel,
    nodes.Stitch: StitchKernel,
    nodes.Distinct: DistinctKernel,
    nodes.Describe: DescribeKernel,
    nodes.InOrder: InOrderKernel,
    nodes.Detect: DetectKernel,
    nodes.NumberRows: NumberRowsKernel,
    nodes.StampArrivals: StampArrivalsKernel,
}


def kernel_for(node: Node, consistency: Consistency) -> Operator:
    """The kernel that runs a node."""
    kernel = _kernel_for(node, consistency)
    kernel.reach = node.reach
    return kernel


def _kernel_for(node: Node, consistency: Consistency) -> Operator:
    """A new kernel for a node of a rewritten plan (no groups)."""
    if isinstance(node, WindowAggregate):
        return _aggregate(node, consistency)
    if isinstance(node, nodes.WidAggregate):
        return _wid_aggregate(node, consistency)
    if isinstance(node, nodes.Panes):
        if node.table is not None:
            return TablePanesKernel(node)
        return PanesKernel(node) if node.adds_up else MergedPanesKernel(node)
    if isinstance(node, nodes.CombinePanes):
        combine = CombinePanesKernel if node.adds_up else CombineMergedPanesKernel
        windows = combine(node, consistency)
        return DeferredKernel(_by_groups(windows, node.keys, consistency), windows.release)
    if isinstance(node, nodes.WidApply):
        return wid_module_engine(node, consistency)
    if isinstance(node, nodes.WindowApply):
        return _apply(node, consistency)
    if isinstance(node, TopK):
        return _top_k(node, consistency)
    if isinstance(node, Join) and node.kind.only_pairs:
        return JoinKernel(node)
    if isinstance(node, Join):
        return MatchJoinKernel(node) if node.whole else CoverageKernel(node)
    if isinstance(node, nodes.Merge):
        return _merge(node, consistency)
    if isinstance(node, nodes.MergedSource):
        return merged_source_kernel(node)
    make = _KERNELS.get(type(node))
    own = node.kernel() if make is None else None
    if isinstance(own, Operator):
        return own
    if make is None:
        raise PlanError(f"no kernel runs {node.label}; was the plan rewritten?")
    return make(node)


def _merge(node: nodes.Merge, consistency: Consistency) -> Operator:
    choice = node.choose(final=consistency.is_final)
    return MergeKernel(
        node.schema,
        tuple(f"input {at}" for at in range(len(node.streams))),
        level=choice.level,
        policy=node.policy,
        groups=choice.groups,
        tolerance=node.tolerance,
        broken=node.broken,
        sort=choice.sort,
    )


def _apply(node: nodes.WindowApply, consistency: Consistency) -> Operator:
    if node.at_once:
        cut = isinstance(node.window, SnapshotWindow)
        return (SnapshotApplyKernel if cut else held_module_engine)(node, consistency)
    if not isinstance(node.window, HoppingWindow):
        return WindowApplyKernel(node, consistency)
    if node.in_panes:
        return _by_groups(PanedApplyKernel(node, consistency), node.keys, consistency)
    if node.ends_matter or node.stamp == "time-bound":
        return WindowApplyKernel(node, consistency)
    kernel = GridApplyKernel(node, consistency)
    # The answers of a group are held back by their ends, so that those must be the windows' own.
    return _by_groups(kernel, node.keys, consistency) if node.stamp == "align" else kernel


def _wid_aggregate(node: nodes.WidAggregate, consistency: Consistency) -> Operator:
    if node.strategy == "bins":
        return BinsAggregateKernel(node, consistency)
    return wid_engine(node, consistency)


def _aggregate(node: WindowAggregate, consistency: Consistency) -> Operator:
    if isinstance(node.window, SnapshotWindow):
        return SnapshotAggregateKernel(node, consistency)
    if not isinstance(node.window, HoppingWindow):
        return held_engine(node, consistency)
    return _by_groups(_on_a_grid(node, consistency), node.keys, consistency)


def _by_groups(
    inner: GridOperator[Any, Any], keys: tuple[str, ...], consistency: Consistency
) -> Operator:
    """Groups may have promises of their own."""
    return PromisedGroupsKernel(inner, keys, consistency) if keys else inner


def _on_a_grid(node: WindowAggregate, consistency: Consistency) -> GridOperator[Any, Any]:
    how = node.evaluated
    if how.is_differential:
        return HoppingAggregateKernel(node, consistency)
    if how.keeps == "rows":
        return HoppingRowsAggregateKernel(node, consistency)
    return BucketAggregateKernel(node, consistency, by_pane=how.by_pane, adaptive=how.adaptive)


def _top_k(node: TopK, consistency: Consistency) -> Operator:
    if not isinstance(node.window, HoppingWindow):
        return TopKKernel(node, consistency)
    return _by_groups(HoppingTopKKernel(node, consistency), node.keys, consistency)

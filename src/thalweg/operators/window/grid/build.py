"""Which kernel runs windows on a grid."""

from __future__ import annotations

from typing import Any

from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
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
from thalweg.plan.nodes import CombinePanes, Panes, TopK, WindowAggregate, WindowApply

__all__ = [
    "combine_panes_kernel",
    "grid_aggregate_kernel",
    "grid_apply_kernel",
    "grid_top_k_kernel",
    "panes_kernel",
]


def grid_aggregate_kernel(node: WindowAggregate, consistency: Consistency) -> Operator:
    """By the strategy of the plan (see `plan.strategies`)."""
    return _by_groups(_aggregate_store(node, consistency), node.keys, consistency)


def _aggregate_store(node: WindowAggregate, consistency: Consistency) -> GridOperator[Any, Any]:
    how = node.evaluated
    if how.is_differential:
        return HoppingAggregateKernel(node, consistency)
    if how.keeps == "rows":
        return HoppingRowsAggregateKernel(node, consistency)
    return BucketAggregateKernel(node, consistency, by_pane=how.by_pane, adaptive=how.adaptive)


def grid_top_k_kernel(node: TopK, consistency: Consistency) -> Operator:
    return _by_groups(HoppingTopKKernel(node, consistency), node.keys, consistency)


def grid_apply_kernel(node: WindowApply, consistency: Consistency) -> Operator:
    if node.in_panes:
        return _by_groups(PanedApplyKernel(node, consistency), node.keys, consistency)
    if node.ends_matter or node.stamp == "time-bound":
        return WindowApplyKernel(node, consistency)
    kernel = GridApplyKernel(node, consistency)
    # The answers of a group are held back by their ends, so that those must be the windows' own.
    return _by_groups(kernel, node.keys, consistency) if node.stamp == "align" else kernel


def panes_kernel(node: Panes) -> Operator:
    if node.table is not None:
        return TablePanesKernel(node)
    return PanesKernel(node) if node.adds_up else MergedPanesKernel(node)


def combine_panes_kernel(node: CombinePanes, consistency: Consistency) -> Operator:
    combine = CombinePanesKernel if node.adds_up else CombineMergedPanesKernel
    windows = combine(node, consistency)
    return DeferredKernel(_by_groups(windows, node.keys, consistency), windows.release)


def _by_groups(
    inner: GridOperator[Any, Any], keys: tuple[str, ...], consistency: Consistency
) -> Operator:
    """Groups may have promises of their own."""
    return PromisedGroupsKernel(inner, keys, consistency) if keys else inner

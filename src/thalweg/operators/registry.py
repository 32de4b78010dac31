"""Which kernel runs which node. Adding an operator ends with a line here.

Where one node has several kernels, the function that chooses among them stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.errors import PlanError
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.operators.joining.build import join_kernel
from thalweg.operators.joining.clip_by import ClipByKernel
from thalweg.operators.merging.kernel import merge_kernel
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
    aggregate_kernel,
    apply_kernel,
    top_k_kernel,
    wid_aggregate_kernel,
    wid_apply_kernel,
)
from thalweg.operators.window.grid.build import combine_panes_kernel, panes_kernel
from thalweg.operators.window.snapshot.distinct import DistinctKernel
from thalweg.plan import nodes
from thalweg.plan.nodes import Node

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
    nodes.Join: join_kernel,
    nodes.Chronicle: ChronicleKernel,
    nodes.ClipBy: ClipByKernel,
    nodes.Stitch: StitchKernel,
    nodes.Distinct: DistinctKernel,
    nodes.Describe: DescribeKernel,
    nodes.InOrder: InOrderKernel,
    nodes.Detect: DetectKernel,
    nodes.NumberRows: NumberRowsKernel,
    nodes.StampArrivals: StampArrivalsKernel,
    nodes.Panes: panes_kernel,
    nodes.MergedSource: merged_source_kernel,
}

_HOLDING_KERNELS: dict[type[Node], Callable[[Any, Consistency], Operator]] = {
    nodes.WindowAggregate: aggregate_kernel,
    nodes.WindowApply: apply_kernel,
    nodes.TopK: top_k_kernel,
    nodes.WidAggregate: wid_aggregate_kernel,
    nodes.WidApply: wid_apply_kernel,
    nodes.CombinePanes: combine_panes_kernel,
    nodes.Merge: merge_kernel,
}
"""Those whose answers wait as the consistency of the query says."""


def kernel_for(node: Node, consistency: Consistency) -> Operator:
    """A new kernel for a node of a rewritten plan (no groups)."""
    kernel = _kernel_for(node, consistency)
    kernel.reach = node.reach
    return kernel


def _kernel_for(node: Node, consistency: Consistency) -> Operator:
    kind = type(node)
    if kind in _KERNELS:
        return _KERNELS[kind](node)
    if kind in _HOLDING_KERNELS:
        return _HOLDING_KERNELS[kind](node, consistency)
    own = node.kernel()
    if isinstance(own, Operator):
        return own
    raise PlanError(f"no kernel runs {node.label}; was the plan rewritten?")

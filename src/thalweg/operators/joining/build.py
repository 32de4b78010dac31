"""Which kernel runs a join."""

from __future__ import annotations

from thalweg.operators.base import Operator
from thalweg.operators.joining.coverage import CoverageKernel
from thalweg.operators.joining.join import JoinKernel
from thalweg.operators.joining.match_join import MatchJoinKernel
from thalweg.plan.nodes import Join

__all__ = ["join_kernel"]


def join_kernel(node: Join) -> Operator:
    if node.kind.only_pairs:
        return JoinKernel(node)
    return MatchJoinKernel(node) if node.whole else CoverageKernel(node)

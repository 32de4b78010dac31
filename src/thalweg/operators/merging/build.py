"""The kernel of a merge of streams that one plan reads."""

from __future__ import annotations

from thalweg.operators.consistency import Consistency
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.plan.nodes import Merge

__all__ = ["merge_kernel"]


def merge_kernel(node: Merge, consistency: Consistency) -> MergeKernel:
    """At the level that the facts about its inputs allow."""
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

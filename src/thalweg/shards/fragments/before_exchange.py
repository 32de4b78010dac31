"""Conditions for running operators before an exchange, where rows are read."""

from __future__ import annotations

from thalweg.errors import PlanError
from thalweg.plan.nodes import Node, Source

__all__ = ["can_pre_aggregate", "needs_order", "only_rows", "require_patterns", "source_of"]


def only_rows(node: Node) -> bool:
    """Whether all operators down to the source look at single rows, keep lifetimes, and see starts
    as the source will admit them."""
    reads_start = False
    while node.before_exchange:
        reads_start |= node.reads_start
        node = node.inputs[0]
    return isinstance(node, Source) and not (reads_start and node.ingress.late_policy.moves)


def source_of(node: Node) -> Source:
    while not isinstance(node, Source):
        node = node.inputs[0]
    return node


def needs_order(source: Source) -> bool:
    """Whether one bucket must see all rows in one order: for quarantine, and for promises per
    partition, about columns, as general patterns, or from times of rows that may be adjusted."""
    policy = source.ingress
    return (
        policy.partition is not None
        or policy.quarantine is not None
        or policy.patterns
        or bool(source.declared.progressing)
        or (policy.observes and not source.declared.insert_only)
    )


def can_pre_aggregate(plan: Node) -> bool:
    """Whether partial sums may be made before the exchange. They cannot be moved or set aside one
    by one, no adjust can be checked against them, and no promise for one group covers them."""
    if not only_rows(plan):
        return False
    source = source_of(plan)
    whole = (
        not source.ingress.late_policy.alone
        and source.ingress.partition is None
        and not source.declared.group_ctis
    )
    return source.declared.insert_only and whole


def require_patterns(source: Source) -> None:
    """Refuse general punctuation of a source that has not declared it: behind an exchange its
    columns may not exist."""
    if not source.ingress.patterns:
        raise PlanError(
            f"source {source.name!r}: punctuation with ranges is known only where the source says "
            "that it may come, patterns=True."
        )

"""Every hopping aggregate of a plan gets the strategy that evaluates it, as a field.

What was asked for, or the cheapest for the expected volume (`plan.strategies`), is decided once,
here: kernels, shared panes and the signature of saved state read the field.
"""

from __future__ import annotations

from dataclasses import replace

from thalweg.plan.nodes import Node, WindowAggregate, rebuild

__all__ = ["decide"]


def decide(root: Node) -> Node:
    """The plan with the evaluation of each hopping aggregate settled.

    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).tumbling(10).aggregate(n=tw.count())
    >>> query.node.evaluation, decide(query.node).evaluation
    (None, 'differential')
    """
    return rebuild(root, _settled)


def _settled(node: Node) -> Node:
    if not isinstance(node, WindowAggregate) or node.window.grid is None:
        return node
    return node if node.evaluation is not None else replace(node, evaluation=node.chosen)

"""A filter of a union is a union of filters.

    where(p, A + B) = where(p, A) + where(p, B)

The same rows are tested, each side's promises pass a filter unchanged, and the smaller of them is
still the result's.
"""

from __future__ import annotations

from thalweg.plan.nodes import Node, Union, Where
from thalweg.plan.rules.scope import Scope

name = "where_below_union"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if isinstance(node, Where) and isinstance(node.input, Union):
        return Union(
            Where(node.input.left, node.predicate), Where(node.input.right, node.predicate)
        )
    return None

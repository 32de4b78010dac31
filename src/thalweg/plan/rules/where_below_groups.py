"""A filter on what identifies a group goes below an operator that treats groups separately.

    where(p(k), G_k(R)) = G_k(where(p(k), R))

    G: window aggregate or module, top-k, session (k: its keys); distinct, stitch (k: the payload)

k being the columns of `Node.identity`. A group is kept or rejected whole, and no group's result
depends on another's rows. It does not hold, and is not done, for an aggregate with `fill` (the
range of its empty windows depends on all groups), for a filter that reads `_start` (the operator
changes it), for keys of a floating type (0.0 and -0.0 are one group but two values), or for a
filter that can fail (below, it would meet rows that never reach the result).
"""

from __future__ import annotations

from thalweg.plan.expressions import cannot_fail, is_floating
from thalweg.plan.nodes import Node, Where
from thalweg.plan.rules.scope import Scope

name = "where_below_groups"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if not isinstance(node, Where):
        return None
    grouped, read = node.input, node.predicate.columns()
    if (
        not read
        or not read <= grouped.identity
        or not cannot_fail(node.predicate)
        or is_floating(read, grouped.schema)
    ):
        return None
    return grouped.with_children(Where(grouped.inputs[0], node.predicate))

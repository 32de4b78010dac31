"""A filter that reads only columns which a projection merely passes on is evaluated before it.

    where(p(a), select(a = x, b = f(y), R)) = select(a = x, b = f(y), where(p(x), R))

The filter sees the same values of the same rows, so it fails where it failed before and nowhere
else. A filter that reads a computed column stays: below, its expression would be computed twice,
and on other terms.
"""

from __future__ import annotations

from thalweg.plan.expressions import START, passed_on
from thalweg.plan.nodes import Node, Select, Where
from thalweg.plan.rules.scope import Scope

name = "where_below_select"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if not (isinstance(node, Where) and isinstance(node.input, Select)):
        return None
    names = passed_on(node.input.columns) | {START: START}
    if not node.predicate.columns() <= names.keys():
        return None
    return Select(Where(node.input.input, node.predicate.rename(names)), node.input.columns)

"""Two projections become one when one of them only picks and renames columns.

    select(b = a, select(a = f(x), R)) = select(b = f(x), R)
    select(b = f(a), select(a = x, R)) = select(b = f(x), R)

No expression is put inside another, so none is evaluated more often per row than before, and none
on other rows. A column that is computed and never read is no longer computed.
"""

from __future__ import annotations

from thalweg.expr import Column
from thalweg.plan.expressions import START, passed_on
from thalweg.plan.nodes import Node, Select
from thalweg.plan.rules.scope import Scope

name = "merge_selects"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if not (isinstance(node, Select) and isinstance(node.input, Select)):
        return None
    outer, inner = node.columns, node.input.columns
    below = node.input.input
    if len(passed_on(outer)) == len(outer) and len(set(passed_on(outer).values())) == len(outer):
        inner_columns = dict(inner) | {START: Column(START)}
        return Select(
            below, tuple((name, inner_columns[column]) for name, column in passed_on(outer).items())
        )
    if len(passed_on(inner)) == len(inner):
        names = passed_on(inner) | {START: START}
        return Select(below, tuple((name, expr.rename(names)) for name, expr in outer))
    return None

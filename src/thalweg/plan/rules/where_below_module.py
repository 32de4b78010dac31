"""A filter on columns that a module passes on goes below the module, where the module says that it
may.

    where(p(c), M(R)) = M(where(p(c), R))      M: an operator over hopping windows that commutes
                                                  with filters on c

The module promises it for the rows of one window; that the windows stay what they are without the
rejected rows holds for windows on a grid alone (the rows themselves cut the others). A window whose
rows are all rejected is empty below and gives nothing; above, it must have given only rows that are
rejected, which is what the module says. An aggregate would give a value there, so it is for
operators only. The column must be an input as it is, not computed, and not of a floating type (0.0
and -0.0 are one value of a key, and two to a function); the filter must not be able to fail.
"""

from __future__ import annotations

from dataclasses import replace

from thalweg.expr import Column
from thalweg.plan.expressions import cannot_fail, is_floating
from thalweg.plan.nodes import Node, Where, WindowApply
from thalweg.plan.rules.scope import Scope

name = "where_below_module"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if not isinstance(node, Where) or not isinstance(node.input, WindowApply):
        return None
    below, read = node.input, node.predicate.columns()
    if below.module.is_aggregate or below.window.grid is None:
        return None
    passed = {name: expr.name for name, expr in below.arguments if isinstance(expr, Column)}
    allowed = set(below.module.properties.commutes_with_filter) & set(passed)
    names_below = {name: passed[name] for name in allowed} | {key: key for key in below.keys}
    if not read or not read <= set(names_below) or not cannot_fail(node.predicate):
        return None
    if is_floating([names_below[name] for name in read], below.input.schema):
        return None
    return replace(below, input=Where(below.input, node.predicate.rename(names_below)))

"""A join makes the columns that a projection behind it picks.

    select(b = a, join(A, B, select a = f(l, r))) = join(A, B, select b = f(l, r))

and likewise for pairs in chronicle context, and for the rows of outer joins that stand alone. The
projection only picks and renames columns, each once, so that no expression is evaluated more often
than before. Which rows meet, and when, does not depend on the columns of the result.
"""

from __future__ import annotations

from dataclasses import replace

from thalweg.plan.expressions import START, passed_on
from thalweg.plan.nodes import Chronicle, Join, Named, Node, Select
from thalweg.plan.rules.scope import Scope

name = "select_from_pairs"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if not isinstance(node, Select):
        return None
    picked = passed_on(node.columns)
    once = len(set(picked.values())) == len(node.columns)
    if not once or START in picked.values():
        return None
    pairs = node.input
    if isinstance(pairs, Chronicle):
        return replace(pairs, result=_picked(pairs.result, picked))
    if isinstance(pairs, Join) and pairs.kind.pairs:
        return replace(
            pairs,
            result=_picked(pairs.result, picked),
            left_only=_picked(pairs.left_only, picked) if pairs.kind.left_alone else (),
            right_only=_picked(pairs.right_only, picked) if pairs.kind.right_alone else (),
        )
    return None


def _picked(columns: Named, picked: dict[str, str]) -> Named:
    """The columns under their new names."""
    made = dict(columns)
    return tuple((new, made[old]) for new, old in picked.items())

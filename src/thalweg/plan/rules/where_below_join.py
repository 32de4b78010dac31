"""A filter that reads only one side of a join is evaluated on that side.

    where(p(a), join(A, B, select a = l.x)) = join(where(p(x), A), B, select a = l.x)

for either side of an inner join, for the left side of a semi or anti join, and for the side that a
left or right join preserves, where its rows have the column alone, too: there, a row is kept or
rejected together with all pairs and pieces made of it. A filter that reads `_start` stays, because
the result starts when both sides have started; so does one that can fail, because below it would
meet rows that never find a partner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from thalweg.plan.expressions import START, cannot_fail, passed_on
from thalweg.plan.nodes import Join, Node, Where
from thalweg.plan.rules.scope import Scope

name = "where_below_join"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if not (isinstance(node, Where) and isinstance(node.input, Join)):
        return None
    join, read = node.input, node.predicate.columns()
    if not read or START in read or not cannot_fail(node.predicate):
        return None
    left, right = _left_names(join), _right_names(join)
    if read <= left.keys():
        return replace(join, left=Where(join.left, node.predicate.rename(left)))
    if read <= right.keys():
        return replace(join, right=Where(join.right, node.predicate.rename(right)))
    return None


def _left_names(join: Join) -> dict[str, str]:
    """The result columns that are unchanged columns of the left side, to their names there."""
    if join.kind.only_left_rows:
        return {name: name for name in join.left.schema.names}
    if not join.kind.left_in_all:
        return {}
    names = _side(join, "l.", join.left, join.right)
    return _kept(names, passed_on(join.left_only)) if join.kind.left_alone else names


def _right_names(join: Join) -> dict[str, str]:
    if not join.kind.right_in_all:
        return {}
    names = _side(join, "r.", join.right, join.left)
    return _kept(names, passed_on(join.right_only)) if join.kind.right_alone else names


def _kept(pairs: dict[str, str], alone: Mapping[str, str]) -> dict[str, str]:
    """The columns that pairs and rows without a partner have from the same column."""
    return {name: column for name, column in pairs.items() if alone.get(name) == column}


def _side(join: Join, prefix: str, side: Node, other: Node) -> dict[str, str]:
    names = {}
    for name, column in passed_on(join.result).items():
        bare = column.removeprefix(prefix) if column.startswith(prefix) else column
        written_out = column.startswith(prefix)
        if bare in side.schema.names and (written_out or bare not in other.schema.names):
            names[name] = bare
    return names

"""Group-and-apply is grouping columns that travel along.

Law. For each value g of the keys let R_g be the rows of that group. The union over g of {g} x
inner(R_g) is the inner query over all rows at once, where every operator that looks at several rows
also compares the key columns: windows, top-k and sessions are per key, joins and clips match keys,
and projections keep them (`Node.group_changes`). Then no row of one group ever meets a row of
another. Inside a group-and-apply a stream that does not come from the group is seen whole by every
group.
"""

from __future__ import annotations

from thalweg.errors import PlanError
from thalweg.expr import col
from thalweg.plan.expressions import unchanged
from thalweg.plan.nodes import GroupApply, GroupInput, Named, Node, Select, Union, find
from thalweg.plan.rules.scope import Scope

__all__ = ["apply", "name", "scope"]

name = "ungroup"
scope = Scope.PLAN

Partition = tuple[str, ...]


def apply(root: Node) -> Node | None:
    """The plan without any group-and-apply; None when it has none."""
    if next(find(root, GroupApply), None) is None:
        return None
    return _Ungroup().rewrite(root)[0]


class _Ungroup:
    """Rewrites from the sources up; keeps for each node what it became and which key columns it
    carries."""

    def __init__(self) -> None:
        self._done: dict[Node, tuple[Node, Partition]] = {}
        self._groups = 0

    def rewrite(self, node: Node) -> tuple[Node, Partition]:
        if node not in self._done:
            self._done[node] = (
                self._group_apply(node) if isinstance(node, GroupApply) else self._other(node)
            )
        return self._done[node]

    def _group_apply(self, node: GroupApply) -> tuple[Node, Partition]:
        below, outer = self.rewrite(node.input)
        self._groups += 1
        inside = {key: f"_group{self._groups}_{key}" for key, _ in node.keys}
        keyed = Select(
            below,
            (*unchanged(below.schema.names), *((inside[key], expr) for key, expr in node.keys)),
        )
        self._done[node.group] = keyed, (*outer, *inside.values())
        inner, _ = self.rewrite(node.inner)
        if node.result is None:
            keys: Named = tuple((key, col(inside[key])) for key, _ in node.keys)
            rest: Named = unchanged(n for n in node.inner.schema.names if n not in inside)
            columns = (*keys, *rest)
        else:
            names = {f"key_{key}": column for key, column in inside.items()}
            columns = tuple((n, expr.rename(names)) for n, expr in node.result)
        return Select(inner, (*columns, *unchanged(outer))), outer

    def _other(self, node: Node) -> tuple[Node, Partition]:
        if isinstance(node, GroupInput):
            raise PlanError(
                "the rows of a group are used outside the group-and-apply they belong to."
            )
        below = [self.rewrite(child) for child in node.inputs]
        partitions = [partition for _, partition in below]
        keys = max(partitions, key=len, default=())
        changes = node.group_changes(keys, partitions) if keys else {}
        inputs = [child for child, _ in below]
        if keys and isinstance(node, Union):
            inputs = [_in_order(child, inputs[0].schema.names) for child in inputs]
        return node.with_children(*inputs, **changes), keys


def _in_order(node: Node, names: list[str]) -> Node:
    """Windows have the key columns in front, projections behind: the sides of a union get the order
    of the first."""
    if node.schema.names == names:
        return node
    return Select(node, unchanged(names))

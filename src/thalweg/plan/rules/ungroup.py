"""Group-and-apply is grouping columns that travel along.

Law. For each value g of the keys let R_g be the rows of that group. The union over g of {g} x
inner(R_g) is the inner query over all rows at once, where every operator that looks at several rows
also compares the key columns: windows, top-k and sessions are per key, joins and clips match keys,
and projections keep them. Then no row of one group ever meets a row of another. Inside a
group-and-apply a stream that does not come from the group is seen whole by every group.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from thalweg.errors import PlanError
from thalweg.expr import Expr, col
from thalweg.plan.nodes import (
    ClipBy,
    CombinePanes,
    GroupApply,
    GroupInput,
    Join,
    Named,
    Node,
    NumberRows,
    Panes,
    Select,
    SelectMany,
    SessionLifetime,
    TopK,
    Union,
    WidAggregate,
    WindowAggregate,
    WindowApply,
    walk,
)
from thalweg.windows import SlidingRows, SlidingTime

__all__ = ["apply", "name"]

name = "ungroup"

Partition = tuple[str, ...]


def apply(root: Node) -> Node | None:
    """The plan without any group-and-apply; None when it has none."""
    if not any(isinstance(node, GroupApply) for node in walk(root)):
        return None
    return _Ungroup().rewrite(root)[0]


class _Ungroup:
    """Rewrites from the sources up; remembers for each node what it became and which key columns it
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
        keyed = Select(below, (*_all(below), *((inside[key], expr) for key, expr in node.keys)))
        self._done[node.group] = keyed, (*outer, *inside.values())
        inner, _ = self.rewrite(node.inner)
        if node.result is None:
            keys: Named = tuple((key, col(inside[key])) for key, _ in node.keys)
            rest: Named = tuple((n, col(n)) for n in node.inner.schema.names if n not in inside)
            columns = (*keys, *rest)
        else:
            names = {f"key_{key}": column for key, column in inside.items()}
            columns = tuple((n, expr.rename(names)) for n, expr in node.result)
        return Select(inner, (*columns, *((k, col(k)) for k in outer))), outer

    def _other(self, node: Node) -> tuple[Node, Partition]:
        if isinstance(node, GroupInput):
            raise PlanError(
                "the rows of a group are used outside the group-and-apply they belong to."
            )
        below = [self.rewrite(child) for child in node.inputs]
        changes: dict[str, Any] = {}
        for entry in fields(node):
            value = getattr(node, entry.name) if entry.init else None
            if isinstance(value, Node):
                changes[entry.name] = self.rewrite(value)[0]
        partitions = [partition for _, partition in below]
        keys = max(partitions, key=len, default=())
        if keys:
            changes |= self._keyed(node, keys, partitions)
        if all(changes[name] is getattr(node, name) for name in changes):
            return node, keys
        return replace(node, **changes), keys

    def _keyed(self, node: Node, keys: Partition, partitions: list[Partition]) -> dict[str, Any]:
        """How the node takes the key columns along."""
        carried: Named = tuple((k, col(k)) for k in keys)
        if isinstance(node, (Select, SelectMany)):
            return {"columns": (*node.columns, *carried)}
        if isinstance(
            node, (SessionLifetime, TopK, WindowAggregate, WindowApply, Panes, CombinePanes)
        ):
            return {"keys": (*keys, *node.keys)}
        if isinstance(node, WidAggregate):
            return _partitioned(node, keys)
        if isinstance(node, NumberRows):
            return {"partition": (*keys, *node.partition)}
        if isinstance(node, Union):
            return self._united(node, partitions)
        if isinstance(node, (Join, ClipBy)):
            return self._paired(node, keys, partitions)
        return {}

    def _united(self, node: Union, partitions: list[Partition]) -> dict[str, Any]:
        """Windows have the key columns in front, projections behind: the right side follows the
        order of the left."""
        if partitions[0] != partitions[1]:
            raise PlanError(
                "group_apply: a union inside a group needs both sides to come from the group."
            )
        left, right = (self.rewrite(side)[0] for side in (node.left, node.right))
        if left.schema.names == right.schema.names:
            return {}
        return {"right": Select(right, tuple((n, col(n)) for n in left.schema.names))}

    def _paired(
        self, node: Join | ClipBy, keys: Partition, partitions: list[Partition]
    ) -> dict[str, Any]:
        left, right = (set(p) for p in partitions)
        changes: dict[str, Any] = {
            "same": (*node.same, *(k for k in keys if k in left and k in right))
        }
        if isinstance(node, ClipBy) or node.how in ("semi", "anti"):
            if not left >= set(keys):
                raise PlanError(
                    f"group_apply: the left side of a {node.label} inside a group must come from the group."
                )
            return changes
        from_side: dict[str, Expr] = {k: col(f"l.{k}" if k in left else f"r.{k}") for k in keys}
        changes["result"] = (*node.result, *from_side.items())
        preserved = {"left": [left], "right": [right], "full": [left, right]}.get(node.how, [])
        if not all(side >= set(keys) for side in preserved):
            raise PlanError(
                f"group_apply: a {node.how} join inside a group needs its preserved sides to come from the group."
            )
        if node.how in ("left", "full"):
            changes["left_only"] = (*node.left_only, *((k, col(k)) for k in keys))
        if node.how in ("right", "full"):
            changes["right_only"] = (*node.right_only, *((k, col(k)) for k in keys))
        return changes


def _partitioned(node: WidAggregate, keys: Partition) -> dict[str, Any]:
    """The windows of a group are those of a partition."""
    if isinstance(node.kind, SlidingTime) and node.kind.origin is None:
        raise PlanError(
            "group_apply: windows that begin with the first row cannot differ from group to group; give origin=."
        )
    kind = replace(node.kind, partitioned=True) if isinstance(node.kind, SlidingRows) else node.kind
    return {"partition": (*keys, *node.partition), "kind": kind}


def _all(node: Node) -> Named:
    return tuple((column, col(column)) for column in node.schema.names)

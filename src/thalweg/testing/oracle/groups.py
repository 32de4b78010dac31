"""Group-and-apply: the inner query is computed once per group, over the rows of that group only."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from thalweg.model import Row
from thalweg.plan.nodes import GroupApply, lifetime_schema
from thalweg.testing.identity import identity
from thalweg.testing.oracle.scene import Scene, meaning
from thalweg.testing.oracle.values import columns_of

__all__: list[str] = []


@meaning(GroupApply)
def group_apply(node: GroupApply, scene: Scene) -> list[Row]:
    schema = lifetime_schema(node.input.schema)
    groups: dict[Hashable, tuple[dict[str, Any], list[Row]]] = {}
    for row in scene.rows(node.input):
        keys = columns_of(node.keys, {**row[2], "_start": row[0]}, schema)
        groups.setdefault(identity(keys), (keys, []))[1].append(row)
    result: list[Row] = []
    for keys, rows in groups.values():
        result += [
            _labelled(node, keys, row) for row in scene.inside(node.group, rows).rows(node.inner)
        ]
    return result


def _labelled(node: GroupApply, keys: dict[str, Any], row: Row) -> Row:
    """A row of the inner query with the keys of its group."""
    start, end, payload = row
    if node.result is None:
        return (
            start,
            end,
            keys | {name: value for name, value in payload.items() if name not in keys},
        )
    seen = (
        {f"key_{name}": value for name, value in keys.items()} | dict(payload) | {"_start": start}
    )
    return start, end, columns_of(node.result, seen, lifetime_schema(node.result_schema()))

"""An operator that keeps rows in its state keeps only the columns it reads.

    G(R) = G(select(columns that G reads, R))

for a window aggregate or module (keys and arguments; a rank breaks ties by all columns, so that it
keeps them), the sides of a join that makes pairs (keys, predicate, result), the right side of a
semi or anti join (keys, predicate; the left rows are the result), and the right side of a clip
(keys); each says so itself (`Node.columns_read`). Projection keeps the bag: rows that become equal
stay as many as they were, and an adjust of one is an adjust of any. A group's promise survives
whenever it could serve the operator: its columns are then keys or part of the result, and those are
read.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.plan.expressions import unchanged
from thalweg.plan.nodes import Node, Select
from thalweg.plan.rules.scope import Scope

name = "prune_columns"
scope = Scope.NODE


def apply(node: Node) -> Node | None:
    narrow = [
        child if read is None else _narrow(child, read)
        for child, read in zip(node.inputs, node.columns_read, strict=True)
    ]
    if all(new is old for new, old in zip(narrow, node.inputs, strict=True)):
        return None
    return node.with_children(*narrow, *node.contained)


def _narrow(node: Node, read: frozenset[str]) -> Node:
    keep = [name for name in node.schema.names if name in read] or [_cheapest(node.schema)]
    if len(keep) == len(node.schema.names):
        return node
    return Select(node, unchanged(keep))


def _cheapest(schema: pa.Schema) -> str:
    """The column to keep where none is read: one of fixed width if there is one."""
    fixed = [field.name for field in schema if pa.types.is_primitive(field.type)]
    return str((fixed or schema.names)[0])

"""An outer join is an inner join and what it leaves uncovered.

Law. left(A, B) = inner(A, B) + left_only(anti(A, B)); right(A, B) = inner(A, B) +
right_only(anti(B, A)); full is all three. A left row appears alone exactly over the part of its
lifetime that no match covers, which is what the anti join is. Joins of whole rows have a kernel
that does all of it in one.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from thalweg.expr import Cast, Expr
from thalweg.plan.nodes import Join, Named, Node, Select, Union, lifetime_schema

__all__ = ["apply", "name"]

name = "outer_joins"


def apply(node: Node) -> Node | None:
    """The sum of an inner join and one or two anti joins."""
    if not isinstance(node, Join) or node.how not in ("left", "right", "full") or node.whole:
        return None
    inner = replace(
        node,
        how="inner",
        result=_cast(node.result, node.schema, node.pair_schema()),
        left_only=(),
        right_only=(),
    )
    both: Node = inner
    if node.how in ("left", "full"):
        alone = replace(node, how="anti", result=(), left_only=(), right_only=())
        both = Union(
            both,
            Select(alone, _cast(node.left_only, node.schema, lifetime_schema(node.left.schema))),
        )
    if node.how in ("right", "full"):
        swapped = None if node.predicate is None else node.predicate.rename(_swap(node))
        sides = tuple({"left": "right", "right": "left"}[side] for side in node.endless)
        other = Join(
            node.right,
            node.left,
            node.right_keys,
            node.left_keys,
            swapped,
            "anti",
            same=node.same,
            endless=sides,
        )
        both = Union(
            both,
            Select(other, _cast(node.right_only, node.schema, lifetime_schema(node.right.schema))),
        )
    return both


def _swap(node: Join) -> dict[str, str]:
    names = {f"l.{n}": f"r.{n}" for n in (*node.left.schema.names, "_start")}
    return names | {f"r.{n}": f"l.{n}" for n in (*node.right.schema.names, "_start")}


def _cast(columns: Named, schema: pa.Schema, seen: pa.Schema) -> Named:
    """The columns in the types of the joined rows."""

    def fitted(expr: Expr, kind: pa.DataType) -> Expr:
        return expr if expr.type_in(seen) == kind else Cast(expr, kind)

    return tuple(
        (n, fitted(expr, field.type)) for (n, expr), field in zip(columns, schema, strict=True)
    )

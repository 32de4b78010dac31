"""What every logical node shares: derived schema and properties, labels, the walk over a plan.

Every node is frozen and checked when it is built: schemas, types and windows that make no sense are
refused here, with the user's file and line. A node used twice in a query is one node: plans are
DAGs, compared by identity.

In the formulas R is the table (bag of rows (s, e, p)) of the input, and R' the table of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError, UnknownColumnError
from thalweg.expr import Expr
from thalweg.model.batch import CONTROL_COLUMNS
from thalweg.plan.properties import StreamProperties

__all__ = [
    "Named",
    "Node",
    "columns_schema",
    "lifetime_schema",
    "require_condition",
    "require_known",
    "walk",
]

Named = tuple[tuple[str, Expr], ...]
"""Output columns in order: name and expression."""


@dataclass(frozen=True, eq=False)
class Node:
    """The base of all nodes. Subclasses set `schema` and `properties` when they are built."""

    schema: pa.Schema = field(init=False, repr=False)
    properties: StreamProperties = field(init=False, repr=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(
            getattr(self, f.name)
            for f in fields(self)
            if f.init and isinstance(getattr(self, f.name), Node)
        )

    @property
    def contained(self) -> tuple[Node, ...]:
        """Queries that run inside this node."""
        return ()

    @property
    def label(self) -> str:
        """The operator's name in `explain()` and in operator ids."""
        name = type(self).__name__
        return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")

    def _settle(self, schema: pa.Schema, properties: StreamProperties) -> None:
        if not len(schema):
            raise PlanError(f"{self.label}: a stream needs at least one column.")
        clash = [n for n in schema.names if n in CONTROL_COLUMNS]
        if clash:
            raise PlanError(
                f"{self.label}: {clash[0]!r} is the name of a control column; choose another."
            )
        double = {n for n in schema.names if schema.names.count(n) > 1}
        if double:
            raise PlanError(
                f"{self.label}: the column {min(double)!r} would appear twice; rename one of them."
            )
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "properties", properties)


def lifetime_schema(schema: pa.Schema, *, with_end: bool = False) -> pa.Schema:
    """A payload schema plus the columns that expressions may read: `_start`, and `_end` where it is
    safe."""
    extra = [pa.field("_start", pa.int64())] + ([pa.field("_end", pa.int64())] if with_end else [])
    return pa.schema([*schema, *extra])


def require_condition(expr: Expr, schema: pa.Schema, what: str) -> None:
    kind = expr.type_in(schema)
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise TypeMismatchError(f"{what} must be a condition (true or false); {expr} is {kind}.")


def columns_schema(columns: Named, schema: pa.Schema) -> pa.Schema:
    return pa.schema([(name, expr.type_in(schema)) for name, expr in columns])


def require_known(names: tuple[str, ...], schema: pa.Schema, what: str) -> None:
    for name in names:
        if name not in schema.names:
            raise UnknownColumnError(name, schema.names, what)


def walk(root: Node) -> Iterator[Node]:
    """Every node once, inputs before the nodes that read them; into the inner query of a
    group-and-apply too."""
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        below = (*node.inputs, *node.contained)
        stack.extend((child, False) for child in reversed(below))

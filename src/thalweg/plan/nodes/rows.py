"""Nodes that look at one row at a time and leave its lifetime alone."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.expr import Expr
from thalweg.plan.nodes.base import (
    Named,
    Node,
    columns_schema,
    lifetime_schema,
    require_condition,
    require_known,
)

__all__ = ["Select", "SelectMany", "Where"]


@dataclass(frozen=True, eq=False)
class Where(Node):
    """R' = {(s, e, p) in R | predicate(p, s)}; a null condition counts as false."""

    input: Node
    predicate: Expr

    def __post_init__(self) -> None:
        require_condition(self.predicate, lifetime_schema(self.input.schema), "where")
        self._settle(self.input.schema, self.input.properties)


@dataclass(frozen=True, eq=False)
class Select(Node):
    """R' = {(s, e, f(p, s))}."""

    input: Node
    columns: Named

    def __post_init__(self) -> None:
        schema = columns_schema(self.columns, lifetime_schema(self.input.schema))
        kept = {str(expr.name) for _, expr in self.columns if hasattr(expr, "name")}
        same = set(self.input.schema.names) <= kept
        before = self.input.properties
        groups = (
            before.group_keys
            if all(
                dict(self.columns).get(k) is not None and str(dict(self.columns)[k]) == k
                for k in before.group_keys
            )
            else ()
        )
        whole = (
            groups == before.group_keys
        )  # a start that is unique in its group says nothing once the group is gone
        self._settle(
            schema,
            before.but(
                unique_start=before.unique_start and whole,
                payload_start_key=whole
                and (before.unique_start or (before.payload_start_key and same)),
                group_ctis=before.group_ctis and bool(groups or same),
                group_keys=groups,
            ),
        )


@dataclass(frozen=True, eq=False)
class SelectMany(Node):
    """Each row becomes `repeat(p, s)` copies of (s, e, f(p, s)); or one per item of the list column
    `unnest`."""

    input: Node
    columns: Named
    repeat: Expr | None = None
    unnest: str | None = None

    def __post_init__(self) -> None:
        schema = lifetime_schema(self.input.schema)
        if (self.repeat is None) == (self.unnest is None):
            raise PlanError("select_many: give either repeat= or unnest=.")
        if self.repeat is not None and not pa.types.is_integer(self.repeat.type_in(schema)):
            raise TypeMismatchError(
                f"select_many: repeat must be a whole number; {self.repeat} is {self.repeat.type_in(schema)}."
            )
        if self.unnest is not None:
            schema = self.unnested_schema()
        before = self.input.properties
        self._settle(
            columns_schema(self.columns, schema),
            before.but(unique_start=False, payload_start_key=False, group_ctis=False),
        )

    def unnested_schema(self) -> pa.Schema:
        """What the column expressions of an unnest see: the list column holds one item."""
        assert self.unnest is not None
        require_known((self.unnest,), self.input.schema, "select_many")
        kind = self.input.schema.field(self.unnest).type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise TypeMismatchError(
                f"select_many: unnest needs a list column; {self.unnest!r} is {kind}."
            )
        fields_ = [
            pa.field(f.name, kind.value_type) if f.name == self.unnest else f
            for f in self.input.schema
        ]
        return lifetime_schema(pa.schema(fields_))

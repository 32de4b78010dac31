"""Nodes that look at one row at a time and leave its lifetime alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.expr import Column, Expr, is_monotone_in_start
from thalweg.plan.expressions import START, Keys, passed_on, show_columns, substitute, unchanged
from thalweg.plan.nodes.base import Named, Node
from thalweg.plan.nodes.families import RowOperator, columns_of
from thalweg.plan.nodes.schemas import (
    columns_schema,
    lifetime_schema,
    require_condition,
    require_known,
)
from thalweg.plan.update_streams import UpdateStream

__all__ = ["Select", "SelectMany", "Where"]


@dataclass(frozen=True, eq=False)
class Where(RowOperator):
    """R' = {(s, e, p) in R | predicate(p, s)}; a null condition counts as false."""

    input: Node
    predicate: Expr

    reach = 0

    def __post_init__(self) -> None:
        require_condition(self.predicate, lifetime_schema(self.input.schema), "where")
        self._settle(self.input.schema, self.input.properties)

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return (self.predicate,)

    def columns_needed(self, above: frozenset[str] | None) -> frozenset[str] | None:
        return None if above is None else above | self.predicate.columns()

    def carrying(self, columns: tuple[str, ...], below: Callable[[Node], Node]) -> Node | None:
        return replace(self, input=below(self.input))

    @property
    def details(self) -> str:
        return str(self.predicate)


@dataclass(frozen=True, eq=False)
class Projection(RowOperator):
    """What `Select` and `SelectMany` share: new columns, some of them columns of the input."""

    input: Node
    columns: Named

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return tuple(expr for _, expr in self.columns)

    @property
    def replaced_columns(self) -> frozenset[str]:
        """Input columns that the expressions see with other values than the input has."""
        return frozenset()

    def result_keys(self, *keys: Keys) -> Keys | None:
        carried = passed_on(self.columns).items()
        above = {old: new for new, old in carried if old not in self.replaced_columns}
        if not columns_of(*keys[0]) <= set(above):
            return None
        return tuple(expr.rename(above) for expr in keys[0])

    def lower_keys(self, keys: Keys) -> Keys | None:
        """The keys with each output column replaced by what computes it; None if an input column
        that is read has another meaning in the output."""
        expressions = dict(self.columns)
        lowered = tuple(substitute(expr, expressions) for expr in keys)
        below = set(self.input.schema.names) - self.replaced_columns
        return lowered if columns_of(*lowered) <= below else None

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        return {"columns": (*self.columns, *unchanged(keys))}

    @property
    def details(self) -> str:
        return show_columns(self.columns)


@dataclass(frozen=True, eq=False)
class Select(Projection):
    """R' = {(s, e, f(p, s))}."""

    reach = 0

    def __post_init__(self) -> None:
        schema = columns_schema(self.columns, lifetime_schema(self.input.schema))
        carried = passed_on(self.columns)
        keeps_all = set(self.input.schema.names) <= set(carried.values())
        before = self.input.properties
        # A start that is unique in its group says nothing once the group is gone.
        keeps_groups = all(carried.get(key) == key for key in before.group_keys)
        groups = before.group_keys if keeps_groups else ()
        self._settle(
            schema,
            before.but(
                unique_start=before.unique_start and keeps_groups,
                payload_start_key=keeps_groups
                and (before.unique_start or (before.payload_start_key and keeps_all)),
                group_ctis=before.group_ctis and bool(groups or keeps_all),
                group_keys=groups,
            ),
        )

    def columns_needed(self, above: frozenset[str] | None) -> frozenset[str]:
        return frozenset().union(*(expr.columns() for _, expr in self.columns))

    def carrying(self, columns: tuple[str, ...], below: Callable[[Node], Node]) -> Node | None:
        further = unchanged(columns)
        return replace(self, input=below(self.input), columns=(*self.columns, *further))

    @cached_property
    def progressing(self) -> frozenset[str]:
        """Columns that progress below; and what rises with `_start`, where ends do not move."""
        below = self.input.progressing
        kept = {n for n, expr in self.columns if isinstance(expr, Column) and expr.name in below}
        if self.input.properties.firm_ends:
            kept |= {
                name
                for name, expr in self.columns
                if START in expr.columns() and is_monotone_in_start(expr)
            }
        return frozenset(kept)


@dataclass(frozen=True, eq=False)
class SelectMany(Projection):
    """Each row becomes `repeat(p, s)` copies of (s, e, f(p, s)); or one per item of the list column
    `unnest`."""

    repeat: Expr | None = None
    unnest: str | None = None

    progressing = frozenset()

    def __post_init__(self) -> None:
        schema = lifetime_schema(self.input.schema)
        if (self.repeat is None) == (self.unnest is None):
            raise PlanError("select_many: give either repeat= or unnest=.")
        if self.repeat is not None and not pa.types.is_integer(self.repeat.type_in(schema)):
            raise TypeMismatchError(
                f"select_many: repeat must be a whole number; {self.repeat} is "
                f"{self.repeat.type_in(schema)}."
            )
        if self.unnest is not None:
            schema = self.unnested_schema()
        before = self.input.properties
        self._settle(
            columns_schema(self.columns, schema),
            before.but(unique_start=False, payload_start_key=False, group_ctis=False),
        )

    def update_stream(self, inputs: tuple[UpdateStream | None, ...]) -> UpdateStream | None:
        (found,) = inputs
        assert found is not None
        raise found.refusal(self.label, "a key would get several rows at one time")

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return (*super().expressions, *(() if self.repeat is None else (self.repeat,)))

    @property
    def replaced_columns(self) -> frozenset[str]:
        """The list column that is unnested: in the output its name stands for one item."""
        return frozenset() if self.unnest is None else frozenset({self.unnest})

    @property
    def details(self) -> str:
        copies = f"repeat {self.repeat}" if self.repeat is not None else f"unnest {self.unnest}"
        return f"{super().details} ({copies})"

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

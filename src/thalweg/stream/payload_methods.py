"""Methods of a stream that change its columns or choose its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from thalweg.expr import Column, ExprLike, as_expr, lit
from thalweg.plan import nodes
from thalweg.stream import streams
from thalweg.stream.arguments import refuse_list, require_column
from thalweg.stream.planned_stream import PlannedStream

if TYPE_CHECKING:
    from thalweg.stream.streams import Stream

__all__ = ["PayloadMethods"]


class PayloadMethods(PlannedStream):
    """Row by row: conditions, columns, copies."""

    __slots__ = ()

    def where(self, condition: ExprLike) -> Stream:
        """The rows for which the condition is true."""
        return streams.Stream(nodes.Where(self.node, self._read(condition)))

    def select(self, /, *names: str | Column, **columns: ExprLike) -> Stream:
        """Only these columns: existing ones by name, new ones as `name=expression`."""
        return streams.Stream(nodes.Select(self.node, self._columns("select", names, columns)))

    def with_columns(
        self, columns: Mapping[str, ExprLike] | None = None, /, **named: ExprLike
    ) -> Stream:
        """All columns, and new or replaced ones: `with_columns(new="expression")`, or the same as a
        mapping."""
        found = {name: Column(name) for name in self.schema.names} | {
            name: self._read(value) for name, value in {**(columns or {}), **named}.items()
        }
        return streams.Stream(nodes.Select(self.node, tuple(found.items())))

    def drop(self, *names: str) -> Stream:
        """All columns but these."""
        for name in names:
            refuse_list(name, "drop")
            require_column(name, self.schema, "drop")
        return self.select(*(name for name in self.schema.names if name not in names))

    def rename(self, names: Mapping[str, str] | None = None, /, **named: str) -> Stream:
        """`rename(old="new")`, or the same as a mapping."""
        names = {**(names or {}), **named}
        for old in names:
            require_column(old, self.schema, "rename")
        return streams.Stream(
            nodes.Select(
                self.node,
                tuple((names.get(name, name), Column(name)) for name in self.schema.names),
            )
        )

    def select_many(
        self,
        *names: str | Column,
        repeat: ExprLike | int | None = None,
        unnest: str | None = None,
        **columns: ExprLike,
    ) -> Stream:
        """Several rows for each: `repeat` copies, or one for each item of the list column `unnest`.
        All columns by default."""
        chosen = self._columns(
            "select_many", names or (() if columns else tuple(self.schema.names)), columns
        )
        times = (
            lit(repeat) if isinstance(repeat, int) else None if repeat is None else as_expr(repeat)
        )
        return streams.Stream(nodes.SelectMany(self.node, chosen, times, unnest))

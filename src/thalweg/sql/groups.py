"""Expressions over groups: keys, aggregates, the window, and what is computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from thalweg.errors import PlanError
from thalweg.expr import Column, Expr, Literal
from thalweg.plan import aggregates
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.nodes import lifetime_schema
from thalweg.sql.aggregates import arity_of, build_call, is_aggregate
from thalweg.sql.distinct import DISTINCT, DistinctCall
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.modules import ModuleCall, read_module
from thalweg.sql.relations import WINDOW_END, WINDOW_START, Field, Relation, free_name
from thalweg.udm import DEFAULT

__all__ = ["GroupReader", "Key"]


@dataclass(frozen=True, slots=True)
class Key:
    """What a query groups by: its place in the tree, the column it is (if it is one), and what it
    is called in the result."""

    node: exp.Expr
    field: Field | None
    result: Expr


class GroupReader(RowReader):
    """Expressions over groups: keys, aggregates, and what is computed from them."""

    def __init__(
        self, context: Context, relation: Relation, keys: list[Key], names: Mapping[str, Expr]
    ) -> None:
        super().__init__(context, relation)
        self.keys = keys
        self.names = names
        """Columns of a group besides its keys: the start and the end of its window."""
        self.calls: dict[str, AggregateCall] = {}
        self.modules: dict[str, ModuleCall] = {}
        self.distincts: dict[str, DistinctCall] = {}
        self.window_call: exp.Expr | None = None
        """The window function in GROUP BY."""
        self.preferred_name = ""
        """The alias that the query gives to the next aggregate; empty: none."""

    def convert(self, node: exp.Expr) -> Expr:
        if is_aggregate(node):
            return self.aggregate(node)
        edge = self.edge(node)
        if edge is not None:
            return edge
        for key in self.keys:
            if not isinstance(key.node, exp.Column) and key.node == node:
                return key.result
        return super().convert(node)

    def edge(self, node: exp.Expr) -> Expr | None:
        """An edge of the window: TUMBLE_START(ts, ...) and similar functions, Spark's
        window.start."""
        if isinstance(node, exp.Column) and node.text("table") == "window":
            return self.names.get(f"window_{node.name}")
        if not isinstance(node, exp.Anonymous) or not isinstance(node.this, str):
            return None
        function, _, edge = node.this.lower().rpartition("_")
        if edge not in ("start", "end", "rowtime") or function not in ("tumble", "hop", "session"):
            return None
        called = self.window_call
        if node.expressions and called is not None and node.expressions != called.expressions:
            self.source.refuse_node(
                node,
                f"{node.this} says other windows than GROUP BY {self.source.written(called)}; write"
                " the same arguments.",
            )
        name = WINDOW_START if edge == "start" else WINDOW_END
        if name not in self.names:
            self.source.refuse_node(node, f"these windows have no {name}.")
        return self.names[name]

    def column(self, node: exp.Expr) -> Expr:
        name = node.this.this
        if not node.args.get("table") and name in self.names and not self.relation.find(name):
            return self.names[name]
        text = self.quoted_text(node)
        if text is not None:
            return Literal(text)
        found = self.relation.resolve(self.source, node)
        grouped = [
            key.result
            for key in self.keys
            if key.field is not None and key.field.value.same(found.value)
        ]
        if not node.args.get("table") and name in self.names:
            grouped.append(self.names[name])
        if not grouped:
            self.source.refuse_node(
                node,
                f"{name!r} is neither grouped nor aggregated; put it into GROUP BY, or say "
                f"last({name}).",
            )
        return grouped[0]

    def aggregate(self, node: exp.Expr) -> Expr:
        condition = None
        call = node
        rows = RowReader(self.context, self.relation)
        if isinstance(node, exp.Filter):
            condition, call = rows.convert(node.expression.this), node.this
        name = call.this.lower()
        arity = arity_of(name)
        if arity is None:
            return self.module(call, rows, filtered=condition is not None)
        args = call.expressions
        if name == "count" and (not args or isinstance(args[0], exp.Star)) and len(args) <= 1:
            return self.named(name, aggregates.count(where=condition))
        if args and isinstance(args[0], exp.Distinct):
            return self.distinct(call, name, args[0].expressions, rows, condition)
        if len(args) != arity:
            self.source.refuse_node(
                call, f"{name} takes {arity} argument{'s' if arity > 1 else ''}; got {len(args)}."
            )
        values = [rows.convert(arg) for arg in args]
        with self.source.at(call):
            aggregate_call = build_call(name, values, condition)
            aggregate_call.type_in(lifetime_schema(self.relation.stream.schema))
            return self.named(name, aggregate_call)

    def distinct(
        self,
        node: exp.Expr,
        name: str,
        args: list[exp.Expr],
        rows: RowReader,
        condition: Expr | None,
    ) -> Expr:
        """count(DISTINCT x), sum(DISTINCT x) and so on."""
        if len(args) != 1:
            self.source.refuse_node(node, f"{name}(DISTINCT ...) takes one value; got {len(args)}.")
        value = rows.convert(args[0])
        with self.source.at(node):
            plain = build_call(name, [value], condition) if arity_of(name) == 1 else None
            if plain is not None and plain.aggregate.ignores_repeats:
                plain.type_in(lifetime_schema(self.relation.stream.schema))
                return self.named(name, plain)
            if name not in DISTINCT:
                raise PlanError(
                    f"{name}(DISTINCT ...) is not known here; there are {', '.join(DISTINCT)}, min "
                    "and max."
                )
            call = DistinctCall(name, value, condition)
            call.plain().type_in(lifetime_schema(self.relation.stream.schema))
            return self.named(name, call)

    def module(self, node: exp.Expr, rows: RowReader, *, filtered: bool) -> Expr:
        """An aggregate of a user's own."""
        with self.source.at(node):
            found = DEFAULT.find(node.this)
        if filtered:
            self.source.refuse_node(
                node,
                f"{node.this} takes no FILTER; say which rows in WHERE, or null for the others in "
                "its argument.",
            )
        return self.named(found.short_name, read_module(rows, found, node))

    def named(self, name: str, call: AggregateCall | ModuleCall | DistinctCall) -> Expr:
        """The column of an aggregate; equal aggregates share one column."""
        earlier_calls: dict[str, AggregateCall | ModuleCall | DistinctCall] = {
            **self.calls,
            **self.modules,
            **self.distincts,
        }
        for column, other in earlier_calls.items():
            if str(other) == str(call):
                return Column(column)
        keys = (str(key.result) for key in self.keys)
        column = free_name(self.preferred_name or name, {*keys, *earlier_calls})
        if isinstance(call, ModuleCall):
            self.modules[column] = call
        elif isinstance(call, DistinctCall):
            self.distincts[column] = call
        else:
            self.calls[column] = call
        return Column(column)

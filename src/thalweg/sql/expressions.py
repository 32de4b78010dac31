"""Expressions of a query: over the rows of a relation, and over its groups.

They are read by the reader of the expression language; what a query adds is columns by the names of its relation, the
parameters of the query, INTERVAL as a number of ticks, and aggregates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from thalweg.errors import PlanError, did_you_mean
from thalweg.expr import Column, Expr, Literal
from thalweg.expr.sql import ExpressionReader
from thalweg.model.time import duration_us
from thalweg.plan import aggregates
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.nodes import lifetime_schema
from thalweg.sql.relations import Field, Relation
from thalweg.sql.syntax import Amount, Place, Windowed
from thalweg.sql.text import SqlText

__all__ = ["AGGREGATES", "Context", "GroupReader", "RowReader", "conjuncts", "is_aggregate", "ticks"]

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Context:
    """What a query is read against."""

    text: SqlText
    relations: Mapping[str, Relation]
    parameters: Mapping[str, object] = field(default_factory=dict)

    def parameter(self, name: str, place: Place) -> object:
        if name not in self.parameters:
            known = ", ".join(self.parameters) or "none"
            hint = did_you_mean(name, self.parameters)
            self.text.refuse_place(place, f"unknown parameter {name!r}{hint} Give it a value in parameters=. Known: {known}.")
        return self.parameters[name]


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND combines."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        inner = conjuncts(node.this)
        return inner if len(inner) > 1 else [node]
    return [*conjuncts(node.this), *conjuncts(node.expression)] if isinstance(node, exp.And) else [node]


def ticks(context: Context, amount: Amount) -> int:
    """A duration in ticks; a number without a unit is taken as it is."""
    value: object = context.parameter(amount.parameter, amount.place) if amount.parameter else str(amount)
    with context.text.at(amount.place):
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        return duration_us(value, what="a window")  # type: ignore[arg-type]  # refuses what is none


class RowReader(ExpressionReader):
    """Expressions over single rows of a relation."""

    source: SqlText

    def __init__(self, context: Context, relation: Relation) -> None:
        super().__init__(context.text)
        self.context, self.relation = context, relation

    def convert(self, node: exp.Expr) -> Expr:
        if isinstance(node, exp.Column):
            return self.column(node)
        if isinstance(node, exp.Placeholder):
            return self.parameter(node)
        if isinstance(node, exp.Interval):
            return self.interval(node)
        if isinstance(node, exp.Window):
            self.source.refuse_node(node, "OVER is not part of this dialect; a window stands in brackets: [RANGE ..., SLIDE ..., WA ts].")
        if isinstance(node, (Windowed, exp.Select, exp.Subquery)):
            self.source.refuse_node(node, "a window or a query has no place inside this expression.")
        if is_aggregate(node):
            self.source.refuse_node(node, f"{self.source.said(node)}: an aggregate has no place here; it stands in SELECT or HAVING.")
        with self.source.at(node):
            return super().convert(node)

    def column(self, node: exp.Expr) -> Expr:
        text = self.quoted_text(node)
        return Literal(text) if text is not None else self.relation.resolve(self.source, node).value

    def quoted_text(self, node: exp.Expr) -> str | None:
        """Text between double quotes, as the literature writes constants: where it cannot be the name of a column."""
        if node.args.get("table") or not node.this.args.get("quoted"):
            return None
        name = node.this.this
        names = self.relation.names()
        if self.relation.find(name) or _PLAIN_NAME.fullmatch(name) or did_you_mean(name, names) != ".":
            return None
        return str(name)

    def parameter(self, node: exp.Expr) -> Expr:
        name = node.this
        place = self.source.place(node.parent or node)
        if not isinstance(name, str) or not name:
            self.source.refuse_place(place, "a parameter has a name, such as :n.")
        with self.source.at(place):
            return Literal(self.context.parameter(name, place))

    def interval(self, node: exp.Expr) -> Expr:
        return Literal(self.interval_ticks(node))

    def interval_ticks(self, node: exp.Expr) -> int:
        """INTERVAL '10' MINUTES, as ticks."""
        unit = node.args.get("unit")
        said = f"{node.this.name} {unit.name if unit is not None else ''}".strip()
        with self.source.at(node if self.source.place(node).end else node.parent or node):
            return duration_us(said, what="INTERVAL")

    def condition(self, node: exp.Expr) -> Expr:
        return self.convert(node)


# ------------------------------------------------------------------------------------------------------- aggregates

Builder = Callable[..., AggregateCall]


def _percentile(of: Expr, p: Expr, *, where: Expr | None = None, discrete: bool = False) -> AggregateCall:
    if not isinstance(p, Literal) or not isinstance(p.value, (int, float)):
        raise PlanError("the fraction of a percentile is a number between 0 and 1: percentile(x, 0.95).")
    return aggregates.percentile(of, float(p.value), discrete=discrete, where=where)


def _discrete(of: Expr, p: Expr, *, where: Expr | None = None) -> AggregateCall:
    return _percentile(of, p, where=where, discrete=True)


def _arg_max(of: Expr, by: Expr, *, where: Expr | None = None) -> AggregateCall:
    return aggregates.arg_max(of, by=by, where=where)


def _arg_min(of: Expr, by: Expr, *, where: Expr | None = None) -> AggregateCall:
    return aggregates.arg_min(of, by=by, where=where)


def _median(of: Expr, *, where: Expr | None = None) -> AggregateCall:
    return aggregates.percentile(of, 0.5, where=where)


AGGREGATES: dict[str, tuple[Builder, int]] = {
    "count": (aggregates.count, 1),
    "sum": (aggregates.sum_, 1),
    "avg": (aggregates.avg, 1),
    "mean": (aggregates.avg, 1),
    "min": (aggregates.min_, 1),
    "max": (aggregates.max_, 1),
    "variance": (aggregates.variance, 1),
    "var_samp": (aggregates.variance, 1),
    "stddev": (aggregates.stddev, 1),
    "stddev_samp": (aggregates.stddev, 1),
    "median": (_median, 1),
    "percentile": (_percentile, 2),
    "percentile_cont": (_percentile, 2),
    "percentile_disc": (_discrete, 2),
    "first": (aggregates.first, 1),
    "first_value": (aggregates.first, 1),
    "last": (aggregates.last, 1),
    "last_value": (aggregates.last, 1),
    "arg_max": (_arg_max, 2),
    "max_by": (_arg_max, 2),
    "arg_min": (_arg_min, 2),
    "min_by": (_arg_min, 2),
}
"""By SQL name: what makes the aggregate, and how many arguments it takes."""


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node of the tree is an aggregate, perhaps with a FILTER."""
    call = node.this if isinstance(node, exp.Filter) else node
    return isinstance(call, exp.Anonymous) and isinstance(call.this, str) and call.this.lower() in AGGREGATES


@dataclass(frozen=True, slots=True)
class Key:
    """What a query groups by: its place in the tree, the column it is (if it is one), and what it is called in the result."""

    node: exp.Expr
    field: Field | None
    result: Expr


class GroupReader(RowReader):
    """Expressions over groups: keys, aggregates, and what is computed from them."""

    def __init__(self, context: Context, relation: Relation, keys: list[Key], names: Mapping[str, Expr]) -> None:
        super().__init__(context, relation)
        self.keys = keys
        self.names = names
        """What may be said of a group besides its keys: the start and the end of its window."""
        self.calls: dict[str, AggregateCall] = {}
        self.wanted = ""
        """What the next aggregate would be called by the author of the query."""

    def convert(self, node: exp.Expr) -> Expr:
        if is_aggregate(node):
            return self.aggregate(node)
        for key in self.keys:
            if not isinstance(key.node, exp.Column) and key.node == node:
                return key.result
        return super().convert(node)

    def column(self, node: exp.Expr) -> Expr:
        name = node.this.this
        if not node.args.get("table") and name in self.names and not self.relation.find(name):
            return self.names[name]
        text = self.quoted_text(node)
        if text is not None:
            return Literal(text)
        found = self.relation.resolve(self.source, node)
        grouped = [key.result for key in self.keys if key.field is not None and key.field.value.same(found.value)]
        if not node.args.get("table") and name in self.names:
            grouped.append(self.names[name])
        if not grouped:
            self.source.refuse_node(node, f"{name!r} is neither grouped nor aggregated; put it into GROUP BY, or say last({name}).")
        return grouped[0]

    def aggregate(self, node: exp.Expr) -> Expr:
        condition = None
        call = node
        rows = RowReader(self.context, self.relation)
        if isinstance(node, exp.Filter):
            condition, call = rows.convert(node.expression.this), node.this
        name = call.this.lower()
        build, arity = AGGREGATES[name]
        args = call.expressions
        if name == "count" and (not args or isinstance(args[0], exp.Star)) and len(args) <= 1:
            return self.named(name, aggregates.count(where=condition))
        if args and isinstance(args[0], exp.Distinct):
            self.source.refuse_node(call, f"{name}(DISTINCT ...) is not an aggregate here; use SELECT DISTINCT in a subquery.")
        if len(args) != arity:
            self.source.refuse_node(call, f"{name} takes {arity} argument{'s' if arity > 1 else ''}; got {len(args)}.")
        values = [rows.convert(arg) for arg in args]
        with self.source.at(call):
            made = build(*values, where=condition)
            made.type_in(lifetime_schema(self.relation.stream.schema))
            return self.named(name, made)

    def named(self, name: str, call: AggregateCall) -> Expr:
        for known, other in self.calls.items():
            if str(other) == str(call):
                return Column(known)
        taken = {"fill", "wid", *(str(key.result) for key in self.keys), *self.calls}  # arguments of aggregate
        base = self.wanted if self.wanted and self.wanted not in taken else name
        number, candidate = 1, base
        while candidate in taken:
            number += 1
            candidate = f"{base}_{number}"
        self.calls[candidate] = call
        return Column(candidate)

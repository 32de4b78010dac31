"""Expressions of a query over the rows of a relation.

They are read by the reader of the expression language; what a query adds is columns by the names of
its relation and the parameters of the query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.expr import Call, Expr, Literal
from thalweg.expr.reader import ExpressionReader, interval_text
from thalweg.model.time import duration_us, time_us
from thalweg.sql.aggregates import is_aggregate
from thalweg.sql.relations import Relation
from thalweg.sql.syntax import Amount, Place, Windowed
from thalweg.sql.text import SqlText

__all__ = ["Context", "RowReader", "conjuncts", "ticks"]

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Context:
    """What a query is read against."""

    text: SqlText
    relations: Mapping[str, Relation]
    parameters: Mapping[str, object] = field(default_factory=dict)

    def parameter(self, name: str, place: Place) -> object:
        if name not in self.parameters:
            parameter_names = ", ".join(self.parameters) or "none"
            hint = did_you_mean(name, self.parameters)
            self.text.refuse_place(
                place,
                f"unknown parameter {name!r}{hint} Give it a value in parameters=. Known: "
                f"{parameter_names}.",
            )
        return self.parameters[name]


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND combines."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        inner = conjuncts(node.this)
        return inner if len(inner) > 1 else [node]
    return (
        [*conjuncts(node.this), *conjuncts(node.expression)]
        if isinstance(node, exp.And)
        else [node]
    )


def ticks(context: Context, amount: Amount) -> int:
    """A duration in ticks; a number without a unit counts ticks."""
    value: object = (
        context.parameter(amount.parameter, amount.place) if amount.parameter else str(amount)
    )
    with context.text.at(amount.place):
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        return duration_us(value, what="a window")  # type: ignore[arg-type]  # refuses other types


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
        if isinstance(node, exp.Window):
            self.source.refuse_node(
                node,
                "OVER is not part of this dialect; a window stands in brackets: [RANGE ..., SLIDE "
                "..., WA ts].",
            )
        if isinstance(node, (Windowed, exp.Select, exp.Subquery)):
            self.source.refuse_node(
                node, "a window or a query has no place inside this expression."
            )
        if isinstance(node, exp.Anonymous) and str(node.this).lower() == "ticks":
            return self.moment(node)
        if is_aggregate(node):
            self.source.refuse_node(
                node,
                f"{self.source.written(node)}: an aggregate has no place here; it stands in SELECT "
                "or HAVING.",
            )
        with self.source.at(node):
            return super().convert(node)

    def column(self, node: exp.Expr) -> Expr:
        text = self.quoted_text(node)
        if text is not None:
            return Literal(text)
        inside = self.inside(node)
        if inside is not None:
            return inside
        return self.relation.read(self.relation.resolve(self.source, node))

    def inside(self, node: exp.Expr) -> Expr | None:
        """`payload.user.id`: a field of a struct, where the first name is a column and no
        stream."""
        qualified = [node.args.get(level) for level in ("catalog", "db", "table", "this")]
        parts = [part for part in qualified if part is not None]
        column = parts[0].name
        if len(parts) == 1 or not isinstance(node.this, exp.Identifier):
            return None
        if column in self.relation.tables:
            if len(parts) == 2:
                return None
            column, table, rest = parts[1].name, column, parts[2:]
        else:
            table, rest = "", parts[1:]
        if not self.relation.find(column, table):
            return None
        first = exp.Column(this=parts[-len(rest) - 1].copy())
        if table:
            first.set("table", parts[0].copy())
        value = self.convert(first)
        for part in rest:
            value = Call("field", (value, Literal(part.name)))
        return value

    def quoted_text(self, node: exp.Expr) -> str | None:
        """Text between double quotes, as the literature writes constants: where it cannot be the
        name of a column."""
        if node.args.get("table") or not node.this.args.get("quoted"):
            return None
        name = node.this.this
        names = self.relation.names()
        if (
            self.relation.find(name)
            or _PLAIN_NAME.fullmatch(name)
            or did_you_mean(name, names) != "."
        ):
            return None
        return str(name)

    def parameter(self, node: exp.Expr) -> Expr:
        name = node.this
        place = self.source.place(node.parent or node)
        if not isinstance(name, str) or not name:
            self.source.refuse_place(place, "a parameter has a name, such as :n.")
        with self.source.at(place):
            return Literal(self.context.parameter(name, place))

    def moment(self, node: exp.Expr) -> Expr:
        """ticks('2026-01-31 12:00'): a date as the clock counts it."""
        literal = node.expressions[0] if len(node.expressions) == 1 else None
        if not isinstance(literal, exp.Literal) or not literal.is_string:
            self.source.refuse_node(node, "ticks takes a date as text: ticks('2026-01-31 12:00').")
        try:
            ticks = Literal(time_us(datetime.fromisoformat(literal.name)))
            return self.relation.clocked(ticks)
        except ValueError:
            self.source.refuse_node(
                literal,
                f"{literal.name!r} is no date; write it as '2026-01-31 12:00:00', with a zone if it"
                " is not UTC.",
            )

    def interval_ticks(self, node: exp.Expr) -> int:
        """INTERVAL '10' MINUTES, as ticks."""
        with self.source.at(node if self.source.place(node).end else node.parent or node):
            return duration_us(interval_text(node), what="INTERVAL")

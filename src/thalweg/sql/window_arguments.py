"""The arguments of one window function: by name, and as columns, durations and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.expr import Column, Literal
from thalweg.model.time import duration_us
from thalweg.plan.expressions import START
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.relations import Relation

__all__ = ["WindowArguments"]


@dataclass(frozen=True, slots=True)
class WindowArguments:
    """Reads the arguments of a call, and refuses them at their place in the text."""

    context: Context
    relation: Relation
    node: exp.Expr
    """The call."""
    name: str
    """The function as the query writes it."""
    partition: tuple[str, ...] = ()
    """The columns of PARTITION BY."""

    def named(
        self,
        known: tuple[str, ...],
        required: int,
        values: Sequence[exp.Expr],
        names: Sequence[str],
    ) -> dict[str, exp.Expr]:
        """By name: the values of a call, given in order or by name; the first ones are required."""
        arguments: dict[str, exp.Expr] = {}
        free = iter(known)
        for value, argument in zip(values, names, strict=True):
            name = argument or next(free, "")
            if name not in known:
                reason = (
                    f"has no argument {argument!r}{did_you_mean(argument, known)}"
                    if argument
                    else f"takes {len(known)} at most."
                )
                self.context.text.refuse_node(
                    value, f"{self.name} {reason} Arguments: {', '.join(known)}."
                )
            arguments[name] = value
        missing = [name for name in known[:required] if name not in arguments]
        if missing:
            self.context.text.refuse_node(
                self.node,
                f"{self.name}: {missing[0]} is missing. Arguments: {', '.join(known)}.",
            )
        return arguments

    def time(self, node: exp.Expr) -> Column | None:
        """The column with the time; None for the start of the rows."""
        if not isinstance(node, exp.Column):
            self.context.text.refuse_node(
                node, f"{self.name}: the column with the time is expected."
            )
        field = self.relation.resolve(self.context.text, node)
        if not self.relation.progresses(field):
            times = dict.fromkeys(field.name for field in self.relation.fields if field.is_time)
            self.context.text.refuse_node(
                node,
                f"{field.name} does not progress: it is an ordinary column. The time of the rows is"
                f" called {' or '.join(times)} here.",
            )
        return field.value if not field.is_time and isinstance(field.value, Column) else None

    def column(self, node: exp.Expr) -> str:
        """A column of PARTITION BY."""
        value = self.relation.resolve(self.context.text, node).value
        if not isinstance(value, Column) or value.name == START:
            self.context.text.refuse_node(node, "PARTITION BY takes ordinary columns.")
        return value.name

    def duration(self, node: exp.Expr, *, any_sign: bool = False) -> int:
        """A duration in ticks."""
        reader = RowReader(self.context, self.relation)
        value = (
            reader.interval_ticks(node)
            if isinstance(node, exp.Interval)
            else self._constant(reader, node)
        )
        if value <= 0 and not any_sign:
            self.context.text.refuse_node(
                self.node, f"{self.name}: a duration must be positive; got {value}."
            )
        return value

    def _constant(self, reader: RowReader, node: exp.Expr) -> int:
        if not isinstance(node, (exp.Literal, exp.Placeholder, exp.Neg)):
            self.context.text.refuse_node(
                node,
                f"{self.name}: a duration is a constant, such as INTERVAL '10' MINUTES or '10 "
                "minutes'.",
            )
        expr = reader.convert(node)
        assert isinstance(expr, Literal)
        with self.context.text.at(node):
            return duration_us(expr.value, what=self.name)  # type: ignore[arg-type]

    def number(self, node: exp.Expr) -> int:
        """A number of rows."""
        value = (
            RowReader(self.context, self.relation).convert(node)
            if isinstance(node, (exp.Literal, exp.Placeholder))
            else None
        )
        if not isinstance(value, Literal) or not isinstance(value.value, int) or value.value < 1:
            self.context.text.refuse_node(node, "COUNT takes whole numbers of rows, at least one.")
        return value.value

    def own_zone(self) -> str:
        """The zone of the stream's times."""
        clock = self.relation.clock
        return "UTC" if clock is None or clock.tz is None else str(clock.tz)

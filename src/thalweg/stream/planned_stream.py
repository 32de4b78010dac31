"""A stream as a plan: its node, schema and properties, how it is shown and drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import pyarrow as pa

from thalweg.errors import PlanError, UnknownColumnError
from thalweg.expr import Column, Expr, ExprLike, as_expr
from thalweg.model.type_names import shown_columns
from thalweg.plan.clock import refuse_time_column, resolve_expression
from thalweg.plan.drawing import mermaid
from thalweg.plan.explain import explain
from thalweg.plan.nodes import Named, Node
from thalweg.plan.other_names import unknown_method
from thalweg.plan.properties import StreamProperties
from thalweg.plan.update_streams import check_update_rules
from thalweg.stream.arguments import refuse_list

__all__ = ["PlannedStream", "draws_streams"]


_Picture = TypeVar("_Picture")
_PLOT: list[Callable[..., Any]] = []
"""The function that draws a query. It runs the query, so it lives above the fluent API, and
registers itself here."""


def draws_streams(draw: Callable[..., _Picture]) -> Callable[..., _Picture]:
    """Make a function of a higher package the one that `Stream.plot` calls."""
    _PLOT[:] = [draw]
    return draw


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlannedStream:
    """What every method of a stream needs: the logical node."""

    node: Node

    def __post_init__(self) -> None:
        check_update_rules(self.node)

    @property
    def schema(self) -> pa.Schema:
        return self.node.schema

    @property
    def properties(self) -> StreamProperties:
        return self.node.properties

    def __repr__(self) -> str:
        return f"<Stream {self.node.label} ({shown_columns(self.schema)})>"

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown_method(self, name)

    def explain(self, *, consistency: str | None = None, format: str = "text") -> str:  # noqa: A002
        """The plan, what is known about each stream in it, and what the rewrite rules make of it;
        with `format="mermaid"`, the plan as a flow chart."""
        if format not in ("text", "mermaid"):
            raise PlanError(f"explain: format is 'text' or 'mermaid'; got {format!r}.")
        if format == "mermaid":
            return mermaid(self.node)
        return explain(self.node, consistency=consistency)

    def plot(
        self, inputs: Mapping[str, Any] | None = None, *, consistency: str = "speculative"
    ) -> Any:
        """The query over a little input as a timeline: lifetimes, windows, promises, answers that
        were taken back. A notebook shows the picture; `.save("picture.svg")` keeps it. Inputs are
        those of `tw.table`. Needs `thalweg[plot]`."""
        return _PLOT[0](self, inputs, consistency=consistency)

    def _repr_html_(self) -> str:
        columns = "".join(f"<tr><td>{e.name}</td><td>{e.type}</td></tr>" for e in self.schema)
        return f"<table><caption>Stream: {self.node.label}</caption>{columns}</table>"

    def _columns(
        self, what: str, names: Iterable[str | Column], columns: Mapping[str, ExprLike]
    ) -> Named:
        kept: list[Any] = [name.name if isinstance(name, Column) else name for name in names]
        for name in kept:
            if name not in self.schema.names:
                refuse_list(name, what)
                if isinstance(name, str) and name.isidentifier():
                    refuse_time_column(name, self.node, what)
                    raise UnknownColumnError(name, self.schema.names, what)
                raise PlanError(
                    f"{what}: {name!r} is not a column. What is computed needs a name: "
                    f"{what}(name={_as_written(name)})."
                )
        return (
            *((name, Column(name)) for name in kept),
            *((name, self._read(value)) for name, value in columns.items()),
        )

    def _read(self, value: ExprLike) -> Expr:
        """An expression over the rows of this stream, as its user means it."""
        found = resolve_expression(as_expr(value), self.node)
        if isinstance(value, str):
            self._refuse_quoted_text(found, value)
        return found

    def _refuse_quoted_text(self, expr: Expr, text: str) -> None:
        """Refuse a name between double quotes that is no column: it is meant as text."""
        names = [*self.schema.names, "_start", "_end"]
        for name in sorted(expr.columns() - {*names}):
            if f'"{name}"' in text:
                hint = f"Text stands between single quotes: {_quoted(name)}."
                raise UnknownColumnError(name, names, f"in {text}", hint=hint)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _as_written(value: object) -> str:
    """How a user would write what is computed: a function of Python has no place there."""
    return "'SQL text'" if callable(value) else repr(value)

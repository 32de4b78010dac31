"""The columns of a stream as a query names them, and among them its time.

The time of a row (the start of its lifetime) is a column of a relation like any other. Its name is
the one under which the source read it (`from_files(time="ts")`), or the one the query's author
says; it is called `_start` too. A column that holds the time is marked, because only such a column
can define a window: it is the one that progresses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain, count

import pyarrow as pa
from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.expr import Cast, Column, Expr
from thalweg.model.clocks import Clock
from thalweg.plan.clock import clock_of, time_columns
from thalweg.plan.expressions import START
from thalweg.plan.nodes import Select, lifetime_schema
from thalweg.sql.assigned import AssignedWindow
from thalweg.sql.text import SqlText
from thalweg.stream import Stream

__all__ = [
    "WINDOW_END",
    "WINDOW_START",
    "Field",
    "Relation",
    "base_relation",
    "free_name",
    "time_name",
    "unique_names",
]


WINDOW_START, WINDOW_END = "window_start", "window_end"
"""The columns with the edges of a window, as functions add them."""


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One column: which name it goes by, and what it is in the rows of the stream."""

    name: str
    value: Expr
    table: str = ""
    is_time: bool = False
    shown: bool = True
    """Whether `*` names it."""
    is_ticks: bool = False
    """Whether its value is a time in ticks, though not the time of the rows."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream, and the names of what is in it."""

    stream: Stream
    fields: tuple[Field, ...]
    window: AssignedWindow | None = None
    """The window that a table function gave to its rows."""
    determine_start: tuple[str, ...] = ()
    """Columns of the stream that together determine the start of a row: the times of the two sides
    of a join."""

    @property
    def clock(self) -> Clock:
        """The type in which the query sees times."""
        return clock_of(self.stream.node)

    def clocked(self, value: Expr) -> Expr:
        """A time in ticks, as the clock shows it."""
        clock = self.clock
        return value if clock is None else Cast(value, clock)

    def read(self, field: Field) -> Expr:
        """What a column is in an expression."""
        return self.clocked(field.value) if field.is_time or field.is_ticks else field.value

    def in_ticks(self, value: Expr) -> tuple[Expr, bool]:
        """A value as a subquery keeps it, and whether it is a time in ticks. A time stays in ticks,
        so that promises about it still hold."""
        if not isinstance(value, Cast) or self.clock is None or value.type != self.clock:
            return value, False
        ticks = value.expr.type_in(lifetime_schema(self.stream.schema)) == pa.int64()
        return (value.expr, True) if ticks else (value, False)

    def shown(self) -> Relation:
        """The relation with its times as the clock shows them, for the user of the query."""
        clock = self.clock
        times = {
            field.value.name
            for field in self.fields
            if field.shown and (field.is_time or field.is_ticks) and isinstance(field.value, Column)
        }
        columns = tuple(
            (
                (entry.name, Cast(Column(entry.name), clock))
                if entry.name in times and clock is not None and entry.type == pa.int64()
                else (entry.name, Column(entry.name))
            )
            for entry in self.stream.schema
        )
        if all(isinstance(value, Column) for _, value in columns):
            return self
        fields = tuple(replace(field, is_ticks=False) for field in self.fields)
        return replace(self, stream=Stream(Select(self.stream.node, columns)), fields=fields)

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(field.table for field in self.fields if field.table))

    def called(self, table: str) -> Relation:
        """The relation with all its columns under one table name."""
        return replace(self, fields=tuple(replace(field, table=table) for field in self.fields))

    def find(self, name: str, table: str = "") -> list[Field]:
        found = [
            field
            for field in self.fields
            if field.name == name and (not table or field.table == table)
        ]
        return found if len({field.value.key() for field in found}) > 1 else found[:1]

    def resolve(self, text: SqlText, node: exp.Expr) -> Field:
        """The column that a name stands for."""
        name, table = node.this.this, node.text("table")
        if not isinstance(name, str):
            text.refuse_node(
                node, f"{text.written(node)} names several columns; it stands alone in SELECT."
            )
        if node.args.get("db"):
            text.refuse_node(
                node,
                f"{text.written(node)}: a column has at most one name in front of it, that of its "
                "stream.",
            )
        if table and table not in self.tables:
            text.refuse_node(
                node,
                f"unknown stream {table!r}{did_you_mean(table, self.tables)} Streams here: "
                f"{_listed(self.tables)}.",
            )
        found = self.find(name, table)
        if len(found) > 1:
            choices = ", ".join(f"{field.table}.{name}" for field in found)
            text.refuse_node(
                node, f"{name!r} is a column of several streams; write one of {choices}."
            )
        if not found:
            names = self.names(table)
            meant = name.replace("'", "''")
            hint = (
                ""
                if table or not node.this.args.get("quoted")
                else (f" Text stands between single quotes: '{meant}'.")
            )
            text.refuse_node(
                node,
                f"unknown column {name!r}{did_you_mean(name, names)} Columns here: "
                f"{_listed(names)}.{hint}",
            )
        return found[0]

    def progresses(self, field: Field) -> bool:
        """Whether a column is the time of the rows, or one over which the plan makes promises."""
        return field.is_time or (
            isinstance(field.value, Column) and field.value.name in self.stream.node.progressing
        )

    def names(self, table: str = "") -> list[str]:
        return list(
            dict.fromkeys(
                field.name
                for field in self.fields
                if field.shown and (not table or field.table == table)
            )
        )


def base_relation(name: str, stream: Stream, time: str) -> Relation:
    """A stream by itself: its columns, then its time."""
    fields = [Field(column, Column(column), name) for column in stream.schema.names]
    if time not in stream.schema.names and time != START:
        fields.append(Field(time, Column(START), name, is_time=True))
    fields.append(Field(START, Column(START), name, is_time=True, shown=False))
    return Relation(stream, tuple(fields))


def time_name(stream: Stream, otherwise: str) -> str:
    """The name of the time column if all sources of a stream use the same, else `otherwise`."""
    names = time_columns(stream.node)
    return min(names) if len(names) == 1 else otherwise


def unique_names(columns: Iterable[tuple[str, str]]) -> list[str]:
    """A name for each column of (table, name): its own, with its table where several are called
    alike, numbered if need be.

    >>> unique_names([("a", "src"), ("b", "src"), ("", "count"), ("", "count"), ("b", "len")])
    ['a_src', 'b_src', 'count', 'count_2', 'len']
    """
    pairs = list(columns)
    names = [name for _, name in pairs]
    result: list[str] = []
    for table, name in pairs:
        ambiguous = table and names.count(name) > 1
        result.append(free_name(f"{table}_{name}" if ambiguous else name, result))
    return result


def free_name(name: str, names: Collection[str]) -> str:
    """The name, numbered if it is in use.

    >>> free_name("n", ["n", "n_2"])
    'n_3'
    """
    numbered = (f"{name}_{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in names)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"

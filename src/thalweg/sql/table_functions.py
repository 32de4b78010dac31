"""Windows as functions, as in Flink and Spark.

In FROM, with the columns `window_start` and `window_end` added:

    TUMBLE(TABLE s, DESCRIPTOR(ts), size [, offset])
    HOP(TABLE s, DESCRIPTOR(ts), slide, size [, offset])
    CALENDAR(TABLE s, DESCRIPTOR(ts), 'month' [, 'Europe/Berlin'])  periods of a calendar
    CUMULATE(TABLE s, DESCRIPTOR(ts), step, size [, offset])        windows that grow up to a size
    SESSION(TABLE s [PARTITION BY key], DESCRIPTOR(ts), gap)
    SNAPSHOT(TABLE s [PARTITION BY key])
    COUNT(TABLE s [PARTITION BY key], rows [, slide])               of so many rows, by their time

In GROUP BY: TUMBLE(ts, size), HOP(ts, slide, size), SESSION(ts, gap), and Spark's window(ts, size
[, slide [, offset]]) and session_window(ts, gap). Arguments may be named (`SIZE => INTERVAL '1'
MINUTE`); a duration is an INTERVAL, text such as '10 minutes', or a number of ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.expr import Call, Column, Expr, Literal, lit
from thalweg.model.time import duration_us
from thalweg.plan.expressions import START
from thalweg.sql.assigned import AssignedWindow, calendar, cumulate, hop, rows, session, snapshot
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.relations import Field, Relation
from thalweg.sql.syntax import TableFunction
from thalweg.sql.windows import goes_by_lifetime
from thalweg.windows.specification import Rank

__all__ = [
    "GROUP_FUNCTIONS",
    "WINDOW_END",
    "WINDOW_START",
    "is_truncation",
    "is_window_function",
    "window_of_call",
    "window_of_function",
]

WINDOW_START, WINDOW_END = "window_start", "window_end"
_MOST_STEPS = 64
_PERIODS = {1: "month", 3: "quarter", 12: "year"}


@dataclass(frozen=True, slots=True)
class _Shape:
    """The arguments of a window function behind the stream; how many are required."""

    arguments: tuple[str, ...]
    least: int


_TABLE_SHAPES = {
    "TUMBLE": _Shape(("timecol", "size", "offset"), 2),
    "HOP": _Shape(("timecol", "slide", "size", "offset"), 3),
    "CUMULATE": _Shape(("timecol", "step", "size", "offset"), 3),
    "CALENDAR": _Shape(("timecol", "unit", "zone"), 2),
    "SESSION": _Shape(("timecol", "gap"), 2),
    "SNAPSHOT": _Shape((), 0),
    "COUNT": _Shape(("rows", "slide"), 1),
}
GROUP_FUNCTIONS = {
    "tumble": ("TUMBLE", _TABLE_SHAPES["TUMBLE"]),
    "hop": ("HOP", _TABLE_SHAPES["HOP"]),
    "cumulate": ("CUMULATE", _TABLE_SHAPES["CUMULATE"]),
    "calendar": ("CALENDAR", _TABLE_SHAPES["CALENDAR"]),
    "date_trunc": ("CALENDAR", _Shape(("unit", "timecol", "zone"), 2)),
    "session": ("SESSION", _TABLE_SHAPES["SESSION"]),
    "window": ("HOP", _Shape(("timecol", "size", "slide", "offset"), 2)),
    "session_window": ("SESSION", _TABLE_SHAPES["SESSION"]),
}


def is_window_function(node: exp.Expr, relation: Relation) -> bool:
    """Whether something in GROUP BY is a window; date_trunc is one where it cuts the time of the
    rows."""
    if not isinstance(node, exp.Anonymous) or not isinstance(node.this, str):
        return False
    if is_truncation(node):
        time = node.expressions[1] if len(node.expressions) == 2 else None
        return isinstance(time, exp.Column) and any(
            field.is_time for field in relation.find(time.name, time.text("table"))
        )
    return node.this.lower() in GROUP_FUNCTIONS


def is_truncation(node: exp.Expr) -> bool:
    return isinstance(node.this, str) and node.this.lower() == "date_trunc"


def window_of_call(context: Context, relation: Relation, node: exp.Expr) -> AssignedWindow:
    """A window in GROUP BY."""
    kind, shape = GROUP_FUNCTIONS[node.this.lower()]
    names = ["" for _ in node.expressions]
    return _Reader(context, relation, node, node.this).window(kind, shape, node.expressions, names)


def window_of_function(context: Context, relation: Relation, node: TableFunction) -> Relation:
    """A stream with the windows that a table function gives to its rows."""
    reader = _Reader(context, relation, node, node.this)
    partition = tuple(reader.column(column) for column in node.args.get("partition") or ())
    if partition and node.this in ("TUMBLE", "HOP", "CUMULATE", "CALENDAR"):
        context.text.refuse_node(
            node, f"{node.this} needs no PARTITION BY; put the columns into GROUP BY."
        )
    window = reader.window(
        node.this, _TABLE_SHAPES[node.this], node.expressions, node.args["names"], partition
    )
    return replace(
        relation, window=window, fields=(*relation.fields, *_window_columns(window, relation))
    )


def _window_columns(window: AssignedWindow, relation: Relation) -> list[Field]:
    """`window_start` and `window_end` of a tumbling window, computed from the time of a row. For
    other windows a row has several, so only groups have these columns."""
    if window.size is None or not window.is_tumbling:
        return []
    table = relation.tables[0] if relation.tables else ""
    shifted: Expr = Column(START) - lit(window.offset) if window.offset else Column(START)
    start: Expr = Call("floor_div", (shifted, Literal(window.size))) * lit(window.size)
    start = start + lit(window.offset) if window.offset else start
    end = start + lit(window.size)
    return [
        Field(WINDOW_START, start, table, is_ticks=True),
        Field(WINDOW_END, end, table, is_ticks=True),
    ]


class _Reader:
    """The arguments of one window function."""

    def __init__(self, context: Context, relation: Relation, node: exp.Expr, name: str) -> None:
        self.context, self.relation, self.node, self.name = context, relation, node, name

    def window(
        self,
        kind: str,
        shape: _Shape,
        values: Sequence[exp.Expr],
        names: Sequence[str],
        partition: tuple[str, ...] = (),
    ) -> AssignedWindow:
        arguments = self.named(shape, values, names)
        column = arguments.get("timecol")
        window = self.kind(kind, arguments, partition)
        if isinstance(column, exp.Column) and goes_by_lifetime(
            self.relation, column.name, column.text("table")
        ):
            return replace(window, as_points=False, hop=None)
        return replace(window, time=None if column is None else self.time(column))

    def kind(
        self, kind: str, arguments: dict[str, exp.Expr], partition: tuple[str, ...]
    ) -> AssignedWindow:
        if kind == "SNAPSHOT":
            return replace(snapshot(), partition=partition)
        if kind == "COUNT":
            return self.count(arguments, partition)
        if kind == "SESSION":
            return replace(session(self.duration(arguments["gap"])), partition=partition)
        if kind == "CALENDAR":
            return self.calendar(arguments["unit"], arguments.get("zone"))
        months = RowReader(self.context, self.relation).months(arguments["size"])
        if kind == "TUMBLE" and months in _PERIODS:
            return self.periods(_PERIODS[months], self.own_zone())
        size = self.duration(arguments["size"])
        if kind == "CUMULATE":
            return self.cumulated(arguments, size)
        step = self.duration(arguments["slide"]) if "slide" in arguments else size
        if step > size:
            self.context.text.refuse_node(
                arguments["slide"],
                f"{self.name}: the slide is longer than the window: rows between two windows would "
                "not be counted.",
            )
        return hop(
            size,
            step,
            self.duration(arguments["offset"], any_sign=True) if "offset" in arguments else 0,
        )

    def calendar(self, unit: exp.Expr, zone: exp.Expr | None) -> AssignedWindow:
        for node in (unit, *([zone] if zone is not None else [])):
            if not isinstance(node, exp.Literal) or not node.is_string:
                self.context.text.refuse_node(
                    node, f"{self.name}: a unit and a zone are texts: 'month', 'Europe/Berlin'."
                )
        return self.periods(unit.name, self.own_zone() if zone is None else zone.name)

    def periods(self, unit: str, zone: str) -> AssignedWindow:
        shorter = {"hour": "1 h", "minute": "1 min", "second": "1 s"}.get(unit.lower())
        if shorter is not None:  # zones move their clocks by more than a minute, at full hours
            return hop(duration_us(shorter), duration_us(shorter))
        with self.context.text.at(self.node):
            return calendar(unit, zone)

    def own_zone(self) -> str:
        """The zone of the stream's times."""
        clock = self.relation.clock
        return "UTC" if clock is None or clock.tz is None else str(clock.tz)

    def cumulated(self, arguments: dict[str, exp.Expr], size: int) -> AssignedWindow:
        step = self.duration(arguments["step"])
        if size % step or size // step > _MOST_STEPS:
            self.context.text.refuse_node(
                arguments["step"],
                f"CUMULATE: the size is a multiple of the step, at most {_MOST_STEPS} of them.",
            )
        offset = self.duration(arguments["offset"], any_sign=True) if "offset" in arguments else 0
        return cumulate(step, size, offset)

    def count(self, arguments: dict[str, exp.Expr], partition: tuple[str, ...]) -> AssignedWindow:
        size = self.number(arguments["rows"])
        step = self.number(arguments["slide"]) if "slide" in arguments else size
        if step > size:
            self.context.text.refuse_node(
                arguments["slide"],
                "COUNT: the slide is longer than the window: rows between two windows would be "
                "lost.",
            )
        return rows(size, step, Rank(), partition)

    def number(self, node: exp.Expr) -> int:
        value = (
            RowReader(self.context, self.relation).convert(node)
            if isinstance(node, (exp.Literal, exp.Placeholder))
            else None
        )
        if not isinstance(value, Literal) or not isinstance(value.value, int) or value.value < 1:
            self.context.text.refuse_node(node, "COUNT takes whole numbers of rows, at least one.")
        return value.value

    def named(
        self, shape: _Shape, values: Sequence[exp.Expr], names: Sequence[str]
    ) -> dict[str, exp.Expr]:
        arguments: dict[str, exp.Expr] = {}
        free = iter(shape.arguments)
        for value, argument in zip(values, names, strict=True):
            name = argument or next(free, "")
            if name not in shape.arguments:
                reason = (
                    f"has no argument {argument!r}{did_you_mean(argument, shape.arguments)}"
                    if argument
                    else f"takes {len(shape.arguments)} at most."
                )
                self.context.text.refuse_node(
                    value, f"{self.name} {reason} Arguments: {', '.join(shape.arguments)}."
                )
            arguments[name] = value
        missing = [name for name in shape.arguments[: shape.least] if name not in arguments]
        if missing:
            self.context.text.refuse_node(
                self.node,
                f"{self.name}: {missing[0]} is missing. Arguments: {', '.join(shape.arguments)}.",
            )
        return arguments

    def time(self, node: exp.Expr) -> Column | None:
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
        value = self.relation.resolve(self.context.text, node).value
        if not isinstance(value, Column) or value.name == START:
            self.context.text.refuse_node(node, "PARTITION BY takes ordinary columns.")
        return value.name

    def duration(self, node: exp.Expr, *, any_sign: bool = False) -> int:
        reader = RowReader(self.context, self.relation)
        value = (
            reader.interval_ticks(node)
            if isinstance(node, exp.Interval)
            else self.constant(reader, node)
        )
        if value <= 0 and not any_sign:
            self.context.text.refuse_node(
                self.node, f"{self.name}: a duration must be positive; got {value}."
            )
        return value

    def constant(self, reader: RowReader, node: exp.Expr) -> int:
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

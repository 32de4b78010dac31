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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from thalweg.expr import Call, Column, Expr, Literal, lit
from thalweg.model.time import duration_us
from thalweg.plan.expressions import START
from thalweg.sql import assigned
from thalweg.sql.assigned import AssignedWindow, hop
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.relations import WINDOW_END, WINDOW_START, Field, Relation
from thalweg.sql.syntax import TableFunction, WindowFunction
from thalweg.sql.window_arguments import WindowArguments
from thalweg.sql.windows import goes_by_lifetime
from thalweg.windows.specification import Rank

__all__ = [
    "is_truncation",
    "is_window_function",
    "window_of_call",
    "window_of_function",
]

_MOST_STEPS = 64
_PERIODS = {1: "month", 3: "quarter", 12: "year"}

Given: TypeAlias = dict[str, exp.Expr]
"""The arguments of a call by name."""


@dataclass(frozen=True, slots=True)
class _Function:
    """A window function: the names of its arguments behind the stream, how many of them are
    required, and the window that they describe."""

    arguments: tuple[str, ...]
    required: int
    window: Callable[[WindowArguments, Given], AssignedWindow]
    is_partitioned: bool = False
    """Whether parts of the stream may have windows of their own (PARTITION BY)."""

    def read(
        self,
        call: WindowArguments,
        values: Sequence[exp.Expr],
        names: Sequence[str],
    ) -> AssignedWindow:
        """The window of a call."""
        given = call.named(self.arguments, self.required, values, names)
        window = self.window(call, given)
        column = given.get("timecol")
        if isinstance(column, exp.Column) and goes_by_lifetime(
            call.relation, column.name, column.text("table")
        ):
            return replace(window, as_points=False, hop=None)
        return replace(window, time=None if column is None else call.time(column))


def _tumble(call: WindowArguments, given: Given) -> AssignedWindow:
    months = RowReader(call.context, call.relation).months(given["size"])
    if months in _PERIODS:
        return _periods(call, _PERIODS[months], call.own_zone())
    return _hop(call, given)


def _hop(call: WindowArguments, given: Given) -> AssignedWindow:
    size = call.duration(given["size"])
    step = call.duration(given["slide"]) if "slide" in given else size
    if step > size:
        call.context.text.refuse_node(
            given["slide"],
            f"{call.name}: the slide is longer than the window: rows between two windows would "
            "not be counted.",
        )
    return hop(size, step, _offset(call, given))


def _cumulate(call: WindowArguments, given: Given) -> AssignedWindow:
    size, step = call.duration(given["size"]), call.duration(given["step"])
    if size % step or size // step > _MOST_STEPS:
        call.context.text.refuse_node(
            given["step"],
            f"CUMULATE: the size is a multiple of the step, at most {_MOST_STEPS} of them.",
        )
    return assigned.cumulate(step, size, _offset(call, given))


def _offset(call: WindowArguments, given: Given) -> int:
    return call.duration(given["offset"], any_sign=True) if "offset" in given else 0


def _calendar(call: WindowArguments, given: Given) -> AssignedWindow:
    unit, zone = given["unit"], given.get("zone")
    for node in (unit, *([zone] if zone is not None else [])):
        if not isinstance(node, exp.Literal) or not node.is_string:
            call.context.text.refuse_node(
                node, f"{call.name}: a unit and a zone are texts: 'month', 'Europe/Berlin'."
            )
    return _periods(call, unit.name, call.own_zone() if zone is None else zone.name)


def _periods(call: WindowArguments, unit: str, zone: str) -> AssignedWindow:
    shorter = {"hour": "1 h", "minute": "1 min", "second": "1 s"}.get(unit.lower())
    if shorter is not None:  # zones move their clocks by more than a minute, at full hours
        return hop(duration_us(shorter), duration_us(shorter))
    with call.context.text.at(call.node):
        return assigned.calendar(unit, zone)


def _session(call: WindowArguments, given: Given) -> AssignedWindow:
    return replace(assigned.session(call.duration(given["gap"])), partition=call.partition)


def _snapshot(call: WindowArguments, _given: Given) -> AssignedWindow:
    return replace(assigned.snapshot(), partition=call.partition)


def _count(call: WindowArguments, given: Given) -> AssignedWindow:
    size = call.number(given["rows"])
    step = call.number(given["slide"]) if "slide" in given else size
    if step > size:
        call.context.text.refuse_node(
            given["slide"],
            "COUNT: the slide is longer than the window: rows between two windows would be lost.",
        )
    return assigned.rows(size, step, Rank(), call.partition)


_TABLE_FUNCTIONS: Mapping[WindowFunction, _Function] = {
    WindowFunction.TUMBLE: _Function(("timecol", "size", "offset"), 2, _tumble),
    WindowFunction.HOP: _Function(("timecol", "slide", "size", "offset"), 3, _hop),
    WindowFunction.CUMULATE: _Function(("timecol", "step", "size", "offset"), 3, _cumulate),
    WindowFunction.CALENDAR: _Function(("timecol", "unit", "zone"), 2, _calendar),
    WindowFunction.SESSION: _Function(("timecol", "gap"), 2, _session, is_partitioned=True),
    WindowFunction.SNAPSHOT: _Function((), 0, _snapshot, is_partitioned=True),
    WindowFunction.COUNT: _Function(("rows", "slide"), 1, _count, is_partitioned=True),
}
"""In FROM."""

_GROUP_FUNCTIONS: Mapping[str, _Function] = {
    "tumble": _TABLE_FUNCTIONS[WindowFunction.TUMBLE],
    "hop": _TABLE_FUNCTIONS[WindowFunction.HOP],
    "cumulate": _TABLE_FUNCTIONS[WindowFunction.CUMULATE],
    "calendar": _TABLE_FUNCTIONS[WindowFunction.CALENDAR],
    "date_trunc": _Function(("unit", "timecol", "zone"), 2, _calendar),
    "session": _TABLE_FUNCTIONS[WindowFunction.SESSION],
    "window": _Function(("timecol", "size", "slide", "offset"), 2, _hop),
    "session_window": _TABLE_FUNCTIONS[WindowFunction.SESSION],
}
"""In GROUP BY."""


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
    return node.this.lower() in _GROUP_FUNCTIONS


def is_truncation(node: exp.Expr) -> bool:
    return isinstance(node.this, str) and node.this.lower() == "date_trunc"


def window_of_call(context: Context, relation: Relation, node: exp.Expr) -> AssignedWindow:
    """A window in GROUP BY."""
    call = WindowArguments(context, relation, node, node.this)
    names = ["" for _ in node.expressions]
    return _GROUP_FUNCTIONS[node.this.lower()].read(call, node.expressions, names)


def window_of_function(context: Context, relation: Relation, node: TableFunction) -> Relation:
    """A stream with the windows that a table function gives to its rows."""
    call = WindowArguments(context, relation, node, node.this)
    function = _TABLE_FUNCTIONS[WindowFunction(node.this)]
    partition = tuple(call.column(column) for column in node.args.get("partition") or ())
    if partition and not function.is_partitioned:
        context.text.refuse_node(
            node, f"{node.this} needs no PARTITION BY; put the columns into GROUP BY."
        )
    call = replace(call, partition=partition)
    window = function.read(call, node.expressions, node.args["names"])
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

"""Joins of streams, with a window on each.

    A [RANGE a, WA ts], B [RANGE b, WA ts]   rows whose windows, beginning with them, overlap:
                                             B.ts - A.ts lies in (-b, a)
    A, B [RANGE TUMBLING w, WA ts]           rows of the same window of length w
    A, B                                     rows whose lifetimes overlap, for as long as both last
    A ASOF JOIN B ON ... AND A.ts >= B.ts    each row of A with the latest row of B before it; a
                                             window on B limits how long before

A pair of a window join is a point at the later of its two times, and carries both; a following
window may go by either, since each makes promises of its own. A stream without a window, joined to
one that has one, counts at its time stamp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from thalweg.expr import Column, Expr, call, lit
from thalweg.plan.expressions import START
from thalweg.plan.join_kinds import JOIN_KINDS, JoinName
from thalweg.plan.join_windows import JoinWindow, ranges, same_window
from thalweg.plan.nodes import Retime
from thalweg.plan.window_joins import is_of_points
from thalweg.sql.bands import band_of
from thalweg.sql.expressions import Context, ticks
from thalweg.sql.pairs import Pair
from thalweg.sql.relations import Field, Relation
from thalweg.sql.syntax import Amount, WindowClause
from thalweg.sql.windows import is_rows, require_time
from thalweg.stream import Stream

__all__ = ["Input", "Stay", "asof_join", "at_the_latest", "join", "stay_of", "staying"]


@dataclass(frozen=True, slots=True)
class Stay:
    """The window of an input: `ticks` from each row on, or the tumbling window of that length in
    which it is."""

    ticks: int
    tumbling: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a join."""

    relation: Relation
    stay: Stay | None
    node: exp.Expr


def stay_of(context: Context, relation: Relation, clause: WindowClause) -> Stay:
    """The window on an input of a join."""
    if not isinstance(clause.range, Amount) or is_rows(clause.range):
        context.text.refuse_place(
            clause.place,
            "the window of a joined stream is a RANGE of time, such as [RANGE 3 minutes, WA ts].",
        )
    for value, word in (
        (clause.slide, "SLIDE"),
        (clause.sattr, "SATTR"),
        (clause.rattr, "RATTR"),
        (clause.pa, "PA"),
    ):
        if value:
            context.text.refuse_place(
                clause.place, f"{word} has no meaning for a joined stream; it takes RANGE and WA."
            )
    if clause.wa is not None and require_time(context, relation, clause.wa, clause) is not None:
        context.text.refuse_place(
            clause.wa.place,
            f"{clause.wa} is not the time of these rows; make it so in a subquery with a window.",
        )
    length = ticks(context, clause.range)
    if length <= 0:
        context.text.refuse_place(
            clause.range.place, f"RANGE must be positive; it is {clause.range}."
        )
    return Stay(length, clause.tumbling)


def join(
    context: Context,
    left: Input,
    right: Input,
    conditions: list[exp.Expr],
    how: JoinName,
    used: frozenset[str] | None,
) -> Relation:
    """The pairs of two inputs; `used` names the columns that the query goes on with (None: all)."""
    window = _window(left.stay, right.stay)
    if window is None:
        window, conditions = band_of(context, left.relation, right.relation, conditions)
    if window is None:
        _refuse_points(context, left, right)
        left, right = (
            replace(side, relation=_with_time(side.relation, used)) for side in (left, right)
        )
    pair = Pair.of(left.relation, right.relation, used)
    on, where = pair.conditions(context, conditions)
    left_stream, right_stream = left.relation.stream, right.relation.stream
    select = pair.select if JOIN_KINDS[how].pairs else None
    with context.text.at(right.node):
        if window is None:
            joined = left_stream.join(right_stream, on, where=where, how=how, select=select)
        else:
            joined = left_stream.window_join(
                right_stream,
                on,
                window=window,
                where=where,
                how=how,
                select=select,
                times=pair.times,
            )
    if select is None:
        return replace(left.relation, stream=joined)
    return pair.joined(joined) if window is None else pair.timed(joined)


def asof_join(
    context: Context,
    left: Input,
    right: Input,
    conditions: list[exp.Expr],
    how: str,
    used: frozenset[str] | None,
) -> Relation:
    """Each left row with the latest right row that is not later, at the time of the left row."""
    if left.stay is not None or (right.stay is not None and right.stay.tumbling):
        context.text.refuse_node(
            left.node,
            "in an ASOF JOIN only the right stream has a window: how long before a row may be.",
        )
    pair = Pair.of(left.relation, right.relation, used)
    on, exact = _asof_conditions(context, pair, right, conditions)
    within = None if right.stay is None else right.stay.ticks
    with context.text.at(right.node):
        joined = left.relation.stream.points().asof_join(
            right.relation.stream.points(),
            on,
            within=within,
            exact=exact,
            how=how,
            select=pair.select,
            times=pair.times,
        )
    pairs = pair.timed(joined)
    starts = [
        (
            replace(field, value=Column(START), is_time=True)
            if str(field.value) == pair.times[0]
            else field
        )
        for field in pairs.fields
    ]
    return Relation(joined, tuple(starts))


def _asof_conditions(
    context: Context, pair: Pair, right: Input, conditions: list[exp.Expr]
) -> tuple[dict[str, Expr] | None, bool]:
    """The keys of an ASOF JOIN, and whether rows of the same time match."""
    times = [condition for condition in conditions if _compares_times(pair, condition)]
    if len(times) != 1:
        context.text.refuse_node(
            right.node,
            "ASOF JOIN compares the times once, and columns with =: ON a.key = b.key AND a.ts >= "
            "b.ts.",
        )
    on, where = pair.conditions(
        context, [condition for condition in conditions if condition is not times[0]]
    )
    if where is not None:
        context.text.refuse_node(
            right.node,
            "ASOF JOIN takes only equalities besides the times; filter the streams in subqueries.",
        )
    return on, isinstance(times[0], (exp.GTE, exp.LTE))


def _refuse_points(context: Context, left: Input, right: Input) -> None:
    """Refuse a join of two streams of points without a window: only equal times would meet."""
    sides = (left.relation.stream, right.relation.stream)
    if all(is_of_points(side.node) for side in sides):
        names = [next(iter(side.relation.tables), "stream") for side in (left, right)]
        time = next((f.name for f in right.relation.fields if f.is_time), "ts")
        context.text.refuse_node(
            right.node,
            "rows of both streams are points, which meet only at the same instant. Say over which "
            f"time: ON ... AND {names[1]}.{time} BETWEEN {names[0]}.{time} AND {names[0]}.{time} + "
            "INTERVAL '10' MINUTE, or a window behind each stream: [RANGE 10 minutes, WA "
            f"{time}].",
        )


def _compares_times(pair: Pair, node: exp.Expr) -> bool:
    """Whether a condition requires that the left time is not before (or after) the right one."""
    if not isinstance(node, (exp.GTE, exp.GT, exp.LTE, exp.LT)):
        return False
    late, early = (
        (node.this, node.expression)
        if isinstance(node, (exp.GTE, exp.GT))
        else (node.expression, node.this)
    )
    return _names_time(late, pair.left) and _names_time(early, pair.right)


def _names_time(node: exp.Expr, relation: Relation) -> bool:
    return isinstance(node, exp.Column) and any(
        field.is_time for field in relation.find(node.name, node.text("table"))
    )


def _window(left: Stay | None, right: Stay | None) -> JoinWindow | None:
    if left is None and right is None:
        return None
    for stay in (left, right):
        if stay is not None and stay.tumbling:
            return same_window(stay.ticks)
    return ranges(left=1 if left is None else left.ticks, right=1 if right is None else right.ticks)


def _with_time(relation: Relation, used: frozenset[str] | None) -> Relation:
    """The relation with its time as a column, since a pair starts at the later of its two times."""
    times = [
        field
        for field in relation.fields
        if field.is_time and field.name != START and (used is None or field.name in used)
    ]
    if not times:
        return relation
    stream, name = _add_time(relation.stream, times[0].name)
    return replace(
        relation,
        stream=stream,
        fields=tuple(
            replace(field, value=Column(name)) if field in times else field
            for field in relation.fields
        ),
    )


def _add_time(stream: Stream, name: str) -> tuple[Stream, str]:
    while name in stream.schema.names:
        name = f"{name}_"
    return stream.with_columns(**{name: Column(START)}), name


# ------------------------------------------------------------------------------------------- three
# streams and more


def staying(item: Input, number: int) -> tuple[Input, str]:
    """An input whose rows last as long as its window, and the column that keeps its time. Rows of
    several inputs are in each other's windows exactly when these lifetimes have an instant in
    common."""
    stream, name = _add_time(
        item.relation.stream.points(), f"{next(iter(item.relation.tables), 'stream')}_{number}_time"
    )
    stay = item.stay or Stay(1)
    if stay.tumbling:
        window = Column(START) // lit(stay.ticks)
        stream = Stream(Retime(stream.node, window, window + lit(1)))
    else:
        stream = stream.set_duration(stay.ticks)
    shown = tuple(
        (
            replace(field, value=Column(name), is_time=False, is_ticks=True)
            if field.is_time and field.name != START
            else field
        )
        for field in item.relation.fields
    )
    kept = (*shown, Field(name, Column(name), shown=False))
    return Input(replace(item.relation, stream=stream, fields=kept), None, item.node), name


def at_the_latest(relation: Relation, times: list[str]) -> Relation:
    """The joined rows as points at the latest of their times."""
    columns = [str(field.value) for name in times for field in relation.find(name)]
    stream = relation.stream.alter_lifetime(
        start=call("greatest", *(Column(column) for column in columns)), duration=1
    )
    fields = tuple(field for field in relation.fields if field.name not in times)
    return Relation(stream, fields, determine_start=tuple(columns))

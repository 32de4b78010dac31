"""Joins of streams, with a window on each.

    A [RANGE a, WA ts], B [RANGE b, WA ts]     rows whose windows, beginning with them, overlap: B.ts - A.ts lies in (-b, a)
    A, B [RANGE TUMBLING w, WA ts]             rows of the same window of length w
    A, B                                       rows whose lifetimes overlap, for as long as both last

A pair of a window join is a point at the later of its two times, and carries both; a following window may go by either, since
each makes promises of its own. A stream without a window, joined to one that has one, counts at its time stamp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal as Choice

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.expr import Call, Column, Expr, call, lit
from thalweg.plan.join_windows import JoinWindow, ranges, same_window
from thalweg.plan.nodes import Retime
from thalweg.plan.rules.substitution import START
from thalweg.sql.expressions import Context, RowReader, conjuncts, ticks
from thalweg.sql.relations import Field, Relation, unique_names
from thalweg.sql.syntax import Amount, WindowClause
from thalweg.sql.windows import is_rows, require_time
from thalweg.stream import Stream

__all__ = ["Input", "JoinKind", "Stay", "at_the_latest", "join", "on_conditions", "stay_of", "staying", "using_conditions"]

JoinKind = Choice["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Stay:
    """The window of an input: `ticks` from each row on, or the tumbling window of that length in which it is."""

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
        context.text.refuse_place(clause.place, "the window of a joined stream is a RANGE of time, such as [RANGE 3 minutes, WA ts].")
    for given, word in ((clause.slide, "SLIDE"), (clause.sattr, "SATTR"), (clause.rattr, "RATTR"), (clause.pa, "PA")):
        if given:
            context.text.refuse_place(clause.place, f"{word} has no meaning for a joined stream; it takes RANGE and WA.")
    if clause.wa is not None and require_time(context, relation, clause.wa, clause) is not None:
        context.text.refuse_place(clause.wa.place, f"{clause.wa} is not the time of these rows; make it so in a subquery with a window.")
    length = ticks(context, clause.range)
    if length <= 0:
        context.text.refuse_place(clause.range.place, f"RANGE must be positive; it is {clause.range}.")
    return Stay(length, clause.tumbling)


def join(context: Context, left: Input, right: Input, conditions: list[exp.Expr], how: JoinKind, used: frozenset[str] | None) -> Relation:
    """The pairs of two inputs; `used` names the columns that the query goes on with (None: all)."""
    window = _window(left.stay, right.stay)
    if window is None:
        left, right = (replace(side, relation=_with_time(side.relation, used)) for side in (left, right))
    one, two = left.relation, right.relation
    pair = Relation(one.stream, (*_side_fields(one, "l"), *_side_fields(two, "r")))
    keys, residual = _split(context, conditions, one, two, pair)
    where = None
    for condition in residual:
        where = condition if where is None else Call("and", (where, condition))
    on = {str(mine): theirs for mine, theirs in keys} or None
    copied = [field for field in pair.fields if not _is_start(field.value) and (used is None or field.name in used)]
    names = unique_names((field.table, field.name) for field in copied)
    select: dict[str, Expr] | None = {name: field.value for name, field in zip(names, copied, strict=True)} or {"one": lit(1)}
    if how in ("semi", "anti"):
        select = None
    times = _time_names(one, two, names)
    with context.text.at(right.node):
        if window is None:
            joined = one.stream.join(two.stream, on, where=where, how=how, select=select)
        else:
            joined = one.stream.window_join(two.stream, on, window=window, where=where, how=how, select=select, times=times)
    if select is None:
        return replace(one, stream=joined)
    fields = [Field(field.name, Column(name), field.table, shown=field.shown) for name, field in zip(names, copied, strict=True)]
    if window is not None:
        fields += [
            replace(field, value=Column(time), is_time=False)
            for side, time in zip((one, two), times, strict=True)
            for field in side.fields
            if field.is_time and field.name != START
        ]
    fields.append(Field(START, Column(START), is_time=True, shown=False))
    return Relation(joined, tuple(fields), determine_start=times if window is not None else ())


def _window(left: Stay | None, right: Stay | None) -> JoinWindow | None:
    if left is None and right is None:
        return None
    for stay in (left, right):
        if stay is not None and stay.tumbling:
            return same_window(stay.ticks)
    return ranges(left=1 if left is None else left.ticks, right=1 if right is None else right.ticks)


def _is_start(value: Expr) -> bool:
    return isinstance(value, Column) and value.name in ("l._start", "r._start")


def _time_names(one: Relation, two: Relation, taken: list[str]) -> tuple[str, str]:
    """Columns for the times of both sides, that neither a side nor the result has yet."""
    known = {*one.stream.schema.names, *two.stream.schema.names, *taken}
    found = []
    for relation, side in ((one, "left"), (two, "right")):
        time = next((field for field in relation.fields if field.is_time and field.shown), None)
        name = f"{time.table or side}_{time.name}" if time is not None else f"{side}_time"
        while name in known:
            name = f"{name}_"
        known.add(name)
        found.append(name)
    return found[0], found[1]


def _with_time(relation: Relation, used: frozenset[str] | None) -> Relation:
    """The time stamp of a row as a column: a pair starts when both are there."""
    times = [field for field in relation.fields if field.is_time and field.name != START and (used is None or field.name in used)]
    if not times:
        return relation
    stream, name = _add_time(relation.stream, times[0].name)
    return replace(
        relation, stream=stream, fields=tuple(replace(one, value=Column(name)) if one in times else one for one in relation.fields)
    )


def _add_time(stream: Stream, name: str) -> tuple[Stream, str]:
    while name in stream.schema.names:
        name = f"{name}_"
    return stream.with_columns(**{name: Column(START)}), name


def _side_fields(relation: Relation, side: str) -> tuple[Field, ...]:
    names = {name: f"{side}.{name}" for name in (*relation.stream.schema.names, START)}
    return tuple(replace(field, value=field.value.rename(names)) for field in relation.fields)


# ------------------------------------------------------------------------------------------- three streams and more


def staying(item: Input, number: int) -> tuple[Input, str]:
    """An input whose rows last as long as its window, and the column that keeps its time. Rows of several inputs are in each other's
    windows exactly when these lifetimes have an instant in common."""
    stream, name = _add_time(item.relation.stream.points(), f"{next(iter(item.relation.tables), 'stream')}_{number}_time")
    stay = item.stay or Stay(1)
    if stay.tumbling:
        window = Column(START) // lit(stay.ticks)
        stream = Stream(Retime(stream.node, window, window + lit(1)))
    else:
        stream = stream.set_duration(stay.ticks)
    shown = tuple(
        replace(field, value=Column(name), is_time=False) if field.is_time and field.name != START else field
        for field in item.relation.fields
    )
    kept = (*shown, Field(name, Column(name), shown=False))
    return Input(replace(item.relation, stream=stream, fields=kept), None, item.node), name


def at_the_latest(relation: Relation, times: list[str]) -> Relation:
    """What has been joined, as a point at the latest of its times."""
    columns = [str(field.value) for name in times for field in relation.find(name)]
    stream = relation.stream.alter_lifetime(start=call("greatest", *(Column(column) for column in columns)), duration=1)
    fields = tuple(field for field in relation.fields if field.name not in times)
    return Relation(stream, fields, determine_start=tuple(columns))


# --------------------------------------------------------------------------------------------------------- conditions


def _split(
    context: Context, conditions: list[exp.Expr], one: Relation, two: Relation, pair: Relation
) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
    """Equalities between the sides become keys; the rest is a condition on pairs."""
    keys: list[tuple[Expr, Expr]] = []
    residual: list[Expr] = []
    for condition in conditions:
        if isinstance(condition, exp.EQ):
            sides = _belongs(condition.this, one, two), _belongs(condition.expression, one, two)
            if sides in (("l", "r"), ("r", "l")):
                mine, theirs = condition.this, condition.expression
                if sides[0] == "r":
                    mine, theirs = theirs, mine
                keys.append((RowReader(context, one).convert(mine), RowReader(context, two).convert(theirs)))
                continue
        residual.append(RowReader(context, pair).convert(condition))
    return keys, residual


def _belongs(node: exp.Expr, one: Relation, two: Relation) -> str:
    """`l`, `r`, or nothing: the one side whose columns an expression reads."""
    sides = set()
    for column in node.find_all(exp.Column):
        name, table = column.this.this, column.text("table")
        mine, theirs = bool(one.find(name, table)), bool(two.find(name, table))
        if mine == theirs:
            return ""
        sides.add("l" if mine else "r")
    return sides.pop() if len(sides) == 1 else ""


def using_conditions(context: Context, node: exp.Expr, left: Relation, right: Relation) -> list[exp.Expr]:
    """JOIN ... USING (a, b) as equalities."""
    made: list[exp.Expr] = []
    for name in node.args.get("using") or ():
        sides = []
        for relation in (left, right):
            found = relation.find(name.name)
            if len(found) != 1:
                hint = did_you_mean(name.name, relation.names())
                context.text.refuse_node(name, f"USING: {name.name!r} is not one column of each side{hint}")
            column = exp.Column(this=name.copy(), table=exp.to_identifier(found[0].table))
            column.meta.update(name.meta)
            sides.append(column)
        made.append(exp.EQ(this=sides[0], expression=sides[1]))
    return made


def on_conditions(node: exp.Expr) -> list[exp.Expr]:
    return conjuncts(node.args.get("on"))

"""Joins of streams, with a window on each.

Two rows meet when their lifetimes overlap. A window on an input says how long its rows stay:

    A [RANGE a, WA ts], B [RANGE b, WA ts]     the row of A stays a, the row of B stays b: B.ts - A.ts lies in (-b, a)
    A, B [RANGE TUMBLING w, WA ts]             rows stay for the whole window of length w in which they start

A pair lasts while both rows stay. Where the query goes on with the time of one side (`WA A.ts`), the pair is a point at that
time instead: the row of A is a point, and the row of B stays wherever such a point would meet it. Inputs without a window
last as long as they last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal as Choice

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.expr import Call, Column, Expr, lit
from thalweg.plan.rules.substitution import START
from thalweg.sql.expressions import Context, RowReader, conjuncts, ticks
from thalweg.sql.relations import Field, Relation, unique_names
from thalweg.sql.syntax import Amount, WindowClause
from thalweg.sql.windows import is_rows, require_time

__all__ = ["Input", "JoinKind", "Stay", "join", "stay_of"]

JoinKind = Choice["inner", "left", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Stay:
    """How long the rows of an input stay: for `ticks`, or for the whole tumbling window of that length."""

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
    if clause.wa is not None:
        require_time(context, relation, clause.wa, clause)
    length = ticks(context, clause.range)
    if length <= 0:
        context.text.refuse_place(clause.range.place, f"RANGE must be positive; it is {clause.range}.")
    return Stay(length, clause.tumbling)


def join(
    context: Context, left: Input, right: Input, conditions: list[exp.Expr], how: JoinKind, used: frozenset[str] | None, timed_by: str = ""
) -> Relation:
    """The pairs of two inputs; `used` names the columns that the query goes on with (None: all)."""
    sides = [_carry_times(side, used) for side in (left, right)]
    one, two = (_staying(side, other, timed_by) for side, other in ((sides[0], right), (sides[1], left)))
    pair = Relation(one.stream, (*_side_fields(one, "l"), *_side_fields(two, "r")))
    keys, residual = _split(context, conditions, one, two, pair)
    where = None
    for condition in residual:
        where = condition if where is None else Call("and", (where, condition))
    on = {str(mine): theirs for mine, theirs in keys} or None
    with context.text.at(right.node):
        if how in ("semi", "anti"):
            return Relation(one.stream.join(two.stream, on, where=where, how=how), one.fields)
        own = [field for field in pair.fields if field.is_time and field.table == timed_by and bool(timed_by) and field.shown]
        kept = [field for field in pair.fields if field.name != START and field not in own and (used is None or field.name in used)]
        names = unique_names((field.table, field.name) for field in kept)
        select: dict[str, Expr] = {name: field.value for name, field in zip(names, kept, strict=True)}
        joined = one.stream.join(two.stream, on, where=where, how=how, select=select or {"one": lit(1)})
    fields = [Field(field.name, Column(name), field.table, shown=field.shown) for name, field in zip(names, kept, strict=True)]
    times = [name for name, field in zip(names, kept, strict=True) if field.is_time]
    starts = [*(replace(field, value=Column(START)) for field in own), Field(START, Column(START), is_time=True, shown=False)]
    return Relation(joined, (*fields, *starts), determine_start=tuple(times) if len(times) > 1 else ())


def _carry_times(side: Input, used: frozenset[str] | None) -> Input:
    """The time stamp of a row as a column: its lifetime is about to change."""
    times = [field for field in side.relation.fields if field.is_time and field.shown and (used is None or field.name in used)]
    if not times:
        return side
    relation = side.relation
    taken = {*relation.stream.schema.names}
    name = times[0].name
    while name in taken:
        name = f"{name}_"
    stream = relation.stream.with_columns(**{name: Column(START)})
    fields = tuple(replace(field, value=Column(name)) if field in times else field for field in relation.fields)
    return replace(side, relation=replace(relation, stream=stream, fields=fields))


def _staying(side: Input, other: Input, timed_by: str) -> Relation:
    """An input whose rows last as long as its window says."""
    relation, stream = side.relation, side.relation.stream
    if side.stay is None and other.stay is None:
        return relation
    if timed_by and timed_by in relation.tables:
        return replace(relation, stream=stream.points())
    if side.stay is not None and side.stay.tumbling:
        return replace(relation, stream=stream.points().quantize(side.stay.ticks))
    if not timed_by:
        return relation if side.stay is None else replace(relation, stream=stream.set_duration(side.stay.ticks))
    mine = 1 if side.stay is None else side.stay.ticks
    theirs = 1 if other.stay is None else other.stay.ticks
    return replace(relation, stream=stream.shift(1 - theirs).set_duration(mine + theirs - 1))


def _side_fields(relation: Relation, side: str) -> tuple[Field, ...]:
    names = {name: f"{side}.{name}" for name in (*relation.stream.schema.names, START)}
    return tuple(replace(field, value=field.value.rename(names)) for field in relation.fields)


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

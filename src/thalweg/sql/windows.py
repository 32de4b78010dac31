"""Windows in brackets: the kind of window that a clause describes, and that kind in the engine.

    RANGE r, SLIDE s, WA ts               sliding over time, ending at multiples of s; tumbling
                                          where r = s
    RANGE TUMBLING r, WA ts               the same as RANGE r, SLIDE r
    RANGE ALL, SLIDE s, WA ts             landmark: everything so far, anew every s
    RANGE n rows, SLIDE m rows, WA a      the last n rows every m rows, a being row-num: as they
                                          arrived; or rank(ts): in the order of time
    RANGE r, SLIDE s, WA arrival-time     sliding over the time at which rows arrive, by the clock
                                          of the system
    RANGE r, RATTR ts, SLIDE n rows,      the last r of time, at every n-th row, a being row-num or
        SATTR a                           rank(ts) as above
    ... , PA columns                      for each value of the columns by itself

A window over time goes by the time stamps of rows, so a row that lasts counts where it starts. WA
lifetime goes by lifetimes: a row belongs to every window that it touches.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from thalweg.expr import Column
from thalweg.sql import assigned
from thalweg.sql.assigned import AssignedWindow
from thalweg.sql.expressions import Context, ticks
from thalweg.sql.relations import Field, Relation
from thalweg.sql.syntax import ALL, Amount, Attribute, Place, WindowClause
from thalweg.windows.specification import Rank, Rows, warn_about_panes

__all__ = ["assign", "attribute_field", "goes_by_lifetime", "is_rows", "require_time"]

_ROWS = ("row", "rows", "tuple", "tuples")


def is_rows(amount: Amount | str | None) -> bool:
    return isinstance(amount, Amount) and amount.unit.lower() in _ROWS


def assign(context: Context, relation: Relation, clause: WindowClause) -> AssignedWindow:
    """The window of an aggregate."""
    if clause.range is None:
        context.text.refuse_place(clause.place, "a window needs a RANGE: how far back it reaches.")
    slide = clause.range if clause.tumbling else clause.slide
    if not isinstance(slide, Amount):
        _refuse_without_slide(context, clause)
    partition = tuple(_column(context, relation, attribute) for attribute in clause.pa)
    if is_rows(clause.range) or (clause.range == ALL and is_rows(slide)):
        return _over_rows(context, relation, clause, slide, partition)
    if is_rows(slide):
        return _by_tuple(context, relation, clause, slide, partition)
    _refuse_attributes(context, clause)
    if clause.wa is not None and (clause.wa.counted_at or clause.wa.ranked):
        context.text.refuse_place(
            slide.place,
            f"{clause.wa} counts rows; RANGE and SLIDE must too: {slide.number or 10} rows.",
        )
    lasting = clause.wa is not None and goes_by_lifetime(relation, clause.wa.name, clause.wa.table)
    arrived = clause.wa is not None and clause.wa.is_arrival
    time = None if lasting or arrived else require_time(context, relation, clause.wa, clause)
    step = _positive(context, slide, "SLIDE")
    if not isinstance(clause.range, Amount):
        if lasting:
            context.text.refuse_place(
                clause.place, "RANGE ALL goes by the time of rows, not by lifetimes; say WA ts."
            )
        return replace(
            assigned.landmark(step),
            partition=partition,
            time=time,
            by_arrival=step if arrived else None,
        )
    size = _positive(context, clause.range, "RANGE")
    _refuse_gaps(context, clause.range, size, slide, step)
    warn_about_panes(size, step, "RANGE and SLIDE")
    return replace(
        assigned.hop(size, step, (-size) % step),
        partition=partition,
        time=time,
        as_points=not lasting,
        by_arrival=math.gcd(size, step) if arrived else None,
    )


def goes_by_lifetime(relation: Relation, name: str, table: str = "") -> bool:
    """Whether a window is defined on the lifetimes of rows, instead of on a column."""
    return name.lower() == "lifetime" and not table and not relation.find(name)


def _over_rows(
    context: Context,
    relation: Relation,
    clause: WindowClause,
    slide: Amount,
    partition: tuple[str, ...],
) -> AssignedWindow:
    """Range and slide count rows."""
    _refuse_attributes(context, clause)
    if clause.wa is None:
        context.text.refuse_place(
            clause.place,
            "a window over rows says how they are counted: WA row-num, or WA rank(ts).",
        )
    order = _order(context, relation, clause.wa)
    if not is_rows(slide):
        context.text.refuse_place(
            slide.place,
            f"RANGE counts rows, and SLIDE time; for the last {clause.range} write SLIDE 1 rows.",
        )
    step = _count(context, slide)
    if not isinstance(clause.range, Amount):
        return assigned.row_landmark(step, order, partition)
    size = _count(context, clause.range)
    _refuse_gaps(context, clause.range, size, slide, step)
    return assigned.rows(size, step, order, partition)


def _by_tuple(
    context: Context,
    relation: Relation,
    clause: WindowClause,
    slide: Amount,
    partition: tuple[str, ...],
) -> AssignedWindow:
    """The range is time, the slide counts rows."""
    if not isinstance(clause.range, Amount):
        context.text.refuse_place(
            clause.place, "RANGE ALL slides by time, or by rows over row-num."
        )
    if clause.wa is not None:
        context.text.refuse_place(
            clause.wa.place,
            "RANGE and SLIDE are of different kinds: say RATTR ts and SATTR row-num instead of WA.",
        )
    if clause.sattr is None:
        context.text.refuse_place(
            clause.place, "SLIDE counts rows: say in which order, SATTR row-num or SATTR rank(ts)."
        )
    time = require_time(context, relation, clause.rattr, clause, "RATTR")
    size, every = _positive(context, clause.range, "RANGE"), _count(context, slide)
    return replace(
        assigned.by_tuple(size, every, _order(context, relation, clause.sattr), partition),
        time=time,
    )


def _order(context: Context, relation: Relation, attribute: Attribute) -> Rows | Rank:
    if attribute.counted_at:
        return Rows(attribute.counted_at)
    if not attribute.ranked:
        context.text.refuse_place(
            attribute.place,
            f"{attribute} does not number rows; write row-num, local-row-num or rank(ts).",
        )
    field = attribute_field(context, relation, replace(attribute, ranked=False))
    if not relation.progresses(field):
        context.text.refuse_place(
            attribute.place,
            f"{attribute}: rows are ranked by their time, which {attribute.name} is not.",
        )
    return Rank()


def _positive(context: Context, amount: Amount, word: str) -> int:
    value = ticks(context, amount)
    if value <= 0:
        context.text.refuse_place(amount.place, f"{word} must be positive; it is {amount}.")
    return value


def _count(context: Context, amount: Amount) -> int:
    if not amount.number.isdigit() or int(amount.number) == 0:
        context.text.refuse_place(
            amount.place, f"a window has a whole number of rows, at least one; got {amount}."
        )
    return int(amount.number)


def require_time(
    context: Context,
    relation: Relation,
    attribute: Attribute | None,
    clause: WindowClause,
    word: str = "WA",
) -> Column | None:
    """The attribute of a window must progress: it is the time of the rows, or a column over which
    the plan makes promises, which is then returned."""
    times = list(dict.fromkeys(field.name for field in relation.fields if field.is_time))
    if attribute is None:
        context.text.refuse_place(
            clause.place,
            f"a window over time says on which column it is defined: {word} {times[0]}.",
        )
    field = attribute_field(context, relation, attribute)
    if not relation.progresses(field):
        context.text.refuse_place(
            attribute.place,
            f"{attribute} does not progress: it is an ordinary column. A window is defined on the "
            f"time of the rows, which is called {' or '.join(times)} here.",
        )
    return field.value if not field.is_time and isinstance(field.value, Column) else None


def attribute_field(context: Context, relation: Relation, attribute: Attribute) -> Field:
    table = exp.to_identifier(attribute.table) if attribute.table else None
    node = exp.Column(this=exp.to_identifier(attribute.name), table=table)
    node.meta.update(start=attribute.place.start, end=attribute.place.end)
    return relation.resolve(context.text, node)


def _column(context: Context, relation: Relation, attribute: Attribute) -> str:
    field = attribute_field(context, relation, attribute)
    if not isinstance(field.value, Column) or field.is_time:
        context.text.refuse_place(
            attribute.place,
            f"PA takes ordinary columns; {attribute} is none. Compute it in a subquery.",
        )
    return field.value.name


def _refuse_attributes(context: Context, clause: WindowClause) -> None:
    for attribute, word in ((clause.rattr, "RATTR"), (clause.sattr, "SATTR")):
        if attribute is not None:
            context.text.refuse_place(
                attribute.place,
                f"{word} is for windows whose RANGE is time and whose SLIDE counts rows; here one "
                "WA is enough.",
            )


def _refuse_gaps(context: Context, range_: Amount, size: int, slide: Amount, step: int) -> None:
    if step > size:
        context.text.refuse_place(
            slide.place,
            f"SLIDE {slide} is longer than RANGE {range_}: rows between two windows would not be "
            "counted. Make it shorter.",
        )


def _refuse_without_slide(context: Context, clause: WindowClause) -> NoReturn:
    place: Place = clause.place
    context.text.refuse_place(
        place,
        "a window of an aggregate needs a SLIDE: how far it moves. For windows that do not overlap "
        "write RANGE TUMBLING ...",
    )

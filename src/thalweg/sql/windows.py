"""Windows in brackets: which kind a clause says, and what that kind is in the engine.

    RANGE r, SLIDE s, WA ts                          sliding over time; tumbling where r = s
    RANGE TUMBLING r, WA ts                          the same as RANGE r, SLIDE r

A window goes by the time stamps of rows, so a row that lasts counts where it starts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from thalweg.expr import Column
from thalweg.sql.assigned import AssignedWindow, hop
from thalweg.sql.expressions import Context, ticks
from thalweg.sql.relations import Field, Relation
from thalweg.sql.syntax import ALL, Amount, Attribute, WindowClause

__all__ = ["assign", "attribute_field", "is_rows", "require_time"]

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
    if clause.range == ALL or is_rows(clause.range) or is_rows(slide):
        context.text.refuse_place(clause.place, "only windows over time are known here yet.")
    assert isinstance(clause.range, Amount)
    require_time(context, relation, clause.wa, clause)
    size, step = ticks(context, clause.range), ticks(context, slide)
    for amount, value, word in ((clause.range, size, "RANGE"), (slide, step, "SLIDE")):
        if value <= 0:
            context.text.refuse_place(amount.place, f"{word} must be positive; it is {amount}.")
    if step > size:
        context.text.refuse_place(
            slide.place,
            f"SLIDE {slide} is longer than RANGE {clause.range}: rows between two windows would not be counted. Make it shorter.",
        )
    partition = tuple(_column(context, relation, attribute) for attribute in clause.pa)
    return replace(hop(size, step), partition=partition)


def require_time(context: Context, relation: Relation, attribute: Attribute | None, clause: WindowClause) -> None:
    """The attribute of a window must be the time of the rows: the one that progresses."""
    if attribute is None:
        times = [field.name for field in relation.fields if field.is_time and field.shown]
        hint = f": WA {times[0]}" if times else ""
        context.text.refuse_place(clause.place, f"a window over time says on which column it is defined{hint}.")
    field = attribute_field(context, relation, attribute)
    if not field.is_time:
        times = [field.name for field in relation.fields if field.is_time]
        context.text.refuse_place(
            attribute.place,
            f"{attribute} does not progress: it is an ordinary column. A window is defined on the time of the rows,"
            f" which is called {' or '.join(dict.fromkeys(times))} here.",
        )


def attribute_field(context: Context, relation: Relation, attribute: Attribute) -> Field:
    from sqlglot import exp

    table = exp.to_identifier(attribute.table) if attribute.table else None
    node = exp.Column(this=exp.to_identifier(attribute.name), table=table)
    node.meta.update(start=attribute.place.start, end=attribute.place.end)
    return relation.resolve(context.text, node)


def _column(context: Context, relation: Relation, attribute: Attribute) -> str:
    value = attribute_field(context, relation, attribute).value
    if not isinstance(value, Column):
        context.text.refuse_place(attribute.place, f"PA takes columns; {attribute} is computed. Compute it in a subquery.")
    return value.name


def _refuse_without_slide(context: Context, clause: WindowClause) -> NoReturn:
    context.text.refuse_place(
        clause.place, "a window of an aggregate needs a SLIDE: how far it moves. For windows that do not overlap write RANGE TUMBLING ..."
    )

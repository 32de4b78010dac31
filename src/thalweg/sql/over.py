"""OVER: each row with an aggregate of the rows of its partition in the span of time before it.

    SUM(x) OVER (
        PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW
    )

The value depends on the partition and the time of a row alone, so it is computed once for each pair
(k, t) at which there is a row, over the rows with t - 1 hour <= time <= t: a band join of these
pairs with the rows, aggregated at t. Rows then meet the value of their own k and t.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from thalweg.expr import Column, lit
from thalweg.expr.reader import interval_text
from thalweg.model.time import duration_us
from thalweg.plan import nodes
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.expressions import START, columns_of_side
from thalweg.plan.join_windows import Band
from thalweg.sql.aggregates import is_aggregate
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.groups import GroupReader
from thalweg.sql.relations import Field, Relation, free_name
from thalweg.sql.syntax import Over
from thalweg.stream import Stream

__all__ = ["with_overs"]

_ALL = "_all"
_WRITE = "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"


def with_overs(context: Context, select: exp.Expr, relation: Relation) -> Relation:
    """The relation with a column for each OVER of a SELECT; the tree then names these columns."""
    found = [over for item in select.expressions for over in item.find_all(Over)]
    for number, over in enumerate(found, 1):
        name = f"_over_{number}"
        relation = _with_over(context, relation, over, name)
        column = exp.column(name)
        column.meta.update(over.this.meta)
        column.this.meta.update(over.this.meta)
        if isinstance(over.parent, exp.Select):
            over.replace(exp.alias_(column, over.this.this.lower(), quoted=True))
        else:
            over.replace(column)
    return relation


def _with_over(context: Context, relation: Relation, over: Over, name: str) -> Relation:
    if not is_aggregate(over.this):
        context.text.refuse_node(
            over,
            f"OVER takes an aggregate: sum(x) OVER (... {_WRITE}). The best groups of a window are "
            "ORDER BY ... LIMIT n; other windows stand in brackets.",
        )
    span = _span(context, over)
    _require_time_order(context, relation, over)
    stream = relation.stream
    if stream.properties.constant_duration != 1:
        stream = stream.points()
    keyed, keys = _keyed(context, replace(relation, stream=stream), over)
    call = _call(context, keyed, over)
    parts = {"of": call.of, "by": call.by, "where": call.where}
    inputs = {f"_in_{role}": part for role, part in parts.items() if part is not None}
    of_inputs: dict[str, Any] = {
        role: None if part is None else Column(f"_in_{role}") for role, part in parts.items()
    }

    rows = keyed.stream.select(*keys, **inputs)
    moments = keyed.stream.select(*keys).distinct()
    with context.text.at(over):
        pairs = moments.window_join(
            rows,
            keys,
            window=Band(span, 1),
            select=dict(columns_of_side((*keys, *inputs), "r")),
            at="left",
            times=("_left", "_right"),
        )
        over_pairs = replace(call, **of_inputs)
        values = pairs.group_by(*keys).hopping(1, 1).aggregate({name: over_pairs})
    both = columns_of_side(keyed.stream.schema.names, "l")
    sides = tuple(Column(key) for key in keys)
    result = (*both, (name, Column(f"r.{name}")))
    joined = Stream(nodes.Join(keyed.stream.node, values.node, sides, sides, result=result))
    return replace(
        relation, stream=joined, fields=(*relation.fields, Field(name, Column(name), shown=False))
    )


def _span(context: Context, over: Over) -> int:
    amount = over.args.get("span")
    if over.args.get("rows"):
        context.text.refuse_node(
            over,
            "OVER goes by time here: "
            + _WRITE
            + ". Rows are counted by [RANGE 10 rows, SLIDE 1 rows, PA key, WA rank(ts)].",
        )
    if amount is None:
        context.text.refuse_node(
            over, f"an OVER without bound would keep every row for ever; write {_WRITE}."
        )
    with context.text.at(over):
        return duration_us(interval_text(amount), what="OVER")


def _require_time_order(context: Context, relation: Relation, over: Over) -> None:
    order = over.args.get("order")
    field = relation.resolve(context.text, order) if isinstance(order, exp.Column) else None
    if field is None or not field.is_time:
        times = dict.fromkeys(f.name for f in relation.fields if f.is_time)
        context.text.refuse_node(
            over, f"OVER is ordered by the time of the rows: ORDER BY {next(iter(times), 'ts')}."
        )


def _keyed(context: Context, relation: Relation, over: Over) -> tuple[Relation, tuple[str, ...]]:
    """The relation with its partition as columns."""
    reader = RowReader(context, relation)
    values = [reader.convert(node) for node in over.args.get("partition") or ()]
    if not values:
        stream = relation.stream.with_columns(**{_ALL: lit(1)})
        return replace(relation, stream=stream), (_ALL,)
    keys: list[str] = []
    stream = relation.stream
    for value in values:
        if isinstance(value, Column):
            keys.append(value.name)
            continue
        keys.append(free_name("_part", stream.schema.names))
        stream = stream.with_columns(**{keys[-1]: value})
    return replace(relation, stream=stream), tuple(dict.fromkeys(keys))


def _call(context: Context, relation: Relation, over: Over) -> AggregateCall:
    reader = GroupReader(context, relation, [], {START: Column(START)})
    reader.convert(over.this)
    if len(reader.calls) != 1:
        context.text.refuse_node(over, "OVER takes one of the aggregates of SQL.")
    return next(iter(reader.calls.values()))

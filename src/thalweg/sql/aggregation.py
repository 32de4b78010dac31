"""SELECT of groups: one row for each group and window, with aggregates and what is computed from
them. HAVING keeps some of the groups, ORDER BY with LIMIT the best of each window."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from thalweg.expr import Column, Expr
from thalweg.plan import nodes
from thalweg.plan.aggregates import AggregateCall, count
from thalweg.plan.expressions import START, unchanged
from thalweg.plan.window_joins import side_by_side
from thalweg.sql.aggregates import is_aggregate
from thalweg.sql.assigned import AssignedWindow
from thalweg.sql.distinct import distinct_answer
from thalweg.sql.expressions import Context
from thalweg.sql.grouping import Grouping, grouping_of
from thalweg.sql.groups import GroupReader
from thalweg.sql.modules import answer, united
from thalweg.sql.projection import ResultColumns, column_name, is_star, item_value, project
from thalweg.sql.relations import WINDOW_END, WINDOW_START, Field, Relation
from thalweg.sql.syntax import WindowClause
from thalweg.stream import GroupedStream, Stream

__all__ = ["aggregate_groups"]


def aggregate_groups(
    context: Context, select: exp.Expr, relation: Relation, clause: WindowClause | None
) -> Relation:
    """One SELECT of groups as a relation."""
    grouping = grouping_of(context, select, relation, clause)
    names = _names_of_window(relation, grouping.window)
    reader = GroupReader(context, grouping.relation, grouping.keys, names)
    reader.window_call = grouping.window_call
    columns = _selected(context, select, reader)
    # HAVING and ORDER BY may name what is selected.
    reader.names = {name: value for _, name, value in columns} | names
    having, order = select.args.get("having"), select.args.get("order")
    for ranked in order.expressions if order is not None else ():
        reader.convert(ranked.this)
    kept = reader.convert(having.this) if having is not None else None
    needed = frozenset[str]().union(
        *(value.columns() for _, _, value in columns), kept.columns() if kept is not None else ()
    )
    groups = _aggregate(context, select, grouping, reader, needed)
    if having is not None and kept is not None:
        with context.text.at(having):
            groups = replace(groups, stream=groups.stream.where(kept))
    if order is not None:
        groups = _best(context, select, groups, grouping.window, reader)
    result = project(context, select, groups, columns)
    hidden = (
        Field(name, value, is_time=name == WINDOW_START, shown=False)
        for name, value in names.items()
        if value.columns() <= {START} and name not in result.stream.schema.names
    )
    return replace(result, fields=(*result.fields, *hidden))


def _names_of_window(relation: Relation, window: AssignedWindow) -> dict[str, Expr]:
    """What the edges of a window are called, and their values."""
    names: dict[str, Expr] = {START: relation.clocked(Column(START))}
    if window.has_start:
        names[WINDOW_START] = names[START]
    if window.end is not None:
        names[WINDOW_END] = relation.clocked(window.end)
    return names


def _selected(context: Context, select: exp.Expr, reader: GroupReader) -> ResultColumns:
    """The items of SELECT over groups; the reader collects their aggregates."""
    columns: ResultColumns = []
    for number, item in enumerate(select.expressions, 1):
        if is_star(item):
            context.text.refuse_node(
                item, "* names single rows; name the groups and their aggregates."
            )
        table, node = item_value(item)
        name = column_name(item, number)
        reader.preferred_name = name if is_aggregate(node) else ""
        columns.append((table, name, reader.convert(node)))
    reader.preferred_name = ""
    return columns


def _best(
    context: Context,
    select: exp.Expr,
    groups: Relation,
    window: AssignedWindow,
    reader: GroupReader,
) -> Relation:
    """The best groups of each window; ties are kept whole."""
    order, limit = select.args["order"], select.args["limit"]
    if window.end is None or window.helper is not None:
        context.text.refuse_node(
            order, "groups are ranked in windows over time, which all of them share."
        )
    if len(order.expressions) != 1:
        context.text.refuse_node(order, "ORDER BY ranks groups by one value here.")
    number = limit.expression
    if not isinstance(number, exp.Literal) or not number.name.isdigit() or int(number.name) < 1:
        context.text.refuse_node(limit, "LIMIT takes a whole number, at least one.")
    ranked = order.expressions[0]
    if isinstance(ranked.this, exp.Literal):
        context.text.refuse_node(ranked, "ORDER BY names what ranks; a constant ranks nothing.")
    if ranked.args.get("nulls_first"):
        context.text.refuse_node(
            ranked, "groups without a value come last here; leave NULLS FIRST out."
        )
    by = reader.convert(ranked.this)
    with context.text.at(order):
        together = groups.stream.with_columns(_window=Column(START)).group_by("_window")
        return replace(
            groups,
            stream=together.top_k(
                int(number.name), by=by, descending=bool(ranked.args.get("desc"))
            ),
        )


def _aggregate(
    context: Context,
    select: exp.Expr,
    grouping: Grouping,
    reader: GroupReader,
    needed: frozenset[str],
) -> Relation:
    window, stream = grouping.window, grouping.rows
    calls = dict(reader.calls)
    if reader.distincts and (window.size is None or window.several):
        call = next(iter(reader.distincts.values()))
        context.text.refuse_node(
            select,
            f"{call}: distinct values are aggregated in windows over time (TUMBLE, HOP, RANGE and "
            "SLIDE).",
        )
    if window.helper is not None and window.helper[0] in needed:
        calls[window.helper[0]] = window.helper[1]
    if not calls and not reader.modules and not reader.distincts:
        calls["count"] = count()
    with context.text.at(select.args.get("group") or select.expressions[0]):
        answers = united(
            [_in_windows(stream, grouping.columns, kind, calls, reader) for kind in window.kinds]
        )
    return Relation(answers, tuple(Field(name, Column(name)) for name in answers.schema.names))


def _in_windows(
    stream: Stream,
    keys: tuple[str, ...],
    window: AssignedWindow,
    calls: dict[str, AggregateCall],
    reader: GroupReader,
) -> Stream:
    """The aggregates of groups in one kind of window, joined from what is computed apart."""
    windowed = window.apply(GroupedStream(stream.node, keys))
    parts = [windowed.aggregate(calls)] if calls else []
    parts += [answer(windowed, call, name) for name, call in reader.modules.items()]
    parts += [
        distinct_answer(stream, keys, window, call, name) for name, call in reader.distincts.items()
    ]
    answers = Stream(side_by_side([part.node for part in parts], keys))
    if window.added_end is not None:
        columns = (*unchanged(answers.schema.names), window.added_end)
        answers = Stream(nodes.Select(answers.node, columns))
    return answers

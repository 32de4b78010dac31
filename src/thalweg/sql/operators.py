"""User-defined operators by their registered names, in SELECT: any number of rows for a window.

    SELECT srcIP, charts.head_and_shoulders(price, width => 3) [RANGE ...] FROM ... GROUP BY srcIP

The call stands for the columns that the operator gives. Beside it there is room for the keys of the
group, and for the edges of the window where rows live as long as their window. What is computed
from its columns stands in a query around it, or in HAVING. Inputs and parameters are given as those
of an aggregate (`sql.modules`).
"""

from __future__ import annotations

from sqlglot import exp

from thalweg.expr import Column, Expr
from thalweg.plan.expressions import START
from thalweg.plan.nodes import WindowApply
from thalweg.sql.aggregates import is_aggregate, registered
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.grouping import Grouping
from thalweg.sql.groups import GroupReader
from thalweg.sql.modules import answer, read_module, united
from thalweg.sql.projection import ResultColumns, item_value, project
from thalweg.sql.relations import WINDOW_END, WINDOW_START, Field, Relation
from thalweg.stream import GroupedStream, Stream
from thalweg.udm import DEFAULT

__all__ = ["operator_item", "operator_rows"]


def operator_item(context: Context, select: exp.Expr) -> exp.Expr | None:
    """The item of a SELECT that calls an operator; refused beside what gives one row."""
    called = [item for item in select.expressions if _is_operator(_bare(item))]
    if not called:
        for item in select.expressions:
            inner = next((node for node in item.walk() if _is_operator(node)), None)
            if inner is not None:
                context.text.refuse_node(
                    inner,
                    f"{inner.this} gives rows, not a value; compute with its columns in a query "
                    "around it.",
                )
        return None
    for item in select.expressions:
        if item is not called[0] and (_is_operator(_bare(item)) or is_aggregate(_bare(item))):
            context.text.refuse_node(
                item,
                f"{_bare(called[0]).this} gives any number of rows for a window; write two queries "
                "and join them.",
            )
    found: exp.Expr = called[0]
    return found


def _bare(item: exp.Expr) -> exp.Expr:
    node: exp.Expr = item.this if isinstance(item, exp.Alias) else item
    return node


def _is_operator(node: exp.Expr) -> bool:
    named = isinstance(node, exp.Anonymous) and isinstance(node.this, str)
    return named and registered(node.this, "operator")


def operator_rows(
    context: Context,
    select: exp.Expr,
    item: exp.Expr,
    grouping: Grouping,
) -> Relation:
    """The rows that an operator makes of each window."""
    for part in ("order", "limit"):
        if select.args.get(part) is not None:
            context.text.refuse_node(
                select.args[part], "the rows of an operator are not ranked; its own rank is."
            )
    node = _bare(item)
    with context.text.at(node):
        module = DEFAULT.find(node.this)
    call = read_module(RowReader(context, grouping.relation), module, node)
    with context.text.at(node):
        stream = GroupedStream(grouping.rows.node, grouping.columns)
        parts = [answer(kind.apply(stream), call) for kind in grouping.window.kinds]
    rows = united(parts)
    outputs = [name for name in rows.schema.names if name not in grouping.columns]
    names = {**_edges(grouping, parts[0]), **{name: Column(name) for name in outputs}}
    reader = GroupReader(context, grouping.relation, grouping.keys, names)
    columns: ResultColumns = []
    for entry in select.expressions:
        if entry is item:
            columns += [("", name, Column(name)) for name in _called(context, item, outputs)]
            continue
        table, value = item_value(entry)
        columns.append((table, entry.alias_or_name, reader.convert(value)))
    having = select.args.get("having")
    if having is not None:
        kept = reader.convert(having.this)
        with context.text.at(having):
            rows = rows.where(kept)
    if isinstance(item, exp.Alias) and len(outputs) == 1:
        rows = rows.rename(**{outputs[0]: item.alias})
    fields = tuple(Field(name, Column(name)) for name in rows.schema.names)
    return project(context, select, Relation(rows, fields), columns)


def _called(context: Context, item: exp.Expr, outputs: list[str]) -> list[str]:
    """The names of the operator's columns in the result."""
    if not isinstance(item, exp.Alias):
        return outputs
    if len(outputs) > 1:
        context.text.refuse_node(
            item, f"{_bare(item).this} gives the columns {', '.join(outputs)}; AS names one."
        )
    return [item.alias]


def _edges(grouping: Grouping, rows: Stream) -> dict[str, Expr]:
    """The edges of the window, where the rows live as long as it does."""
    start = grouping.relation.clocked(Column(START))
    if not isinstance(rows.node, WindowApply) or not rows.node.stamping.by_window:
        return {START: start}
    edges = {START: start, WINDOW_START: start}
    if grouping.window.end is not None:
        edges[WINDOW_END] = grouping.relation.clocked(grouping.window.end)
    return edges

"""SELECT: columns, or groups in windows with their aggregates.

SELECT ... FROM ... WHERE ...                rows: a filter and a projection (`projection`)
... an aggregate, a window or GROUP BY ...   one row for each group and window; HAVING keeps
                                             some of them (`aggregation`)
... an operator of a user ...                any number of rows for a window (`operators`)
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from thalweg.sql.aggregates import has_aggregate
from thalweg.sql.aggregation import aggregate_groups
from thalweg.sql.expressions import Context
from thalweg.sql.from_clause import Query, read_from
from thalweg.sql.grouping import grouping_of
from thalweg.sql.operators import operator_item, operator_rows
from thalweg.sql.over import with_overs
from thalweg.sql.projection import project_rows
from thalweg.sql.relations import Relation
from thalweg.sql.syntax import WindowClause, Windowed

__all__ = ["compile_select"]

_UNDERSTOOD = {
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "distinct",
    "with_",
    "order",
    "limit",
}


def compile_select(context: Context, select: exp.Expr, query: Query) -> Relation:
    """One SELECT as a relation."""
    _refuse_unknown(context, select)
    if not select.expressions:
        context.text.refuse_node(select, "SELECT names nothing; say which columns, or *.")
    clause = _take_clause(context, select)
    relation = read_from(context, select, query, clause)
    relation = with_overs(context, select, relation)
    operator = operator_item(context, select)
    grouped = bool(
        clause is not None
        or operator is not None
        or select.args.get("group")
        or select.args.get("having")
        or any(map(has_aggregate, select.expressions))
    )
    _refuse_order(context, select, grouped=grouped)
    if operator is not None:
        grouping = grouping_of(context, select, relation, clause)
        result = operator_rows(context, select, operator, grouping)
    elif grouped:
        result = aggregate_groups(context, select, relation, clause)
    else:
        result = project_rows(context, select, relation)
    if select.args.get("distinct"):
        if select.args["distinct"].args.get("on"):
            context.text.refuse_node(select.args["distinct"], "DISTINCT ON is not known here.")
        result = replace(result, stream=result.stream.distinct())
    return result


def _refuse_unknown(context: Context, select: exp.Expr) -> None:
    clauses = {key for key, value in select.args.items() if value not in (None, False, [])}
    for key in sorted(clauses - _UNDERSTOOD):
        part = select.args[key]
        node = part if isinstance(part, exp.Expr) else select
        context.text.refuse_node(
            node, f"{key.rstrip('_').upper()} has no meaning for a stream here."
        )


def _refuse_order(context: Context, select: exp.Expr, *, grouped: bool) -> None:
    """ORDER BY and LIMIT rank the groups of a window, together."""
    order, limit = select.args.get("order"), select.args.get("limit")
    if order is None and limit is None:
        return
    if order is None or limit is None or not grouped:
        node = limit if order is None else order
        assert node is not None
        context.text.refuse_node(
            node,
            "a stream has no end to be sorted. The best groups of each window are ORDER BY ... "
            "LIMIT n, with a window.",
        )


def _take_clause(context: Context, select: exp.Expr) -> WindowClause | None:
    """The window in brackets; it is taken out of the tree."""
    found: list[WindowClause] = []
    parts = [*select.expressions, *([select.args["having"]] if select.args.get("having") else [])]
    for part in parts:
        for node in [node for node in part.walk() if isinstance(node, Windowed)]:
            found.append(node.args["clause"])
            node.replace(node.this)
    for clause in found[1:]:
        if clause.key() != found[0].key():
            context.text.refuse_place(
                clause.place,
                "two different windows in one SELECT; write two queries and join them.",
            )
    return found[0] if found else None

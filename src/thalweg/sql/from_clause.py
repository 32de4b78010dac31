"""FROM and WHERE: the streams, their joins, and which rows are kept."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from thalweg.expr import Column
from thalweg.plan.join_kinds import ASOF_KINDS, JoinName
from thalweg.sql.expressions import Context, RowReader, conjuncts
from thalweg.sql.joins import Input, Stay, asof_join, at_the_latest, join, stay_of, staying
from thalweg.sql.pairs import on_conditions, using_conditions
from thalweg.sql.projection import is_star
from thalweg.sql.relations import Relation
from thalweg.sql.streams import Query, read_stream
from thalweg.sql.syntax import WindowClause

__all__ = ["Query", "read_from"]

_JOINS: dict[tuple[str, str], JoinName] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("", "SEMI"): "semi",
    ("LEFT", "SEMI"): "semi",
    ("", "ANTI"): "anti",
    ("LEFT", "ANTI"): "anti",
}


def read_from(
    context: Context, select: exp.Expr, query: Query, clause: WindowClause | None
) -> Relation:
    """The relation that SELECT works on: everything in FROM, with WHERE applied. `clause` is the
    window of the aggregates."""
    first = select.args.get("from_")
    if first is None:
        context.text.refuse_node(select, "a query reads streams; FROM is missing.")
    joins = select.args.get("joins") or []
    conditions = conjuncts(select.args["where"].this) if select.args.get("where") else []
    if not joins:
        relation, behind = read_stream(context, first.this, query)
        if behind is not None:
            context.text.refuse_place(
                behind.place,
                "a window behind a stream is for a join; that of an aggregate stands behind the "
                "aggregate.",
            )
        return _where(context, relation, conditions, query)
    return _joined(context, first.this, joins, conditions, query, _used(select, clause))


def _used(select: exp.Expr, clause: WindowClause | None) -> frozenset[str] | None:
    """The columns that a query names; None where a star names all."""
    if any(is_star(item) for item in select.expressions):
        return None
    parts = () if clause is None else (clause.wa, clause.rattr, clause.sattr, *clause.pa)
    attributes = [part.name for part in parts if part is not None]
    return frozenset({*attributes, *(column.name for column in select.find_all(exp.Column))})


def _joined(
    context: Context,
    first: exp.Expr,
    joins: list[exp.Expr],
    conditions: list[exp.Expr],
    query: Query,
    used: frozenset[str] | None,
) -> Relation:
    """All streams of FROM as one relation, joined from left to right.

    Where all joins are inner ones their conditions are pooled with those of WHERE: each applies as
    soon as its streams are joined.
    """
    kinds = [_kind(context, node) for node in joins]
    inputs = _inputs(context, [first, *(node.this for node in joins)], query)
    _refuse_same_names(context, inputs)
    pooled = all(
        kind == "inner" and not _is_asof(node) for kind, node in zip(kinds, joins, strict=True)
    )
    waiting: list[exp.Expr] = []
    if pooled:
        waiting = [*conditions, *(entry for node in joins for entry in on_conditions(node))]
        inputs = [_filtered(context, item, waiting, query) for item in inputs]
        waiting = [condition for condition in waiting if len(_tables(condition, inputs)) != 1]
    times: list[str] = []
    if len(inputs) > 2 and any(item.stay is not None for item in inputs):
        if not pooled:
            context.text.refuse_node(
                joins[1],
                "outer joins with windows take two streams at a time; join the others in a "
                "subquery.",
            )
        timed_inputs = [staying(item, number) for number, item in enumerate(inputs, 1)]
        inputs, times = [item for item, _ in timed_inputs], [name for _, name in timed_inputs]
        used = None if used is None else used | set(times)
    result = inputs[0]
    for node, kind, item in zip(joins, kinds, inputs[1:], strict=True):
        on = on_conditions(node)
        if pooled:
            on, waiting = _ready(waiting, inputs, [result, item])
        on = [*using_conditions(context, node, result.relation, item.relation), *on]
        if _is_asof(node):
            joined = asof_join(context, result, item, on, kind, used)
        else:
            joined = join(context, result, item, on, kind, used)
        result = Input(joined, None, item.node)
    relation = at_the_latest(result.relation, times) if times else result.relation
    return _where(context, relation, waiting if pooled else conditions, query)


def _refuse_same_names(context: Context, inputs: list[Input]) -> None:
    tables = [table for item in inputs for table in item.relation.tables]
    for item in inputs[1:]:
        twice = [table for table in item.relation.tables if tables.count(table) > 1]
        if twice:
            context.text.refuse_node(
                item.node, f"two streams are called {twice[0]!r}; name them with AS."
            )


def _ready(
    waiting: list[exp.Expr], inputs: list[Input], joined: list[Input]
) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The conditions that read nothing but streams that are joined now, and the others."""
    there = frozenset(table for item in joined for table in item.relation.tables)
    applies = [_tables(condition, inputs) <= there for condition in waiting]
    marked = list(zip(waiting, applies, strict=True))
    return [each for each, now in marked if now], [each for each, now in marked if not now]


def _inputs(context: Context, nodes: list[exp.Expr], query: Query) -> list[Input]:
    read = [(*read_stream(context, node, query), node) for node in nodes]
    common = next(
        (clause for _, clause, _ in reversed(read) if clause is not None and clause.tumbling), None
    )
    inputs = []
    for relation, clause, node in read:
        # the tumbling window of a join is one for all its inputs
        chosen = clause if common is None else common
        if common is not None and clause is not None and clause.key() != common.key():
            context.text.refuse_place(
                clause.place, "the windows of a tumbling join must be the same on all its streams."
            )
        inputs.append(
            Input(relation, None if chosen is None else stay_of(context, relation, chosen), node)
        )
    return [_with_function_window(context, item, inputs) for item in inputs]


def _with_function_window(context: Context, item: Input, inputs: list[Input]) -> Input:
    """Streams that went through TUMBLE meet in the windows that it gave them."""
    sizes = {
        (
            None
            if each.relation.window is None
            else (each.relation.window.size, each.relation.window.offset)
        )
        for each in inputs
    }
    if sizes == {None}:
        return item
    window = item.relation.window
    if (
        len(sizes) > 1
        or window is None
        or not window.is_tumbling
        or window.size is None
        or window.offset
        or item.stay is not None
    ):
        context.text.refuse_node(
            item.node,
            "streams with windows of functions are joined when all of them have the same TUMBLE, "
            "without offset.",
        )
    return replace(item, stay=Stay(window.size, tumbling=True))


def _kind(context: Context, node: exp.Expr) -> JoinName:
    side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
    if (side, kind) not in _JOINS or (_is_asof(node) and _JOINS[side, kind] not in ASOF_KINDS):
        join_kind = " ".join(
            word for word in (str(node.args.get("method") or ""), side, kind) if word
        )
        context.text.refuse_node(
            node,
            f"{join_kind} JOIN is not known here; there are JOIN, LEFT, RIGHT, FULL, SEMI, ANTI and"
            " ASOF JOIN.",
        )
    return _JOINS[side, kind]


def _is_asof(node: exp.Expr) -> bool:
    return str(node.args.get("method") or "").upper() == "ASOF"


def _tables(node: exp.Expr, inputs: list[Input]) -> frozenset[str]:
    """The streams whose columns a condition reads."""
    found = set()
    for column in _outer(node).find_all(exp.Column):
        name, table = column.this.this, column.text("table")
        found |= {field.table for item in inputs for field in item.relation.find(name, table)[:1]}
    return frozenset(found)


def _outer(condition: exp.Expr) -> exp.Expr:
    """What a condition reads of the streams here; a query inside it reads its own."""
    inside = isinstance(condition, exp.In) and condition.args.get("query") is not None
    return condition.this if inside else condition


def _filtered(context: Context, item: Input, conditions: list[exp.Expr], query: Query) -> Input:
    own_conditions = [
        condition
        for condition in conditions
        if len(found := _tables(condition, [item])) == 1 and _only(condition, item.relation, found)
    ]
    return replace(item, relation=_where(context, item.relation, own_conditions, query))


def _only(condition: exp.Expr, relation: Relation, tables: frozenset[str]) -> bool:
    return bool(tables) and all(
        relation.find(column.this.this, column.text("table"))
        for column in _outer(condition).find_all(exp.Column)
    )


def _where(
    context: Context, relation: Relation, conditions: list[exp.Expr], query: Query
) -> Relation:
    for condition in conditions:
        if isinstance(condition, exp.In) and condition.args.get("query") is not None:
            relation = _among(context, relation, condition, query)
            continue
        expr = RowReader(context, relation).convert(condition)
        with context.text.at(condition):
            relation = replace(relation, stream=relation.stream.where(expr))
    return relation


def _among(context: Context, relation: Relation, condition: exp.Expr, query: Query) -> Relation:
    """x IN (SELECT ...): the rows while the query has a row of that value."""
    value = RowReader(context, relation).convert(condition.this)
    found = query(context, condition.args["query"]).shown()
    names = found.stream.schema.names
    if len(names) != 1:
        context.text.refuse_node(
            condition, f"IN takes a query of one column; this one has {', '.join(names)}."
        )
    with context.text.at(condition):
        return replace(
            relation,
            stream=relation.stream.join(found.stream, {str(value): Column(names[0])}, how="semi"),
        )

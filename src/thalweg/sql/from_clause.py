"""FROM and WHERE: streams by name, unions, subqueries, table functions, and their joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.sql.expressions import Context, RowReader, conjuncts
from thalweg.sql.joins import Input, JoinKind, Stay, asof_join, at_the_latest, join, stay_of, staying
from thalweg.sql.pairs import on_conditions, using_conditions
from thalweg.sql.relations import Relation
from thalweg.sql.syntax import StreamUnion, TableFunction, WindowClause
from thalweg.sql.table_functions import window_of_function
from thalweg.stream import Stream

__all__ = ["Query", "read_from"]

Query = Callable[[Context, exp.Expr], Relation]
"""What compiles a query inside FROM."""

_JOINS: dict[tuple[str, str], JoinKind] = {
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


def read_from(context: Context, select: exp.Expr, query: Query, clause: WindowClause | None) -> Relation:
    """The relation that SELECT works on: everything in FROM, with WHERE applied. `clause` is the window of the aggregates."""
    first = select.args.get("from_")
    if first is None:
        context.text.refuse_node(select, "a query reads streams; FROM is missing.")
    joins = select.args.get("joins") or []
    conditions = conjuncts(select.args["where"].this) if select.args.get("where") else []
    if not joins:
        relation, behind = _stream(context, first.this, query)
        if behind is not None:
            context.text.refuse_place(
                behind.place, "a window behind a stream is for a join; that of an aggregate stands behind the aggregate."
            )
        return _where(context, relation, conditions)
    return _joined(context, first.this, joins, conditions, query, _used(select, clause))


def _used(select: exp.Expr, clause: WindowClause | None) -> frozenset[str] | None:
    """The columns that a query names; None where a star names all."""
    stars = [
        item
        for item in select.expressions
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
    ]
    parts = () if clause is None else (clause.wa, clause.rattr, clause.sattr, *clause.pa)
    attributes = [part.name for part in parts if part is not None]
    return None if stars else frozenset({*attributes, *(column.name for column in select.find_all(exp.Column))})


def _joined(
    context: Context,
    first: exp.Expr,
    joins: list[exp.Expr],
    conditions: list[exp.Expr],
    query: Query,
    used: frozenset[str] | None,
) -> Relation:
    kinds = [_kind(context, node) for node in joins]
    inputs = _inputs(context, [first, *(node.this for node in joins)], query)
    tables = [table for item in inputs for table in item.relation.tables]
    for item in inputs[1:]:
        twice = [table for table in item.relation.tables if tables.count(table) > 1]
        if twice:
            context.text.refuse_node(item.node, f"two streams are called {twice[0]!r}; name them with AS.")
    pooled = all(kind == "inner" and not _is_asof(node) for kind, node in zip(kinds, joins, strict=True))
    waiting = conditions if pooled else []
    if pooled:
        for node in joins:
            waiting = [*waiting, *on_conditions(node)]
        inputs = [_filtered(context, item, waiting) for item in inputs]
        waiting = [condition for condition in waiting if len(_tables(condition, inputs)) != 1]
    times: list[str] = []
    if len(inputs) > 2 and any(item.stay is not None for item in inputs):
        if not pooled:
            context.text.refuse_node(joins[1], "outer joins with windows take two streams at a time; join the others in a subquery.")
        made = [staying(item, number) for number, item in enumerate(inputs, 1)]
        inputs, times = [item for item, _ in made], [name for _, name in made]
        used = None if used is None else used | set(times)
    result = inputs[0]
    for node, kind, item in zip(joins, kinds, inputs[1:], strict=True):
        there = [result, item]
        ready = using_conditions(context, node, result.relation, item.relation)
        if pooled:
            ready += [condition for condition in waiting if _tables(condition, inputs) <= _tables_of(there)]
            waiting = [condition for condition in waiting if not any(condition is one for one in ready)]
        else:
            ready += on_conditions(node)
        if _is_asof(node):
            joined = asof_join(context, result, item, ready, kind, used)
        else:
            joined = join(context, result, item, ready, kind, used)
        result = Input(joined, None, item.node)
    relation = at_the_latest(result.relation, times) if times else result.relation
    return _where(context, relation, waiting if pooled else conditions)


def _inputs(context: Context, nodes: list[exp.Expr], query: Query) -> list[Input]:
    read = [(*_stream(context, node, query), node) for node in nodes]
    common = next((clause for _, clause, _ in reversed(read) if clause is not None and clause.tumbling), None)
    inputs = []
    for relation, clause, node in read:
        chosen = clause if common is None else common  # the tumbling window of a join is one for all its inputs
        if common is not None and clause is not None and clause.key() != common.key():
            context.text.refuse_place(clause.place, "the windows of a tumbling join must be the same on all its streams.")
        inputs.append(Input(relation, None if chosen is None else stay_of(context, relation, chosen), node))
    return [_with_function_window(context, item, inputs) for item in inputs]


def _with_function_window(context: Context, item: Input, inputs: list[Input]) -> Input:
    """Streams that went through TUMBLE meet in the windows that it gave them."""
    sizes = {None if one.relation.window is None else (one.relation.window.size, one.relation.window.offset) for one in inputs}
    if sizes == {None}:
        return item
    window = item.relation.window
    if len(sizes) > 1 or window is None or not window.is_tumbling or window.size is None or window.offset or item.stay is not None:
        context.text.refuse_node(
            item.node, "streams with windows of functions are joined when all of them have the same TUMBLE, without offset."
        )
    return replace(item, stay=Stay(window.size, tumbling=True))


def _kind(context: Context, node: exp.Expr) -> JoinKind:
    side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
    if (side, kind) not in _JOINS or (_is_asof(node) and _JOINS[side, kind] not in ("inner", "left")):
        said = " ".join(word for word in (str(node.args.get("method") or ""), side, kind) if word)
        context.text.refuse_node(node, f"{said} JOIN is not known here; there are JOIN, LEFT, RIGHT, FULL, SEMI, ANTI and ASOF JOIN.")
    return _JOINS[side, kind]


def _is_asof(node: exp.Expr) -> bool:
    return str(node.args.get("method") or "").upper() == "ASOF"


def _tables(node: exp.Expr, inputs: list[Input]) -> frozenset[str]:
    """The streams whose columns a condition reads."""
    found = set()
    for column in node.find_all(exp.Column):
        name, table = column.this.this, column.text("table")
        found |= {field.table for item in inputs for field in item.relation.find(name, table)[:1]}
    return frozenset(found)


def _tables_of(inputs: list[Input]) -> frozenset[str]:
    return frozenset(table for item in inputs for table in item.relation.tables)


def _filtered(context: Context, item: Input, conditions: list[exp.Expr]) -> Input:
    mine = [
        condition for condition in conditions if len(found := _tables(condition, [item])) == 1 and _only(condition, item.relation, found)
    ]
    return replace(item, relation=_where(context, item.relation, mine))


def _only(condition: exp.Expr, relation: Relation, tables: frozenset[str]) -> bool:
    return bool(tables) and all(relation.find(column.this.this, column.text("table")) for column in condition.find_all(exp.Column))


def _where(context: Context, relation: Relation, conditions: list[exp.Expr]) -> Relation:
    for condition in conditions:
        expr = RowReader(context, relation).convert(condition)
        with context.text.at(condition):
            relation = replace(relation, stream=relation.stream.where(expr))
    return relation


# ---------------------------------------------------------------------------------------------------- one stream


def _stream(context: Context, node: exp.Expr, query: Query) -> tuple[Relation, WindowClause | None]:
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        context.text.refuse_node(alias, "a stream is named without a list of columns; rename them in a subquery.")
    relation = _unnamed(context, node, query)
    if alias is not None:
        relation = relation.called(alias.name)
    clause = node.args.get("window")
    return relation, clause if isinstance(clause, WindowClause) else None


_UNDERSTOOD = {
    "Table": {"this", "alias", "window"},
    "Subquery": {"this", "alias", "window"},
    "StreamUnion": {"expressions", "alias", "window"},
    "TableFunction": {"this", "table", "partition", "expressions", "names", "alias", "window"},
}


def _unnamed(context: Context, node: exp.Expr, query: Query) -> Relation:
    said = {key for key, value in node.args.items() if value not in (None, False, [])}
    if not said <= _UNDERSTOOD.get(type(node).__name__, set()):
        context.text.refuse_node(node, f"{context.text.said(node)} is not a stream.")
    if isinstance(node, exp.Table):
        return _named(context, node)
    if isinstance(node, StreamUnion):
        return _union(context, node, query)
    if isinstance(node, TableFunction):
        return _windowed(context, node, query)
    inner = node.this
    if inner is None:
        context.text.refuse_node(node.parent or node, "a stream, or a query between parentheses, is expected in FROM.")
    streams = isinstance(inner, (exp.Table, StreamUnion, TableFunction))
    return _stream(context, inner, query)[0] if streams else query(context, inner)


def _named(context: Context, node: exp.Expr) -> Relation:
    name = node.this.name if isinstance(node.this, exp.Identifier) else ""
    known = context.relations
    if name not in known:
        listed = ", ".join(known) or "none"
        context.text.refuse_node(
            node, f"unknown stream {name or context.text.said(node)!r}{did_you_mean(name, known)} Streams here: {listed}."
        )
    return known[name].called(name)


def _union(context: Context, node: exp.Expr, query: Query) -> Relation:
    """The rows of all, under the name of none."""
    members = [_stream(context, member, query)[0] for member in node.expressions]
    with context.text.at(node):
        stream: Stream = members[0].stream.union(*(member.stream for member in members[1:]))
    times = [{field.name for field in member.fields if field.is_time} for member in members]
    common = set.intersection(*times)
    fields = [field for field in members[0].fields if not field.is_time or field.name in common]
    return Relation(stream, tuple(replace(field, table="") for field in fields))


def _windowed(context: Context, node: TableFunction, query: Query) -> Relation:
    table = node.args.get("table")
    if table is None:
        context.text.refuse_node(node, f"{node.this} in FROM takes a stream first: {node.this}(TABLE Main, DESCRIPTOR(ts), ...).")
    relation, _ = _stream(context, table, query)
    return window_of_function(context, relation, node)

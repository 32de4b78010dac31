"""One entry of FROM: a stream by name, a union of streams, a subquery, a table function, or a
sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.sql.expressions import Context
from thalweg.sql.relations import Relation
from thalweg.sql.sequences import sequence_of
from thalweg.sql.syntax import SequenceClause, StreamUnion, TableFunction, WindowClause
from thalweg.sql.table_functions import window_of_function
from thalweg.stream import Stream

__all__ = ["Query", "read_stream"]

Query = Callable[[Context, exp.Expr], Relation]
"""What compiles a query inside FROM."""


def read_stream(
    context: Context, node: exp.Expr, query: Query
) -> tuple[Relation, WindowClause | None]:
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        context.text.refuse_node(
            alias, "a stream is named without a list of columns; rename them in a subquery."
        )
    relation = _unnamed(context, node, query)
    if alias is not None:
        relation = relation.called(alias.name)
    clause = node.args.get("window")
    return relation, clause if isinstance(clause, WindowClause) else None


_UNDERSTOOD: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Table: frozenset({"this", "db", "alias", "window"}),
    exp.Subquery: frozenset({"this", "alias", "window"}),
    StreamUnion: frozenset(StreamUnion.arg_types),
    SequenceClause: frozenset(SequenceClause.arg_types) - {"alias", "window"},
    TableFunction: frozenset(TableFunction.arg_types),
}
"""What may stand in FROM, and which of its parts are read; anything else is refused."""


def _unnamed(context: Context, node: exp.Expr, query: Query) -> Relation:
    clauses = {key for key, value in node.args.items() if value not in (None, False, [])}
    if not clauses <= _UNDERSTOOD.get(type(node), frozenset()):
        context.text.refuse_node(node, f"{context.text.written(node)} is not a stream.")
    if isinstance(node, exp.Table):
        return _named(context, node)
    if isinstance(node, StreamUnion):
        return _union(context, node, query)
    if isinstance(node, TableFunction):
        return _windowed(context, node, query)
    if isinstance(node, SequenceClause):
        steps = [read_stream(context, step, query)[0] for step in node.expressions]
        absent = {at: read_stream(context, table, query)[0] for at, table in node.args["absent"]}
        return sequence_of(context, node, steps, absent)
    inner = node.this
    if inner is None:
        context.text.refuse_node(
            node.parent or node, "a stream, or a query between parentheses, is expected in FROM."
        )
    streams = isinstance(inner, (exp.Table, StreamUnion, TableFunction))
    return read_stream(context, inner, query)[0] if streams else query(context, inner)


def _named(context: Context, node: exp.Expr) -> Relation:
    name = node.this.name if isinstance(node.this, exp.Identifier) else ""
    relations = context.relations
    if node.args.get("db"):
        written = context.text.written(node)
        context.text.refuse_node(
            node,
            f"{written} is not a stream: its name is one word. `thalweg sql` reads a file between "
            f"single quotes, FROM '{written}'.",
        )
    if name not in relations:
        listed = ", ".join(relations) or "none"
        context.text.refuse_node(
            node,
            f"unknown stream {name or context.text.written(node)!r}{did_you_mean(name, relations)} "
            f"Streams here: {listed}.",
        )
    return relations[name].called(name)


def _union(context: Context, node: exp.Expr, query: Query) -> Relation:
    """The union of the streams; its columns have no table name."""
    members = [read_stream(context, member, query)[0] for member in node.expressions]
    with context.text.at(node):
        stream: Stream = members[0].stream.union(*(member.stream for member in members[1:]))
    times = [{field.name for field in member.fields if field.is_time} for member in members]
    common = set.intersection(*times)
    fields = [field for field in members[0].fields if not field.is_time or field.name in common]
    return Relation(stream, tuple(replace(field, table="") for field in fields))


def _windowed(context: Context, node: TableFunction, query: Query) -> Relation:
    table = node.args.get("table")
    if table is None:
        context.text.refuse_node(
            node,
            f"{node.this} in FROM takes a stream first: {node.this}(TABLE Main, DESCRIPTOR(ts), "
            "...).",
        )
    relation, _ = read_stream(context, table, query)
    return window_of_function(context, relation, node)

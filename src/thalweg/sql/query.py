"""A whole query: WITH, UNION, SELECT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from sqlglot import exp

from thalweg.sql.expressions import Context
from thalweg.sql.relations import Relation, base_relation, time_name
from thalweg.sql.select import compile_select
from thalweg.sql.text import TOO_DEEP, SqlText
from thalweg.stream import Stream

__all__ = ["compile_query"]


def compile_query(
    text: str,
    streams: Mapping[str, Stream],
    time: Mapping[str, str] | str,
    parameters: Mapping[str, object],
    views: Mapping[str, str] = MappingProxyType({}),
) -> Stream:
    """The stream that a query describes."""
    source = SqlText(text)
    try:
        return _compile(source, streams, time, parameters, views)
    except RecursionError:
        source.refuse(TOO_DEEP, 0)


def _compile(
    source: SqlText,
    streams: Mapping[str, Stream],
    time: Mapping[str, str] | str,
    parameters: Mapping[str, object],
    views: Mapping[str, str],
) -> Stream:
    names = {name: time if isinstance(time, str) else time.get(name, "ts") for name in streams}
    relations = {
        name: base_relation(name, stream, time_name(stream, names[name]))
        for name, stream in streams.items()
    }
    for name, view in views.items():
        text_of_view = SqlText(view)
        context = Context(text_of_view, relations, parameters)
        relations[name] = _query(context, text_of_view.tree()).called(name)
    return _query(Context(source, relations, parameters), source.tree()).shown().stream


def _query(context: Context, node: exp.Expr) -> Relation:
    with_ = node.args.get("with_")
    if with_ is not None:
        context = _with(context, with_)
    if isinstance(node, (exp.Subquery, exp.Union)):
        _refuse_rank(context, node)
    if isinstance(node, exp.Subquery):
        return _query(context, node.this)
    if isinstance(node, exp.Union):
        return _union(context, node)
    if not isinstance(node, exp.Select):
        context.text.refuse_node(node, "a query is expected: SELECT ... FROM ...")
    return compile_select(context, node, _query)


def _refuse_rank(context: Context, node: exp.Expr) -> None:
    """ORDER BY and LIMIT behind a UNION or a query in brackets."""
    for part in ("order", "limit", "offset"):
        if node.args.get(part):
            context.text.refuse_node(
                node.args[part],
                "a stream has no end to be sorted; ORDER BY and LIMIT rank the groups of one SELECT"
                " with a window.",
            )


def _with(context: Context, node: exp.Expr) -> Context:
    if node.args.get("recursive"):
        context.text.refuse_node(node, "WITH RECURSIVE is not known here.")
    relations = dict(context.relations)
    for entry in node.expressions:
        alias = entry.args["alias"]
        if alias.args.get("columns"):
            context.text.refuse_node(alias, "name the columns inside the query: SELECT x AS y.")
        relations[alias.name] = _query(replace(context, relations=relations), entry.this).called(
            alias.name
        )
    return replace(context, relations=relations)


def _union(context: Context, node: exp.Expr) -> Relation:
    """All queries of a chain of UNIONs, without recursion: the tree is as deep as the chain is
    long."""
    steps: list[exp.Expr] = []
    while isinstance(node, exp.Union):
        steps.append(node)
        node = node.this
    found = _query(context, node)
    while steps:
        step = steps.pop()
        found = _united(context, step, found)
        again = bool(steps) and bool(steps[-1].args.get("distinct"))
        if (
            step.args.get("distinct") and not again
        ):  # what is united once more is made distinct then
            found = replace(found, stream=found.stream.distinct())
    return found


def _united(context: Context, node: exp.Expr, left: Relation) -> Relation:
    """UNION ALL: the rows of both sides, duplicates included."""
    sides = [left, _query(context, node.expression)]
    marks = [[field.is_ticks for field in side.fields if field.shown] for side in sides]
    if marks[0] != marks[1]:
        sides = [side.shown() for side in sides]
    left, right = sides
    stream = right.stream
    if stream.schema.names != left.stream.schema.names and len(stream.schema) == len(
        left.stream.schema
    ):
        stream = stream.rename(
            **dict(zip(stream.schema.names, left.stream.schema.names, strict=True))
        )
    with context.text.at(node.expression):
        both = left.stream.union(stream)
    times = [[field.is_time for field in side.fields if field.shown] for side in sides]
    shown = [field for field in left.fields if field.shown]
    fields = [
        replace(field, is_time=all(marks)) for field, *marks in zip(shown, *times, strict=False)
    ]
    hidden = [
        field
        for field in left.fields
        if not field.shown and any(field.name == other.name for other in right.fields)
    ]
    return Relation(both, (*fields, *hidden))

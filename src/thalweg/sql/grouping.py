"""GROUP BY: what the rows are grouped by, and over which window.

The window comes from brackets behind an aggregate, from a table function in FROM or from one in
GROUP BY. Without any of them a group must have the time, or a column that progresses, among its
keys: it is complete when time has passed it, and so is the window of one tick.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from thalweg.expr import Column
from thalweg.plan.expressions import START
from thalweg.plan.nodes.arrivals import ARRIVED
from thalweg.plan.wid_windows import stamped
from thalweg.sql.aggregates import has_aggregate, is_aggregate
from thalweg.sql.assigned import AssignedWindow, hop
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.groups import Key
from thalweg.sql.relations import WINDOW_END, WINDOW_START, Field, Relation, free_name
from thalweg.sql.syntax import WindowClause
from thalweg.sql.table_functions import is_truncation, is_window_function, window_of_call
from thalweg.sql.windows import assign
from thalweg.stream import Stream

__all__ = ["Grouping", "grouping_of"]


@dataclass(frozen=True, slots=True)
class Grouping:
    """What the rows are grouped by, and the stream in which each of these is a column."""

    relation: Relation
    keys: list[Key]
    columns: tuple[str, ...]
    window: AssignedWindow
    window_call: exp.Expr | None = None
    """The window function in GROUP BY."""

    @property
    def rows(self) -> Stream:
        """The rows with the lifetimes by which the window takes them."""
        window, stream = self.window, self.relation.stream
        if window.by_arrival is not None:
            stamped_stream = Stream(stamped(stream.node, window.by_arrival))
            return stamped_stream.alter_lifetime(start=Column(ARRIVED), duration=1)
        if window.time is not None:
            return stream.alter_lifetime(start=window.time, duration=1)
        plain = not window.as_points or stream.properties.constant_duration == 1
        return stream if plain else stream.points()


def grouping_of(
    context: Context, select: exp.Expr, relation: Relation, clause: WindowClause | None
) -> Grouping:
    """GROUP BY of a SELECT, with the columns that it needs added to the relation."""
    nodes = _group_nodes(context, select, relation)
    window = _window(context, select, relation, clause, nodes)
    keys: list[Key] = []
    columns: list[str] = []
    for node in nodes:
        if is_window_function(node, relation):
            if is_truncation(node):
                keys.append(Key(node, None, relation.clocked(Column(START))))
        elif not _names_window(node, relation):
            relation, key, column = _key(context, select, relation, node)
            keys.append(key)
            columns += [] if column is None else [column]
    for name in window.partition:
        if name not in columns:
            named = (
                field
                for field in relation.fields
                if isinstance(field.value, Column) and field.value.name == name
            )
            keys.append(Key(exp.column(name), next(named, None), Column(name)))
            columns.append(name)
    called = next((node for node in nodes if is_window_function(node, relation)), None)
    return Grouping(relation, keys, tuple(dict.fromkeys(columns)), window, called)


def _group_nodes(context: Context, select: exp.Expr, relation: Relation) -> list[exp.Expr]:
    """The expressions of GROUP BY; an alias stands for what it names."""
    group = select.args.get("group")
    if group is None:
        return []
    if {key for key, value in group.args.items() if value} - {"expressions"}:
        context.text.refuse_node(group, "GROUP BY takes columns and expressions.")
    nodes = [_without_alias(select, node.unnest(), relation) for node in group.expressions]
    for node in nodes:
        if isinstance(node, exp.Literal):
            context.text.refuse_node(node, "GROUP BY names columns; a constant groups nothing.")
    return nodes


def _key(
    context: Context, select: exp.Expr, relation: Relation, node: exp.Expr
) -> tuple[Relation, Key, str | None]:
    """The relation in which a key is a column, the key, and that column; None: it is the time."""
    field = _field_of(context, relation, node)
    value = RowReader(context, relation).convert(node) if field is None else field.value
    if field is not None and field.is_time:
        return relation, Key(node, field, relation.clocked(Column(START))), None
    if isinstance(value, Column):
        shown = relation.clocked(value) if field is not None and field.is_ticks else value
        return relation, Key(node, field, shown), value.name
    name = free_name(_key_name(select, node), relation.stream.schema.names)
    with context.text.at(node):
        relation = replace(relation, stream=relation.stream.with_columns(**{name: value}))
    return relation, Key(node, None, Column(name)), name


def _field_of(context: Context, relation: Relation, node: exp.Expr) -> Field | None:
    """The column that a key names; None for a computed key, such as a field of a struct."""
    if not isinstance(node, exp.Column) or RowReader(context, relation).inside(node) is not None:
        return None
    return relation.resolve(context.text, node)


def _without_alias(select: exp.Expr, node: exp.Expr, relation: Relation) -> exp.Expr:
    """The selected expression where GROUP BY names its alias, else the node itself."""
    if isinstance(node, exp.Column) and not node.args.get("table") and not relation.find(node.name):
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias == node.name and not has_aggregate(item):
                selected: exp.Expr = item.this
                return selected
    return node


def _names_window(node: exp.Expr, relation: Relation) -> bool:
    named = isinstance(node, exp.Column) and node.name in (WINDOW_START, WINDOW_END)
    return named and relation.window is not None


def _key_name(select: exp.Expr, node: exp.Expr) -> str:
    named = [
        item.alias
        for item in select.expressions
        if isinstance(item, exp.Alias) and item.this == node
    ]
    return str(named[0]) if named else "key"


def _window(
    context: Context,
    select: exp.Expr,
    relation: Relation,
    clause: WindowClause | None,
    nodes: list[exp.Expr],
) -> AssignedWindow:
    called = [node for node in nodes if is_window_function(node, relation)]
    if clause is not None:
        if called or relation.window is not None:
            context.text.refuse_place(
                clause.place, "this query has two windows; one of them is enough."
            )
        return assign(context, relation, clause)
    if len(called) > 1 or (called and relation.window is not None):
        context.text.refuse_node(called[-1], "this query has two windows; one of them is enough.")
    if called:
        return window_of_call(context, relation, called[0])
    if relation.window is not None:
        return relation.window
    found = [_field_of(context, relation, node) for node in nodes]
    fields = [field for field in found if field is not None]
    grouped = {field.value.name for field in fields if isinstance(field.value, Column)}
    if any(field.is_time for field in fields) or (
        relation.determine_start and set(relation.determine_start) <= grouped
    ):
        return hop(1, 1)
    progressing = [
        field.value
        for field in fields
        if relation.progresses(field) and isinstance(field.value, Column)
    ]
    if not progressing:
        aggregates = (
            node for item in select.expressions for node in item.walk() if is_aggregate(node)
        )
        context.text.refuse_node(
            next(aggregates, select.args.get("group") or select),
            "these groups never end: say over which window, [RANGE 10 minutes, SLIDE 1 minute, WA "
            "ts], or group by the time too.",
        )
    return replace(hop(1, 1), time=progressing[0])

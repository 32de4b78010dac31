"""SELECT of rows: which columns, what they are called, and which of them hold times."""

from __future__ import annotations

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.expr import Column, Expr
from thalweg.plan import nodes
from thalweg.plan.expressions import START
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.relations import Field, Relation, unique_names
from thalweg.stream import Stream

__all__ = ["ResultColumns", "column_name", "is_star", "item_value", "project", "project_rows"]

ResultColumns = list[tuple[str, str, Expr]]
"""Columns of a result: the stream they are called after, their name, their value."""


def project_rows(context: Context, select: exp.Expr, relation: Relation) -> Relation:
    """SELECT of single rows."""
    if relation.window is not None and not relation.window.is_tumbling:
        context.text.refuse_node(
            select,
            f"the windows of {relation.window.name} belong to groups: aggregate them, or use "
            "TUMBLE.",
        )
    reader = RowReader(context, relation)
    columns: ResultColumns = []
    for number, item in enumerate(select.expressions, 1):
        if is_star(item):
            columns += [
                (field.table, field.name, relation.read(field))
                for field in _columns_of_star(context, relation, item)
            ]
            continue
        table, node = item_value(item)
        columns.append((table, column_name(item, number), reader.convert(node)))
    return project(context, select, relation, columns)


def item_value(item: exp.Expr) -> tuple[str, exp.Expr]:
    """Of an item of SELECT: the stream that a column without an alias is called after, and what
    the item computes."""
    node = item.this if isinstance(item, exp.Alias) else item
    return node.text("table") if isinstance(item, exp.Column) else "", node


def is_star(item: exp.Expr) -> bool:
    """Whether an item of SELECT is `*` or `stream.*`."""
    return isinstance(item, exp.Star) or (
        isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    )


def _columns_of_star(context: Context, relation: Relation, item: exp.Expr) -> list[Field]:
    """The columns that `*` or `stream.*` stands for, without those behind EXCEPT."""
    table = item.text("table") if isinstance(item, exp.Column) else ""
    if table and table not in relation.tables:
        context.text.refuse_node(
            item, f"unknown stream {table!r}. Streams here: {', '.join(relation.tables)}."
        )
    fields = [
        field for field in relation.fields if field.shown and (not table or field.table == table)
    ]
    star = item if isinstance(item, exp.Star) else item.this
    for part in ("replace", "rename", "ilike"):
        if star.args.get(part):
            context.text.refuse_node(
                item, f"* {part.upper()} is not known here; write the columns out."
            )
    left_out = [node.name for node in star.args.get("except_") or ()]
    for name in left_out:
        if name not in {field.name for field in fields}:
            known = [field.name for field in fields]
            context.text.refuse_node(
                item,
                f"unknown column {name!r}{did_you_mean(name, known)} Columns here: "
                f"{', '.join(known)}.",
            )
    return [field for field in fields if field.name not in left_out]


def column_name(item: exp.Expr, number: int) -> str:
    """What the item of SELECT with this number is called in the result."""
    if isinstance(item, exp.Alias):
        return item.alias
    node = item.this if isinstance(item, exp.Filter) else item
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        return node.this.lower()
    return f"column_{number}"


def project(
    context: Context, select: exp.Expr, relation: Relation, items: ResultColumns
) -> Relation:
    names = unique_names((table, name) for table, name, _ in items)
    kept = [relation.in_ticks(value) for _, _, value in items]
    columns = {name: value for name, (value, _) in zip(names, kept, strict=True)}
    ticks = {name for name, (_, is_ticks) in zip(names, kept, strict=True) if is_ticks}
    stream = relation.stream
    plain = [value.name for value in columns.values() if isinstance(value, Column)]
    if plain != stream.schema.names or list(columns) != plain:
        with context.text.at(select.expressions[0]):
            stream = Stream(nodes.Select(stream.node, tuple(columns.items())))
    fields = [
        Field(name, Column(name), is_time=_is_start(value), is_ticks=name in ticks)
        for name, value in columns.items()
    ]
    return Relation(stream, (*fields, Field(START, Column(START), is_time=True, shown=False)))


def _is_start(value: Expr) -> bool:
    return isinstance(value, Column) and value.name == START

"""SELECT: columns, or groups in windows with their aggregates.

    SELECT ...  FROM ... WHERE ...                          rows: a filter and a projection
    ... an aggregate, a window or GROUP BY ...              one row for each group and window; HAVING keeps some of them

Windows come from brackets behind an aggregate, from a table function in FROM or from one in GROUP BY. Without any of them a
group must have the time among its keys: it is complete when time has passed it, and so is the window of one tick.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from thalweg.expr import Column, Expr
from thalweg.plan.rules.substitution import START
from thalweg.sql.assigned import AssignedWindow, hop
from thalweg.sql.expressions import Context, GroupReader, Key, RowReader, is_aggregate
from thalweg.sql.from_clause import Query, read_from
from thalweg.sql.relations import Field, Relation, unique_names
from thalweg.sql.syntax import WindowClause, Windowed
from thalweg.sql.table_functions import WINDOW_END, WINDOW_START, is_window_function, window_of_call
from thalweg.sql.windows import assign
from thalweg.stream import GroupedStream

__all__ = ["compile_select"]

_UNDERSTOOD = {"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_"}


def compile_select(context: Context, select: exp.Expr, query: Query) -> Relation:
    """One SELECT as a relation."""
    _refuse_unknown(context, select)
    if not select.expressions:
        context.text.refuse_node(select, "SELECT names nothing; say which columns, or *.")
    clause = _take_clause(context, select)
    relation = read_from(context, select, query, clause)
    grouped = clause is not None or select.args.get("group") or select.args.get("having") or _has_aggregates(select)
    result = _groups(context, select, relation, clause) if grouped else _rows(context, select, relation)
    if select.args.get("distinct"):
        if select.args["distinct"].args.get("on"):
            context.text.refuse_node(select.args["distinct"], "DISTINCT ON is not known here.")
        result = replace(result, stream=result.stream.distinct())
    return result


def _refuse_unknown(context: Context, select: exp.Expr) -> None:
    said = {key for key, value in select.args.items() if value not in (None, False, [])}
    for key in sorted(said - _UNDERSTOOD):
        part = select.args[key]
        node = part if isinstance(part, exp.Expr) else select
        word = {"order": "ORDER BY", "limit": "LIMIT"}.get(key, key.rstrip("_").upper())
        hint = " A stream has no end to be sorted; its rows have times." if key == "order" else ""
        context.text.refuse_node(node, f"{word} has no meaning for a stream here.{hint}")


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
            context.text.refuse_place(clause.place, "two different windows in one SELECT; write two queries and join them.")
    return found[0] if found else None


def _has_aggregates(select: exp.Expr) -> bool:
    return any(is_aggregate(node) for item in select.expressions for node in item.walk())


# ------------------------------------------------------------------------------------------------------------ rows


def _rows(context: Context, select: exp.Expr, relation: Relation) -> Relation:
    if relation.window is not None and relation.window.size != relation.window.hop:
        context.text.refuse_node(select, f"the windows of {relation.window.name} belong to groups: aggregate them, or use TUMBLE.")
    reader = RowReader(context, relation)
    wanted: list[tuple[str, str, Expr]] = []
    for number, item in enumerate(select.expressions, 1):
        if _star(item) is not None:
            wanted += [(field.table, field.name, field.value) for field in _starred(context, relation, item)]
            continue
        node = item.this if isinstance(item, exp.Alias) else item
        table = node.text("table") if isinstance(node, exp.Column) and item is node else ""
        wanted.append((table, _name(item, number), reader.convert(node)))
    return _project(context, select, relation, wanted)


def _star(item: exp.Expr) -> str | None:
    """The stream whose star this is; nothing for `*` alone; None for another column."""
    if isinstance(item, exp.Star):
        return ""
    return item.text("table") if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else None


def _starred(context: Context, relation: Relation, item: exp.Expr) -> list[Field]:
    table = _star(item)
    if table and table not in relation.tables:
        context.text.refuse_node(item, f"unknown stream {table!r}. Streams here: {', '.join(relation.tables)}.")
    return [field for field in relation.fields if field.shown and (not table or field.table == table)]


def _name(item: exp.Expr, number: int) -> str:
    if isinstance(item, exp.Alias):
        return item.alias
    node = item.this if isinstance(item, exp.Filter) else item
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        return node.this.lower()
    return f"column_{number}"


def _project(context: Context, select: exp.Expr, relation: Relation, wanted: list[tuple[str, str, Expr]]) -> Relation:
    names = unique_names((table, name) for table, name, _ in wanted)
    columns = {name: value for name, (_, _, value) in zip(names, wanted, strict=True)}
    stream = relation.stream
    plain = [value.name for value in columns.values() if isinstance(value, Column)]
    if plain != stream.schema.names or list(columns) != plain:
        with context.text.at(select.expressions[0]):
            stream = stream.select(**columns)
    fields = [Field(name, Column(name), is_time=_is(value, START)) for name, value in columns.items()]
    return Relation(stream, (*fields, Field(START, Column(START), is_time=True, shown=False)))


def _is(value: Expr, name: str) -> bool:
    return isinstance(value, Column) and value.name == name


# ---------------------------------------------------------------------------------------------------------- groups


@dataclass(frozen=True, slots=True)
class _Grouping:
    """What the rows are grouped by, and the stream in which each of these is a column."""

    relation: Relation
    keys: list[Key]
    columns: tuple[str, ...]
    window: AssignedWindow


def _groups(context: Context, select: exp.Expr, relation: Relation, clause: WindowClause | None) -> Relation:
    grouping = _grouping(context, select, relation, clause)
    window = grouping.window
    names: dict[str, Expr] = {START: Column(START)}
    if window.has_start:
        names[WINDOW_START] = Column(START)
    if window.end is not None:
        names[WINDOW_END] = window.end
    reader = GroupReader(context, grouping.relation, grouping.keys, names)
    wanted: list[tuple[str, str, Expr]] = []
    for number, item in enumerate(select.expressions, 1):
        if _star(item) is not None:
            context.text.refuse_node(item, "* names single rows; name the groups and their aggregates.")
        node = item.this if isinstance(item, exp.Alias) else item
        name = _name(item, number)
        reader.wanted = name if is_aggregate(node) else ""
        table = node.text("table") if isinstance(node, exp.Column) and item is node else ""
        wanted.append((table, name, reader.convert(node)))
    reader.wanted = ""
    reader.names = {name: value for _, name, value in wanted} | names  # HAVING may say what is selected
    having = select.args.get("having")
    kept = reader.convert(having.this) if having is not None else None
    made = _aggregate(context, select, grouping, reader)
    if having is not None and kept is not None:
        with context.text.at(having):
            made = replace(made, stream=made.stream.where(kept))
    result = _project(context, select, made, wanted)
    hidden = [Field(name, value, is_time=name == WINDOW_START, shown=False) for name, value in names.items() if _over_start(value)]
    return replace(result, fields=(*result.fields, *(field for field in hidden if field.name not in result.stream.schema.names)))


def _over_start(value: Expr) -> bool:
    return value.columns() <= {START}


def _grouping(context: Context, select: exp.Expr, relation: Relation, clause: WindowClause | None) -> _Grouping:
    group = select.args.get("group")
    if group is not None and {key for key, value in group.args.items() if value} - {"expressions"}:
        context.text.refuse_node(group, "GROUP BY takes columns and expressions.")
    nodes = [_meant(select, node, relation) for node in (group.expressions if group is not None else [])]
    window = _window(context, select, relation, clause, nodes)
    keys: list[Key] = []
    columns: list[str] = []
    for node in nodes:
        if is_window_function(node) or _names_window(node, relation):
            continue
        reader = RowReader(context, relation)
        value = reader.convert(node)
        field = relation.resolve(context.text, node) if isinstance(node, exp.Column) else None
        if field is not None and field.is_time:
            keys.append(Key(node, field, Column(START)))
        elif isinstance(value, Column):
            keys.append(Key(node, field, value))
            columns.append(value.name)
        else:
            name = unique_names([*(("", taken) for taken in relation.stream.schema.names), ("", _key_name(select, node))])[-1]
            with context.text.at(node):
                relation = replace(relation, stream=relation.stream.with_columns(**{name: value}))
            keys.append(Key(node, None, Column(name)))
            columns.append(name)
    for name in window.partition:
        if name not in columns:
            field = next((field for field in relation.fields if _is(field.value, name)), None)
            keys.append(Key(exp.column(name), field, Column(name)))
            columns.append(name)
    return _Grouping(relation, keys, tuple(dict.fromkeys(columns)), window)


def _meant(select: exp.Expr, node: exp.Expr, relation: Relation) -> exp.Expr:
    """GROUP BY may say the alias of what is selected."""
    if isinstance(node, exp.Column) and not node.args.get("table") and not relation.find(node.name):
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias == node.name and not _has_aggregate(item):
                meant: exp.Expr = item.this
                return meant
    return node


def _has_aggregate(item: exp.Expr) -> bool:
    return any(is_aggregate(node) for node in item.walk())


def _names_window(node: exp.Expr, relation: Relation) -> bool:
    named = isinstance(node, exp.Column) and node.name in (WINDOW_START, WINDOW_END)
    return named and relation.window is not None


def _key_name(select: exp.Expr, node: exp.Expr) -> str:
    named = [item.alias for item in select.expressions if isinstance(item, exp.Alias) and item.this == node]
    return str(named[0]) if named else "key"


def _window(context: Context, select: exp.Expr, relation: Relation, clause: WindowClause | None, nodes: list[exp.Expr]) -> AssignedWindow:
    called = [node for node in nodes if is_window_function(node)]
    if clause is not None:
        if called or relation.window is not None:
            context.text.refuse_place(clause.place, "this query has two windows; one of them is enough.")
        return assign(context, relation, clause)
    if len(called) > 1 or (called and relation.window is not None):
        context.text.refuse_node(called[-1], "this query has two windows; one of them is enough.")
    if called:
        return window_of_call(context, relation, called[0])
    if relation.window is not None:
        return relation.window
    fields = [relation.resolve(context.text, node) for node in nodes if isinstance(node, exp.Column)]
    grouped = {field.value.name for field in fields if isinstance(field.value, Column)}
    if any(field.is_time for field in fields) or (relation.determine_start and set(relation.determine_start) <= grouped):
        return hop(1, 1)
    progressing = [field.value for field in fields if relation.progresses(field) and isinstance(field.value, Column)]
    if not progressing:
        found = (node for item in select.expressions for node in item.walk() if is_aggregate(node))
        context.text.refuse_node(
            next(found, select.args.get("group") or select),
            "these groups never end: say over which window, [RANGE 10 minutes, SLIDE 1 minute, WA ts], or group by the time too.",
        )
    return replace(hop(1, 1), time=progressing[0])


def _aggregate(context: Context, select: exp.Expr, grouping: _Grouping, reader: GroupReader) -> Relation:
    window, stream = grouping.window, grouping.relation.stream
    if window.time is not None:
        stream = stream.alter_lifetime(start=window.time, duration=1)
    elif window.as_points and stream.properties.constant_duration != 1:
        stream = stream.points()
    calls = dict(reader.calls)
    if window.helper is not None:
        calls[window.helper[0]] = window.helper[1]
    place = select.args.get("group") or select.expressions[0]
    if not calls:
        from thalweg.plan.aggregates import count

        calls["count"] = count()
    with context.text.at(place):
        made = window.apply(GroupedStream(stream.node, grouping.columns)).aggregate(**calls)  # type: ignore[arg-type]  # none is called fill
    return Relation(made, tuple(Field(name, Column(name)) for name in made.schema.names))

"""SELECT: columns, or groups in windows with their aggregates.

SELECT ...  FROM ... WHERE ...                    rows: a filter and a projection
... an aggregate, a window or GROUP BY ...        one row for each group and window; HAVING keeps
                                                  some of them
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.expr import Column, Expr
from thalweg.plan import nodes
from thalweg.plan.aggregates import AggregateCall, count
from thalweg.plan.expressions import START
from thalweg.plan.nodes.arrivals import ARRIVED
from thalweg.plan.wid_windows import stamped
from thalweg.sql.aggregates import is_aggregate
from thalweg.sql.assigned import AssignedWindow
from thalweg.sql.distinct import distinct_answer
from thalweg.sql.expressions import Context, RowReader
from thalweg.sql.from_clause import Query, read_from
from thalweg.sql.grouping import Grouping, grouping_of
from thalweg.sql.groups import GroupReader
from thalweg.sql.modules import answer, together
from thalweg.sql.operators import operator_item, operator_rows
from thalweg.sql.over import with_overs
from thalweg.sql.relations import Field, Relation, unique_names
from thalweg.sql.syntax import WindowClause, Windowed
from thalweg.sql.table_functions import WINDOW_END, WINDOW_START
from thalweg.stream import GroupedStream, Stream

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
    rows_of = operator_item(context, select)
    grouped = bool(
        clause is not None
        or rows_of is not None
        or select.args.get("group")
        or select.args.get("having")
        or _has_aggregates(select)
    )
    _refuse_order(context, select, grouped=grouped)
    if rows_of is not None:
        grouping = grouping_of(context, select, relation, clause)
        result = operator_rows(
            context,
            select,
            rows_of,
            grouping,
            _as_windows_take(grouping),
            lambda rows, columns: _project(context, select, rows, columns),
        )
    elif grouped:
        result = _groups(context, select, relation, clause)
    else:
        result = _rows(context, select, relation)
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


def _has_aggregates(select: exp.Expr) -> bool:
    return any(is_aggregate(node) for item in select.expressions for node in item.walk())


# ------------------------------------------------------------------------------------------------
# rows


def _rows(context: Context, select: exp.Expr, relation: Relation) -> Relation:
    if relation.window is not None and not relation.window.is_tumbling:
        context.text.refuse_node(
            select,
            f"the windows of {relation.window.name} belong to groups: aggregate them, or use "
            "TUMBLE.",
        )
    reader = RowReader(context, relation)
    columns: list[tuple[str, str, Expr]] = []
    for number, item in enumerate(select.expressions, 1):
        if _star(item) is not None:
            columns += [
                (field.table, field.name, relation.read(field))
                for field in _starred(context, relation, item)
            ]
            continue
        node = item.this if isinstance(item, exp.Alias) else item
        table = node.text("table") if isinstance(node, exp.Column) and item is node else ""
        columns.append((table, _name(item, number), reader.convert(node)))
    return _project(context, select, relation, columns)


def _star(item: exp.Expr) -> str | None:
    """The stream whose star this is; nothing for `*` alone; None for another column."""
    if isinstance(item, exp.Star):
        return ""
    return (
        item.text("table")
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        else None
    )


def _starred(context: Context, relation: Relation, item: exp.Expr) -> list[Field]:
    table = _star(item)
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


def _name(item: exp.Expr, number: int) -> str:
    if isinstance(item, exp.Alias):
        return item.alias
    node = item.this if isinstance(item, exp.Filter) else item
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        return node.this.lower()
    return f"column_{number}"


def _project(
    context: Context, select: exp.Expr, relation: Relation, items: list[tuple[str, str, Expr]]
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
        Field(name, Column(name), is_time=_is(value, START), is_ticks=name in ticks)
        for name, value in columns.items()
    ]
    return Relation(stream, (*fields, Field(START, Column(START), is_time=True, shown=False)))


def _is(value: Expr, name: str) -> bool:
    return isinstance(value, Column) and value.name == name


# ------------------------------------------------------------------------------------------------
# groups


def _groups(
    context: Context, select: exp.Expr, relation: Relation, clause: WindowClause | None
) -> Relation:
    grouping = grouping_of(context, select, relation, clause)
    window = grouping.window
    names: dict[str, Expr] = {START: relation.clocked(Column(START))}
    if window.has_start:
        names[WINDOW_START] = names[START]
    if window.end is not None:
        names[WINDOW_END] = relation.clocked(window.end)
    reader = GroupReader(context, grouping.relation, grouping.keys, names)
    reader.window_call = grouping.window_call
    columns: list[tuple[str, str, Expr]] = []
    for number, item in enumerate(select.expressions, 1):
        if _star(item) is not None:
            context.text.refuse_node(
                item, "* names single rows; name the groups and their aggregates."
            )
        node = item.this if isinstance(item, exp.Alias) else item
        name = _name(item, number)
        reader.preferred_name = name if is_aggregate(node) else ""
        table = node.text("table") if isinstance(node, exp.Column) and item is node else ""
        columns.append((table, name, reader.convert(node)))
    reader.preferred_name = ""
    reader.names = {
        name: value for _, name, value in columns
    } | names  # HAVING may say what is selected
    having = select.args.get("having")
    if select.args.get("order") is not None:
        for ranked in select.args["order"].expressions:
            reader.convert(ranked.this)
    kept = reader.convert(having.this) if having is not None else None
    needed = frozenset[str]().union(
        *(value.columns() for _, _, value in columns), kept.columns() if kept is not None else ()
    )
    groups = _aggregate(context, select, grouping, reader, needed)
    if having is not None and kept is not None:
        with context.text.at(having):
            groups = replace(groups, stream=groups.stream.where(kept))
    if select.args.get("order") is not None:
        groups = _best(context, select, groups, window, reader)
    result = _project(context, select, groups, columns)
    hidden = [
        Field(name, value, is_time=name == WINDOW_START, shown=False)
        for name, value in names.items()
        if _over_start(value)
    ]
    return replace(
        result,
        fields=(
            *result.fields,
            *(field for field in hidden if field.name not in result.stream.schema.names),
        ),
    )


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


def _over_start(value: Expr) -> bool:
    return value.columns() <= {START}


def _aggregate(
    context: Context,
    select: exp.Expr,
    grouping: Grouping,
    reader: GroupReader,
    needed: frozenset[str],
) -> Relation:
    window, stream = grouping.window, _as_windows_take(grouping)
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
        answers = _united(
            [_in_windows(stream, grouping.columns, kind, calls, reader) for kind in window.kinds]
        )
    return Relation(answers, tuple(Field(name, Column(name)) for name in answers.schema.names))


def _as_windows_take(grouping: Grouping) -> Stream:
    """The rows with the lifetimes by which the window takes them."""
    window, stream = grouping.window, grouping.relation.stream
    if window.by_arrival is not None:
        stamped_stream = Stream(stamped(stream.node, window.by_arrival))
        return stamped_stream.alter_lifetime(start=Column(ARRIVED), duration=1)
    if window.time is not None:
        return stream.alter_lifetime(start=window.time, duration=1)
    plain = not window.as_points or stream.properties.constant_duration == 1
    return stream if plain else stream.points()


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
    answers = together(parts, keys)
    if window.added_end is not None:
        name, end = window.added_end
        answers = Stream(nodes.Select(answers.node, (*_same(answers), (name, end))))
    return answers


def _same(stream: Stream) -> tuple[tuple[str, Expr], ...]:
    return tuple((name, Column(name)) for name in stream.schema.names)


def _united(parts: list[Stream]) -> Stream:
    return parts[0] if len(parts) == 1 else parts[0].union(*parts[1:])

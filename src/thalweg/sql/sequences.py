"""SEQ in FROM: events of several streams after each other.

    FROM SEQ(cases AS a, products AS b) MODE RECENT PARTITION BY belt WITHIN 10 minutes
    FROM SEQ(orders AS o, NOT cancelled, paid AS p) MODE CHRONICLE PARTITION BY id WITHIN 1 hour

A match has the columns of all steps under their names, `a.case`, `b.tag`, and the time of each. Its
own time is that of its last step. WHERE is a condition on whole matches; to choose the events of a
step, put a query in its place.
"""

from __future__ import annotations

from sqlglot import exp

from thalweg.expr import Expr
from thalweg.patterns import sequence
from thalweg.plan.expressions import START
from thalweg.sql.expressions import Context, ticks
from thalweg.sql.relations import Field, Relation
from thalweg.sql.syntax import Amount, SequenceClause

__all__ = ["sequence_of"]


def sequence_of(
    context: Context,
    node: SequenceClause,
    steps: list[Relation],
    absent: dict[int, Relation],
) -> Relation:
    """The relation of a sequence; `absent` has the streams of NOT by the step they stand before."""
    names = [_name(context, node, step, at) for at, step in enumerate(steps)]
    for at, name in enumerate(names):
        if name in names[:at]:
            context.text.refuse_node(
                node.expressions[at],
                f"two steps of SEQ are called {name!r}; name them apart with AS.",
            )
    for at in absent:
        if not 0 < at < len(steps):
            context.text.refuse_node(node, "NOT stands between two steps of SEQ.")
    partition: list[exp.Expr] = node.args.get("partition") or []
    within = node.args.get("within")
    with context.text.at(node):
        matched = sequence(
            {name: step.stream for name, step in zip(names, steps, strict=True)},
            {
                name: [str(_key(context, column, step)) for column in partition]
                for name, step in zip(names, steps, strict=True)
            },
            mode=str(node.args.get("mode") or "recent").lower(),  # type: ignore[arg-type]
            within=ticks(context, within) if isinstance(within, Amount) else None,
            exact=bool(node.args.get("exact")),
            not_between={names[at]: step.stream for at, step in absent.items()} or None,
        )
    fields = (
        field
        for name, step in zip(names, steps, strict=True)
        for field in _fields(name, step, last=name == names[-1])
    )
    return Relation(matched, tuple(fields))


def _name(context: Context, node: exp.Expr, step: Relation, at: int) -> str:
    tables = step.tables
    if len(tables) != 1:
        context.text.refuse_node(
            node.expressions[at], "a step of SEQ is one stream; give it a name with AS."
        )
    return tables[0]


def _key(context: Context, column: exp.Expr, step: Relation) -> Expr:
    return step.resolve(context.text, column).value


def _fields(name: str, step: Relation, *, last: bool) -> list[Field]:
    """The columns of a step in a match; the time of the last step is that of the match."""
    names = {column: f"{name}_{column}" for column in step.stream.schema.names}
    times = {START: START if last else f"{name}_time"}
    return [
        Field(
            field.name,
            field.value.rename({**names, **times}),
            name,
            is_time=field.is_time and last,
            shown=field.shown,
            is_ticks=field.is_ticks or (field.is_time and not last),
        )
        for field in step.fields
    ]

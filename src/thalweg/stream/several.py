"""Queries over several streams: copies that are merged, and joins of more than two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.errors import PlanError
from thalweg.expr import Column, Expr, ExprLike, as_expr
from thalweg.model.time import Duration, duration_us
from thalweg.plan import nodes
from thalweg.plan.merging import Broken, InsertPolicy, Level, MergePolicy, Missing, RevisePolicy
from thalweg.plan.nodes import Named
from thalweg.plan.window_joins import multi_join
from thalweg.stream.arguments import Columns, column_names, named_columns
from thalweg.stream.streams import Stream, require_stream
from thalweg.windows.kinds import positive_ticks

__all__ = [
    "join_all",
    "keys_by_name",
    "merge",
]


def merge(
    *streams: Stream,
    level: Level | None = None,
    groups: str | Sequence[str] = (),
    insert: InsertPolicy = "first seen",
    revise: RevisePolicy = "lazy",
    missing: Missing = "leader",
    lag: Duration = 0,
    share: float = 0.5,
    tolerance: float = 0.0,
    broken: Broken = "cut",
) -> Stream:
    """Streams that mean the same as one (LMerge): answers come from whichever is first, and the
    result can follow all of them.

    The level (R0 to R4) is inferred from what is known of the streams; `explain()` says why. With
    `groups`, or where they follow from the plan, there is at most one row for a group and start.
    For streams that come and go while a query runs there is `thalweg.merging.Merger`.
    """
    found = [require_stream(stream, "merge").node for stream in streams]
    policy = MergePolicy(insert, revise, missing, duration_us(lag, what="merge: lag"), share)
    return Stream(nodes.Merge(tuple(found), policy, level, column_names(groups), tolerance, broken))


def join_all(
    streams: Mapping[str, Stream],
    on: Mapping[str, str | Sequence[str]] | str | Sequence[str] = (),
    *,
    sizes: Duration | Mapping[str, Duration],
    where: ExprLike | None = None,
    select: Columns | None = None,
) -> Stream:
    """Rows of several streams that are in each other's windows, each of its stream's size: a join
    of any number of inputs.

    Columns are written `name.column` in `where` and `select`; keys are columns that all streams
    have, or given for each. Without `select` the result has every column as `name_column`. Results
    are points at the latest of the times, which stand in the columns `name_time`.

    >>> a, b, c = (source(name, {"k": "int64"}) for name in "abc")
    >>> join_all({"a": a, "b": b, "c": c}, "k", sizes="1 min")
    <Stream select (a_k int64, b_k int64, c_k int64, a_time int64, b_time int64, c_time int64)>
    """
    if len(streams) < 2:
        raise PlanError(
            "join_all: give at least two streams by name: {'orders': orders, 'payments': payments, "
            "...}."
        )
    nodes_ = {
        name: require_stream(stream, f"join_all: {name}").node for name, stream in streams.items()
    }
    exprs = keys_by_name(on, streams, "join_all")
    lengths = {name: sizes[name] if isinstance(sizes, Mapping) else sizes for name in streams}
    ticks = {
        name: positive_ticks(size, f"join_all, size of {name}") for name, size in lengths.items()
    }
    every: Named = tuple(
        (f"{name}_{column}", Column(f"{name}.{column}"))
        for name, node in nodes_.items()
        for column in node.schema.names
    )
    predicate = None if where is None else as_expr(where)
    return Stream(
        multi_join(
            nodes_,
            exprs,
            ticks,
            predicate=predicate,
            result=every if select is None else named_columns(select),
        )
    )


def keys_by_name(
    on: Mapping[str, str | Sequence[str]] | str | Sequence[str],
    streams: Mapping[str, Stream],
    what: str,
) -> dict[str, tuple[Expr, ...]]:
    """The keys of each stream: columns that all have, or given for each."""
    given = (
        {name: on.get(name, ()) for name in streams}
        if isinstance(on, Mapping)
        else dict.fromkeys(streams, on)
    )
    keys = {
        name: tuple(as_expr(key) for key in ([names] if isinstance(names, str) else names))
        for name, names in given.items()
    }
    if len({len(names) for names in keys.values()}) > 1:
        counts = {name: len(names) for name, names in keys.items()}
        raise PlanError(f"{what}: every stream needs the same number of keys; got {counts}.")
    return keys

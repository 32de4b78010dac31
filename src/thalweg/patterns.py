"""Patterns over events: sequences of steps in four contexts (`sequence`), and the parts of regular
patterns (for `Stream.detect`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.errors import PlanError
from thalweg.expr import Column, ExprLike, as_expr
from thalweg.model.time import Duration, duration_us
from thalweg.plan import sequences
from thalweg.plan.automata import Pattern, Repeat, event, no_event, one_of, then
from thalweg.plan.nodes import Named
from thalweg.plan.sequences import Mode
from thalweg.stream import Columns, Stream, keys_by_name, named_columns, require_stream

__all__ = [
    "event",
    "no_event",
    "one_of",
    "optional",
    "repeated",
    "sequence",
    "then",
]


def repeated(part: Pattern, *, least: int = 1) -> Pattern:
    """A part one or more times, or with `least=0` any number of times."""
    if least not in (0, 1):
        raise PlanError(f"repeated: least must be 0 or 1; got {least!r}.")
    return Repeat(part, least)


def optional(part: Pattern) -> Pattern:
    """A part once or not at all."""
    return Repeat(part, 0, once=True)


def sequence(
    steps: Mapping[str, Stream],
    on: Mapping[str, str | Sequence[str]] | str | Sequence[str] = (),
    *,
    mode: Mode = "recent",
    within: Duration | None = None,
    exact: bool = False,
    not_between: Mapping[str, Stream] | None = None,
    where: ExprLike | None = None,
    select: Columns | None = None,
) -> Stream:
    """Events of the first stream followed by events of the second, and so on: a sequence pattern.

    A match of the first i steps is an event at the time of step i. `mode` says what it is paired
    with: `unrestricted` every later event, `recent` each event with the latest match before it,
    `continuous` each match with the first event after it, `chronicle` each event, in the order of
    time, with the earliest match that waits, both used once. A step comes strictly after the one
    before it, or with `exact` not before it; the last at most `within` after the first.

    `not_between={"b": alarms}`: no row of `alarms` with the same keys, named as in `on`, lies
    strictly between step `b` and the step before it. `where` is a condition on whole matches, over
    columns written `name.column`. Matches are points at the time of their last step; without
    `select` they have every column as `name_column`, and always the times as `name_time`.

    >>> from thalweg import source
    >>> cases = source("cases", {"belt": "int64", "case": "string"})
    >>> products = source("products", {"belt": "int64", "tag": "string"})
    >>> sequence({"c": cases, "p": products}, "belt", mode="recent", within="10 min",
    ...          select=["c.case", "p.tag"])
    <Stream select (case string, tag string, c_time int64, p_time int64)>
    """
    if len(steps) < 2:
        raise PlanError(
            "sequence: give at least two steps by name: {'a': cases, 'b': products, ...}."
        )
    if not isinstance(steps, Mapping):
        raise PlanError(
            f"sequence: give the steps by name, {{'a': cases, 'b': products}}; got {steps!r}."
        )
    barriers = {
        name: require_stream(other, f"sequence: not_between {name}").node
        for name, other in (not_between or {}).items()
    }
    for name in barriers:
        if name not in list(steps)[1:]:
            raise PlanError(
                f"sequence: not_between names the later step of a pair, one of "
                f"{', '.join(list(steps)[1:])}; got {name!r}."
            )
    nodes_ = {
        name: require_stream(stream, f"sequence: {name}").node for name, stream in steps.items()
    }
    keys = keys_by_name(on, steps, "sequence")
    built = {
        name: sequences.Step(
            node,
            keys[name],
            barriers.get(name),
            keys[name] if name in barriers else (),
        )
        for name, node in nodes_.items()
    }
    every: Named = tuple(
        (f"{name}_{column}", Column(f"{name}.{column}"))
        for name, node in nodes_.items()
        for column in node.schema.names
    )
    return Stream(
        sequences.sequence(
            built,
            mode=mode,
            within=None if within is None else _bound(within),
            exact=exact,
            predicate=None if where is None else as_expr(where),
            result=every if select is None else named_columns(select),
        )
    )


def _bound(within: Duration) -> int:
    ticks = duration_us(within, what="sequence, within")
    if ticks < 0:
        raise PlanError(f"sequence: within must not be negative; got {within!r}.")
    return ticks

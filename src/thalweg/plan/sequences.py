"""Sequence patterns as plans: a before b (before c ...), of equal keys, within a bound.

A match of the first i steps is an event at the time of step i, and the next step is paired with it:

    unrestricted   every match with every event after it: a match waits for the rest of the bound
    recent         each event with the latest match before it: an as-of join
    continuous     each match with the first event after it: the match is clipped by the events, and
                   its end meets the event there
    chronicle      each event, in the order of time, takes the earliest match that waits

So only the last one has an operator of its own; the others are lifetimes and joins, as windows of
joins are. No event of another stream lies strictly between two steps when the latest of it before
the second step is not after the first: an as-of join again.

Without `exact` a step comes strictly after the one before it. With it, times are moved so that
"not before" becomes "after": the events of the second step are one tick later, and the result is
moved back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

from thalweg.errors import PlanError, require_choice
from thalweg.expr import Column, Expr, call, lit
from thalweg.model.time import INFINITY
from thalweg.plan.expressions import START, columns_of_side, unchanged
from thalweg.plan.nodes import (
    Chronicle,
    ClipBy,
    Distinct,
    Join,
    Named,
    Node,
    PointAtEnd,
    Retime,
    Select,
    SetDuration,
    Shift,
    Where,
)
from thalweg.plan.window_joins import asof_join, prefixed, time_of

__all__ = ["MODES", "Mode", "Step", "sequence"]

Mode: TypeAlias = Literal["unrestricted", "recent", "continuous", "chronicle"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Step:
    """Events of a stream, their keys, and the events that must not lie between the step before and
    this one, with their keys."""

    node: Node
    keys: tuple[Expr, ...]
    barrier: Node | None = None
    barrier_keys: tuple[Expr, ...] = ()


def sequence(
    steps: Mapping[str, Step],
    *,
    mode: Mode,
    within: int | None,
    exact: bool,
    predicate: Expr | None,
    result: Named,
) -> Node:
    """The plan of a pattern. Columns of a step are `name.column` in `predicate` and `result`, its
    time is `name._start`."""
    require_choice(mode, MODES, "sequence: mode")
    _refuse_endless(mode, within)
    if within == 0 and not exact:
        raise PlanError(
            "sequence: within must be positive where a step comes strictly after the one before "
            "it; say exact=True if events of the same time may match."
        )
    names = list(steps)
    first = time_of(names[0])
    matched = _events(names[0], steps[names[0]])
    for before, name in pairwise(names):
        pair = _Pairing(before, name, steps[before], steps[name], first, within, exact)
        matched = pair.build(mode, matched)
    if predicate is not None:
        matched = Where(matched, predicate)
    times: Named = tuple((f"{name}_time", Column(time_of(name))) for name in names)
    return Select(matched, (*result, *times))


@dataclass(frozen=True, slots=True)
class _Pairing:
    """Adds one step of a sequence to the matches of the steps before it."""

    before: str
    name: str
    earlier: Step
    step: Step
    first: str
    within: int | None
    exact: bool

    def build(self, mode: Mode, matched: Node) -> Node:
        events = _events(self.name, self.step)
        if mode == "chronicle":
            return self._chronicle(matched, events)
        pairs = {
            "unrestricted": self._unrestricted,
            "recent": self._recent,
            "continuous": self._continuous,
        }[mode](matched, events)
        return self._without_barrier(pairs)

    @property
    def _keys(self) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        return (
            tuple(prefixed(key, self.before) for key in self.earlier.keys),
            tuple(prefixed(key, self.name) for key in self.step.keys),
        )

    def _result(self, matched: Node, events: Node) -> Named:
        return (
            *columns_of_side(matched.schema.names, "l"),
            *columns_of_side(events.schema.names, "r"),
        )

    def _unrestricted(self, matched: Node, events: Node) -> Node:
        assert self.within is not None
        after = Column(START) + lit(0 if self.exact else 1)
        waiting = Retime(matched, after, Column(self.first) + lit(self.within + 1))
        return Join(waiting, events, *self._keys, result=self._result(matched, events))

    def _recent(self, matched: Node, events: Node) -> Node:
        left, right = self._keys
        recent = asof_join(
            (events, matched),
            (right, left),
            within=self.within,
            exact=self.exact,
            names=None,
            how="inner",
            result=(
                *columns_of_side(matched.schema.names, "r"),
                *columns_of_side(events.schema.names, "l"),
            ),
        )
        # A match of one step lasts as long as the bound; one of several began before its last step.
        return recent if self.first == time_of(self.before) else self._in_bound(recent)

    def _continuous(self, matched: Node, events: Node) -> Node:
        assert self.within is not None
        # An event at the same time cuts nothing off; one tick later it does.
        late = 1 if self.exact else 0
        moved = Shift(events, late) if late else events
        clipped = ClipBy(SetDuration(matched, self.within + 1 + late), moved, *self._keys)
        pairs: Node = Join(
            PointAtEnd(clipped), moved, *self._keys, result=self._result(matched, events)
        )
        return self._in_bound(Shift(pairs, -late) if late else pairs)

    def _chronicle(self, matched: Node, events: Node) -> Node:
        assert self.within is not None
        late = 1 if self.exact else 0
        moved = Shift(events, late) if late else events
        over = Column(self.first) + lit(self.within + 1 + late)
        waiting: Node = Retime(matched, Column(START) + lit(1), over)
        if self.step.barrier is not None:
            waiting = ClipBy(waiting, Shift(self._barrier(), 1), *self._barrier_keys())
            if late:
                # An event at the time of the barrier is not after it; it too came one tick later.
                until = call("least", Column("_end") + lit(late), over)
                waiting = Retime(waiting, Column(START), until)
        longest = self.within + 1
        pairs: Node = Chronicle(waiting, moved, *self._keys, self._result(matched, events), longest)
        return Shift(pairs, -late) if late else pairs

    def _in_bound(self, pairs: Node) -> Node:
        if self.within is None:
            return pairs
        took = Column(time_of(self.name)) - Column(self.first)
        return Where(pairs, took <= lit(self.within))

    # ------------------------------------------------------------- nothing between the two steps

    def _barrier(self) -> Node:
        """The times at which something forbidden happens, once for each key."""
        assert self.step.barrier is not None
        keys: Named = tuple(
            (f"{self.name}.barrier{n}", key) for n, key in enumerate(self.step.barrier_keys)
        ) or ((f"{self.name}.barrier", lit(True)),)
        return Distinct(SetDuration(Select(self.step.barrier, keys), 1))

    def _barrier_keys(self) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        own = tuple(prefixed(key, self.before) for key in self.earlier.keys)
        return own, tuple(Column(f"{self.name}.barrier{n}") for n in range(len(own)))

    def _without_barrier(self, pairs: Node) -> Node:
        if self.step.barrier is None or self.within == 0:
            return pairs
        names = (f"{self.name}.paired", f"{self.name}.between")
        kept = columns_of_side(pairs.schema.names, "l")
        latest = asof_join(
            (pairs, self._barrier()),
            self._barrier_keys(),
            within=self.within,
            exact=False,
            names=names,
            how="left",
            result=kept,
        )
        between = Column(names[1])
        free = Where(latest, call("is_null", between) | (between <= Column(time_of(self.before))))
        return Select(free, unchanged(pairs.schema.names))


def _events(name: str, step: Step) -> Node:
    """The events of a step as points, with its name before every column and its time as one."""
    columns: Named = tuple(
        (f"{name}.{column}", Column(column)) for column in step.node.schema.names
    )
    return Select(SetDuration(step.node, 1), (*columns, (time_of(name), Column(START))))


def _refuse_endless(mode: Mode, within: int | None) -> None:
    if within is None and mode != "recent":
        raise PlanError(
            f"sequence: in {mode} mode an event waits for the next step, for ever where none comes,"
            " and its state would never end. Say within=..., the longest time from the first step "
            "to the last."
        )
    if within is not None and within >= INFINITY:
        raise PlanError("sequence: within must be finite.")

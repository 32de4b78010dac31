"""The steps by which a random plan grows: each adds one operator that leaves the same four columns.

A growth is a function of a `Site`. It may raise `PlanError` where its operator is not allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from thalweg.expr import Expr, col
from thalweg.plan.aggregates import (
    AggregateCall,
    arg_max,
    avg,
    count,
    first,
    last,
    max_,
    min_,
    sum_,
)
from thalweg.plan.join_kinds import JOIN_KINDS
from thalweg.plan.join_windows import band
from thalweg.plan.nodes import Join, walk
from thalweg.stream import GroupedStream, Stream

__all__ = ["GROWTHS", "Growth", "Site"]


@dataclass(frozen=True)
class Site:
    """Where a plan grows: a stream, the streams it was made of, and a random generator."""

    stream: Stream
    known: Sequence[Stream]
    random: Random

    @property
    def names(self) -> tuple[str, str, str, str]:
        key, number, text, small = self.stream.schema.names
        return key, number, text, small

    @property
    def columns(self) -> tuple[Expr, Expr, Expr, Expr]:
        key, number, text, small = (col(name) for name in self.names)
        return key, number, text, small

    @property
    def other(self) -> Stream:
        """A stream to pair this one with: a source, an earlier stage, or the stream itself."""
        return self.random.choice([*self.known, self.stream])

    @property
    def small(self) -> int:
        return self.random.randint(1, 9)

    def by_key(self) -> GroupedStream:
        return self.stream.group_by(self.names[0])

    def calls(self) -> dict[str, AggregateCall]:
        """Aggregates that leave the same columns. Sums are of the small column: they fit."""
        _, number, text, small = self.columns
        total = self._summed
        of_number = [max_(number), min_(number), first(number), last(number)]
        of_number += [arg_max(number, by=small), avg(small)]
        of_text = [max_(text), min_(text), first(text), arg_max(text, by=number)]
        of_small = [count(), count(number), sum_(total), max_(small), sum_(total, where=number > 0)]
        chosen = (self.random.choice(calls) for calls in (of_number, of_text, of_small))
        return dict(zip(self.names[1:], chosen, strict=True))

    @property
    def _summed(self) -> Expr:
        """The small column, for sums. Behind a window join it is a time, perhaps near the end of
        the clock: a sum of the final table may fit there, and not that of a table which has rows
        that are removed later."""
        small = self.columns[3]
        joined = any(isinstance(node, Join) for node in walk(self.stream.node))
        return small % 2**40 if joined else small


Growth = Callable[[Site], Stream]


def _where(site: Site) -> Stream:
    key, number, text, small = site.columns
    conditions = [
        number > 0,
        small >= 1,
        text.is_null() | (small < 2),
        (number == number) & (key > 0),
    ]
    return site.stream.where(site.random.choice(conditions))


def _select(site: Site) -> Stream:
    key, number, text, small = site.columns
    chosen = (
        site.random.choice([small, key]),
        site.random.choice([number, -number, number * 2]),
        text,
        site.random.choice([small, small + 1]),
    )
    return site.stream.select(**dict(zip(site.names, chosen, strict=True)))


_HOWS = tuple(JOIN_KINDS)


def _pair(site: Site) -> dict[str, Expr]:
    key, number, text, small = site.names
    return {
        key: col(f"l.{key}"),
        number: col(f"r.{number}"),
        text: col(f"l.{text}"),
        small: col(f"r.{small}"),
    }


def _join(site: Site) -> Stream:
    key, small = site.names[0], site.names[3]
    how = site.random.choice(_HOWS)
    where = site.random.choice([None, None, col(f"l.{small}") <= col(f"r.{small}")])
    on = site.random.choice([[key], [key, small]])
    if how in ("semi", "anti"):
        return site.stream.join(site.other, on, where=where, how=how)
    alone = {name: col(name) for name in site.names}
    return site.stream.join(
        site.other,
        on,
        where=where,
        how=how,
        select=_pair(site),
        left_only=alone if how in ("left", "full") else None,
        right_only=alone if how in ("right", "full") else None,
    )


def _window_join(site: Site) -> Stream:
    """The times of both sides, null where there is no partner, become the small column."""
    key, how = site.names[0], site.random.choice(_HOWS)
    near = band(before=site.random.randint(0, 4), after=site.random.randint(1, 4))
    if how in ("semi", "anti"):
        return site.stream.window_join(site.other, key, window=near, how=how)
    joined = site.stream.window_join(
        site.other, key, window=near, how=how, select=_pair(site), times=("x_", "y_")
    )
    time = site.random.choice(["x_", "y_"])
    kept: dict[str, Expr] = {name: col(name) for name in site.names[:3]}
    return joined.select(**kept, **{site.names[3]: col(time)})


def _group_apply(site: Site) -> Stream:
    """A query for each group by itself, some with a fork inside."""
    small = site.columns[3]
    inner: list[Callable[[Stream], Stream]] = [
        lambda group: group.distinct(),
        lambda group: group.where(small > 0).union(group),
        lambda group: group.top_k(1, by=small),
    ]
    return site.stream.group_apply(site.names[0], site.random.choice(inner))


def _set_duration(site: Site) -> Stream:
    lasts: list[int | Expr | None] = [site.small, site.columns[3], None]
    return site.stream.set_duration(site.random.choice(lasts))


def _shift(site: Site) -> Stream:
    amounts: list[int | Expr] = [site.random.randint(-5, 5), site.columns[3]]
    return site.stream.shift(site.random.choice(amounts))


def _alter_lifetime(site: Site) -> Stream:
    # Sums, not products: the column may hold times near the ends of the clock, which the engine
    # refuses to leave and the oracle does not have.
    start = site.random.choice([col("_start") + 3, site.columns[3] + 5])
    return site.stream.alter_lifetime(start=start, duration=site.small)


def _top_k(site: Site) -> Stream:
    by, down = site.random.choice(site.columns[1:]), site.random.random() < 0.5
    return site.by_key().top_k(site.random.randint(1, 2), by=by, descending=down)


def _snapshot_of_all(site: Site) -> Stream:
    return site.stream.snapshot().aggregate({site.names[0]: max_(site.columns[0]), **site.calls()})


GROWTHS: dict[str, Growth] = {
    "where": _where,
    "select": _select,
    "shift": _shift,
    "extend": lambda site: site.stream.extend(site.random.randint(-5, 5)),
    "set_duration": _set_duration,
    "clip_duration": lambda site: site.stream.clip_duration(site.small),
    "alter_lifetime": _alter_lifetime,
    "point_at_end": lambda site: site.stream.point_at_end(),
    "chop": lambda site: site.stream.chop(1 + site.small),
    "hopping_lifetime": lambda site: site.stream.hopping_lifetime(site.small, site.small),
    "quantize": lambda site: site.stream.quantize(site.small, site.small),
    "stitch": lambda site: site.stream.stitch(),
    "distinct": lambda site: site.stream.distinct(),
    "union": lambda site: site.stream.union(site.other),
    "clip_by": lambda site: site.stream.clip_by(site.other, site.names[0]),
    "join": _join,
    "window_join": _window_join,
    "snapshot": lambda site: site.by_key().snapshot().aggregate(site.calls()),
    "snapshot of all": _snapshot_of_all,
    "tumbling": lambda site: site.by_key().tumbling(site.small).aggregate(site.calls()),
    "hopping": lambda site: site.by_key().hopping(site.small, site.small).aggregate(site.calls()),
    "session": lambda site: site.by_key().session(site.small).aggregate(site.calls()),
    "session_lifetime": lambda site: site.by_key().session_lifetime(site.small),
    "top_k": _top_k,
    "hopping top_k": lambda site: site.stream.hopping(site.small, site.small).top_k(
        2, by=site.columns[1]
    ),
    "group_apply": _group_apply,
}
"""Row operators, joins and windows with the aggregates that are built in, by name."""

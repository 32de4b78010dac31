"""Random plans over hostile rows, for the law that no plan, form or engine changes an answer.

A plan has up to four operators over one or two sources, forks among them; every operator leaves the
same four columns, so that any may follow any other. The columns have names that kernels use inside,
and values at the edges: NaN, infinities, -0.0, denormals, 1e300, the ends of int64, null, ties.

>>> from random import Random
>>> trial = random_trial(Random(7))
>>> trial.query.schema.types == list(KINDS)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.expr import Expr, col
from thalweg.model import INFINITY, Row
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
from thalweg.plan.join_windows import band
from thalweg.plan.nodes import Node, Source
from thalweg.plan.properties import StreamProperties
from thalweg.stream import GroupedStream, Stream
from thalweg.testing.oracle import oracle

__all__ = ["INNER_NAMES", "KINDS", "Trial", "hostile_rows", "hostile_value", "random_trial"]

KINDS = (pa.int64(), pa.float64(), pa.string(), pa.int64())
"""The columns of every stream: a key, a number, a text, a small whole number."""

INNER_NAMES = (
    *("_key0", "_since", "_mark", "_order", "_matches", "_group", "_begin", "_of0", "_by0"),
    *("_weight", "_row0", "c0", "s0", "n", "start", "end", "group", "window", "wid", "rows", "v"),
    *("k", "_where0", "value", "position", "place", "_window", "_count", "_cell", "strategy"),
)
"""Names that a kernel might use for a column of its own; a user may use them too."""

_NUMBERS = (
    *(0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1e300, -1e300),
    *(2.0**53, 0.5, 3.0),
)
_WHOLE = (0, 1, 2, 3, -1, 2**63 - 1, -(2**63), 2**53 + 1)
_ORIGINS = (0, 0, 0, 0, 0, 2**60, -(2**60))
"""Where the times of a trial begin."""
_INSERT_ONLY = 0.3
"""How many trials have sources whose rows are never adjusted: other kernels run then."""
_TEXTS = ("", "a", "b", "NaN", "\N{LATIN SMALL LETTER SHARP S}", "a\x00b")


@dataclass(frozen=True)
class Trial:
    """A query and the tables of its sources."""

    query: Node
    tables: dict[str, list[Row]]
    text: str
    insert_only: bool = False
    """Whether its sources are declared so."""


def hostile_value(kind: pa.DataType, random: Random, *, null: float = 0.1) -> Any:
    """A value at an edge of its type, or null."""
    if random.random() < null:
        return None
    if pa.types.is_floating(kind):
        return random.choice(_NUMBERS)
    return random.choice(_TEXTS) if pa.types.is_string(kind) else random.choice(_WHOLE)


def hostile_rows(
    names: Sequence[str], random: Random, *, endless: bool, origin: int = 0
) -> list[Row]:
    """A small table with many ties; some rows are there twice, some never end."""
    rows: list[Row] = []
    for _ in range(random.randint(0, 7)):
        payload = {
            name: hostile_value(kind, random)
            for name, kind in zip(names[:3], KINDS[:3], strict=True)
        }
        payload[names[0]] = random.choice([payload[names[0]], 1, 2])
        payload[names[3]] = random.choice([None, 0, 1, 2, 3])
        start = origin + random.choice([random.randint(0, 30), 10, 20])
        lasts = random.choice([1, 5, 10, random.randint(1, 12)])
        end = INFINITY if endless and random.random() < 0.2 else start + lasts
        rows += [(start, end, payload)] * random.choice([1, 1, 1, 2])
    return rows


def random_trial(
    random: Random, *, operators: int = 4, names: Sequence[str] = INNER_NAMES
) -> Trial:
    """A plan that can be built and has an answer, and tables for it; columns are called by four of
    the names."""
    names = random.sample(names, 4)
    schema = pa.schema(list(zip(names, KINDS, strict=True)))
    facts = StreamProperties(insert_only=True, firm_ends=True)
    declared = facts if random.random() < _INSERT_ONLY else StreamProperties()
    sources = [
        Stream(Source(name, schema, declared=declared)) for name in random.choice(["s", "st"])
    ]
    origin = random.choice(_ORIGINS)
    while True:
        stream, said = _grow(sources, random, random.randint(1, operators))
        tables = {
            name: hostile_rows(names, random, endless=random.random() < 0.3, origin=origin)
            for name in ("s", "t")
        }
        used = {node.name for node in _sources(stream.node)}
        tables = {name: rows for name, rows in tables.items() if name in used}
        try:
            oracle(stream.node, tables)
        except (ValueError, OverflowError):
            continue  # endlessly many windows, or a number that no column holds
        return Trial(stream.node, tables, " > ".join(said), declared.insert_only)


def _sources(node: Node) -> list[Source]:
    if isinstance(node, Source):
        return [node]
    return [found for child in node.inputs for found in _sources(child)]


def _grow(sources: Sequence[Stream], random: Random, operators: int) -> tuple[Stream, list[str]]:
    said: list[str] = []
    stream, known = random.choice(sources), list(sources)
    while len(said) < operators:
        name = random.choice(list(GROWTHS))
        try:
            grown = GROWTHS[name](_Site(stream, known, random))
        except PlanError:
            continue  # this operator cannot stand here
        if grown.schema.types != list(KINDS):
            raise AssertionError(f"{name} leaves {grown.schema}")
        known.append(stream)
        stream = grown
        said.append(name)
    return stream, said


# --------------------------------------------------------------------------------------------------
# operators


@dataclass(frozen=True)
class _Site:
    """Where a plan grows: a stream, those it was made of, and chance."""

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
        of_number = [max_(number), min_(number), first(number), last(number)]
        of_number += [arg_max(number, by=small), avg(small)]
        of_text = [max_(text), min_(text), first(text), arg_max(text, by=number)]
        of_small = [count(), count(number), sum_(small), max_(small), sum_(small, where=number > 0)]
        chosen = (self.random.choice(one) for one in (of_number, of_text, of_small))
        return dict(zip(self.names[1:], chosen, strict=True))


def _where(site: _Site) -> Stream:
    key, number, text, small = site.columns
    conditions = [
        number > 0,
        small >= 1,
        text.is_null() | (small < 2),
        (number == number) & (key > 0),
    ]
    return site.stream.where(site.random.choice(conditions))


def _select(site: _Site) -> Stream:
    key, number, text, small = site.columns
    chosen = (
        site.random.choice([small, key]),
        site.random.choice([number, -number, number * 2]),
        text,
        site.random.choice([small, small + 1]),
    )
    return site.stream.select(**dict(zip(site.names, chosen, strict=True)))


_HOWS = ("inner", "left", "right", "full", "semi", "anti")


def _pair(site: _Site) -> dict[str, Expr]:
    key, number, text, small = site.names
    return {
        key: col(f"l.{key}"),
        number: col(f"r.{number}"),
        text: col(f"l.{text}"),
        small: col(f"r.{small}"),
    }


def _join(site: _Site) -> Stream:
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


def _window_join(site: _Site) -> Stream:
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


def _group_apply(site: _Site) -> Stream:
    """A query for each group by itself, some with a fork inside."""
    small = site.columns[3]
    inner: list[Callable[[Stream], Stream]] = [
        lambda group: group.distinct(),
        lambda group: group.where(small > 0).union(group),
        lambda group: group.top_k(1, by=small),
    ]
    return site.stream.group_apply(site.names[0], site.random.choice(inner))


def _set_duration(site: _Site) -> Stream:
    lasts: list[int | Expr | None] = [site.small, site.columns[3], None]
    return site.stream.set_duration(site.random.choice(lasts))


def _shift(site: _Site) -> Stream:
    amounts: list[int | Expr] = [site.random.randint(-5, 5), site.columns[3]]
    return site.stream.shift(site.random.choice(amounts))


def _alter_lifetime(site: _Site) -> Stream:
    # Sums, not products: the column may hold times near the ends of the clock, which the engine
    # refuses to leave and the oracle does not know.
    start = site.random.choice([col("_start") + 3, site.columns[3] + 5])
    return site.stream.alter_lifetime(start=start, duration=site.small)


def _top_k(site: _Site) -> Stream:
    by, down = site.random.choice(site.columns[1:]), site.random.random() < 0.5
    return site.by_key().top_k(site.random.randint(1, 2), by=by, descending=down)


def _snapshot_of_all(site: _Site) -> Stream:
    return site.stream.snapshot().aggregate({site.names[0]: max_(site.columns[0]), **site.calls()})


GROWTHS: dict[str, Callable[[_Site], Stream]] = {
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
"""What a plan may grow by, by name."""

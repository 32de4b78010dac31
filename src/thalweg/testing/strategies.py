"""Hypothesis strategies for tables, element sequences, windows and queries.

The domains are small on purpose: times of 0 to 40, a handful of values. Equal starts, touching
lifetimes, duplicates and ties, which is where operators go wrong, are then common. Needs hypothesis
(`thalweg[testing]`).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from thalweg.expr import col
from thalweg.model import INFINITY, Element, Row
from thalweg.plan.aggregates import count, max_, sum_
from thalweg.plan.nodes import (
    Chop,
    ClipBy,
    ClipDuration,
    Distinct,
    Extend,
    HoppingLifetime,
    Join,
    Node,
    PointAtEnd,
    Quantize,
    Select,
    SetDuration,
    Shift,
    Source,
    Stitch,
    Union,
    Where,
    WindowAggregate,
)
from thalweg.testing.chains import Chain
from thalweg.testing.forms import Form, Logical
from thalweg.testing.variation import Manner, make_form
from thalweg.windows import HoppingWindow, SessionWindow, SnapshotWindow, Window

__all__ = [
    "KEYED",
    "element_sequences",
    "forms",
    "hopping_windows",
    "manners",
    "queries",
    "rows",
    "values",
    "windows",
]

KEYED: pa.Schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
"""The schema used unless another is given: a key and a value."""


def values(kind: pa.DataType, *, null: bool = False) -> st.SearchStrategy[Any]:
    """A few values of a type; with `null`, as many nulls as values."""
    if pa.types.is_list(kind):
        lists = st.lists(values(kind.value_type), max_size=3)
        return st.one_of(st.none(), lists) if null else lists
    found = _few_values(kind)
    # one choice for each value: hypothesis spends its time on choices
    return st.sampled_from([*[None] * len(found), *found] if null else found)


def _few_values(kind: pa.DataType) -> list[Any]:
    """Values of a type, the simplest first."""
    if pa.types.is_integer(kind):
        return [0, 1, 2, 3]
    if pa.types.is_floating(kind):
        return sorted(
            (number / 4 for number in range(-8, 9)), key=lambda value: (abs(value), -value)
        )
    if pa.types.is_boolean(kind):
        return [False, True]
    if pa.types.is_string(kind):
        return ["a", "b", "ab"]
    raise ValueError(f"no strategy for values of type {kind}")


def rows(
    schema: pa.Schema = KEYED,
    *,
    max_rows: int = 8,
    times: tuple[int, int] = (0, 40),
    durations: tuple[int, int] = (1, 12),
    infinite: bool = False,
    nulls: tuple[str, ...] = (),
) -> st.SearchStrategy[list[Row]]:
    """Tables. Only the columns named in `nulls` hold nulls; only with `infinite` do rows last for
    ever."""
    payloads = st.tuples(*(values(field.type, null=field.name in nulls) for field in schema)).map(
        lambda drawn: dict(zip(schema.names, drawn, strict=True))
    )
    lengths: st.SearchStrategy[int] = st.integers(*durations)
    if infinite:
        lengths = st.one_of(lengths, st.just(INFINITY))
    row = st.tuples(st.integers(*times), lengths, payloads).map(_row)
    return st.lists(row, max_size=max_rows)


def _row(drawn: tuple[int, int, Mapping[str, Any]]) -> Row:
    start, length, payload = drawn
    return start, INFINITY if length == INFINITY else start + length, payload


def manners() -> st.SearchStrategy[Manner]:
    """How a form is made."""
    return st.integers(0, 2**32).map(lambda seed: Manner.draw(Random(seed)))


def forms(logicals: Mapping[str, Logical]) -> st.SearchStrategy[Form]:
    """Physical forms of given inputs."""
    return st.builds(
        lambda manner, seed: make_form(logicals, manner, Random(seed)),
        manners(),
        st.integers(0, 2**32),
    )


@st.composite
def element_sequences(
    draw: st.DrawFn, /, schema: pa.Schema = KEYED, **options: Any
) -> list[Element]:
    """Legal sequences of elements with adjusts, spurious rows and CTIs; `options` are those of
    `rows`."""
    chains = [
        Chain(payload, start, (end,)) for start, end, payload in draw(rows(schema, **options))
    ]
    return draw(forms({"s": Logical(schema, tuple(chains))})).elements("s")


def hopping_windows(*, max_size: int = 12) -> st.SearchStrategy[HoppingWindow]:
    """Hopping windows: tumbling, overlapping, and with gaps between them."""
    return st.builds(
        HoppingWindow, st.integers(1, max_size), st.integers(1, max_size), st.integers(0, 5)
    )


def windows() -> st.SearchStrategy[Window]:
    """Windows of every kind."""
    return st.one_of(
        st.just(SnapshotWindow()), hopping_windows(), st.builds(SessionWindow, st.integers(1, 9))
    )


def queries(*sources: Source, depth: int = 3) -> st.SearchStrategy[Node]:
    """Random queries over sources with the schema `KEYED`; every node in them has that schema too.

    They are finite over finite rows. At least one source is needed; two make joins between streams
    possible.
    """
    leaves = st.sampled_from(sources)
    return st.recursive(leaves, _grown, max_leaves=depth)


def _grown(below: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    small = st.integers(1, 9)
    return st.one_of(
        st.builds(lambda node, v: Where(node, col("v") > v), below, st.integers(0, 2)),
        st.builds(
            lambda node: Select(node, (("k", col("v") % 2), ("v", col("k") + col("v")))), below
        ),
        st.builds(Shift, below, st.integers(-5, 5)),
        st.builds(Extend, below, st.integers(-5, 5)),
        st.builds(ClipDuration, below, small),
        st.builds(SetDuration, below, small),
        st.builds(PointAtEnd, below),
        st.builds(Chop, below, st.integers(2, 9)),
        st.builds(HoppingLifetime, below, small, small),
        st.builds(Quantize, below, small, small),
        st.builds(Stitch, below),
        st.builds(Distinct, below),
        st.builds(Union, below, below),
        st.builds(lambda left, right: ClipBy(left, right, (col("k"),), (col("k"),)), below, below),
        st.builds(
            _join, below, below, st.sampled_from(["inner", "left", "right", "full", "semi", "anti"])
        ),
        st.builds(_aggregate, below, windows(), st.sampled_from([count(), sum_("v"), max_("v")])),
    )


def _join(left: Node, right: Node, how: str) -> Node:
    alone = (("k", col("k")), ("v", col("v")))
    result = (("k", col("l.k")), ("v", col("l.v") + col("r.v")))
    return Join(
        left,
        right,
        (col("k"),),
        (col("k"),),
        how=how,
        result=result,
        left_only=alone,
        right_only=alone,
    )


def _aggregate(node: Node, window: Window, call: Any) -> Node:
    return WindowAggregate(node, window, (("v", call),), keys=("k",))

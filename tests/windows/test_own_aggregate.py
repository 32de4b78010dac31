"""An aggregate of a user's own, defined in this file alone, in every window, in SQL and divided."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from tests.operators.test_buckets import ONLY_INSERTS
from thalweg.aggregates import Aggregate, Columns, Values, register_aggregate
from thalweg.errors import PlanError, TypeMismatchError
from thalweg.model.rows import Codes
from thalweg.plan.nodes import Source, WindowAggregate, find, walk
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import WindowedStream
from thalweg.testing import (
    CONSISTENCIES,
    assert_form_right,
    logical_inputs,
    make_form,
)
from thalweg.testing.manner import WILD


class Spread(Aggregate):
    """The largest value less the smallest, and a fixed amount."""

    name, numeric = "spread_of", True

    def __init__(self, more: float = 0.0) -> None:
        self._more = int(more)

    @property
    def parameters(self) -> tuple[object, ...]:
        return (self._more,)

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return pa.int64()

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        return [pa.field("low", pa.int64()), pa.field("high", pa.int64())]

    def of_rows(self, values: Values) -> Columns:
        assert values.of is not None
        absent = ~values.present(values.of)
        plain = values.of.fill_null(0).to_numpy(zero_copy_only=False)
        return [pa.array(plain, mask=absent), pa.array(plain, mask=absent)]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        there = parts[0].is_valid().to_numpy(zero_copy_only=False)
        low, high = np.full(size, 2**62), np.full(size, -(2**62))
        np.minimum.at(low, code[there], parts[0].fill_null(0).to_numpy()[there])
        np.maximum.at(high, code[there], parts[1].fill_null(0).to_numpy()[there])
        return [pa.array(low, mask=low > high), pa.array(high, mask=low > high)]

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        absent = parts[0].is_null().to_numpy(zero_copy_only=False)
        low, high = (part.fill_null(0).to_numpy(zero_copy_only=False) for part in parts)
        return pa.array(high - low + self._more, kind, mask=absent)

    def define(self, values: Sequence[object]) -> object:
        whole = [int(str(value)) for value in values]
        return max(whole) - min(whole) + self._more if whole else None


class Bits(Aggregate):
    """How many bits are set in all values together: whole numbers that add up."""

    name, numeric = "bits_of", True

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return pa.int64()

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        return [pa.field("bits", pa.int64())]

    def is_linear(self, of: pa.DataType | None) -> bool:
        return True

    def of_rows(self, values: Values) -> Columns:
        assert values.of is not None
        plain = values.of.fill_null(0).to_numpy(zero_copy_only=False)
        bits = np.bitwise_count(np.where(values.present(values.of), plain, 0))
        return [pa.array(bits.astype(np.int64))]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        total = np.zeros(size, np.int64)
        np.add.at(total, code, parts[0].to_numpy())
        return [pa.array(total)]

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        return parts[0]

    def define(self, values: Sequence[object]) -> object:
        return sum(int(str(value)).bit_count() for value in values)


register_aggregate("spread_of", Spread, parameters=1)
register_aggregate("bits_of", Bits)

EVENTS = tw.source("s", {"k": "int64", "v": "int64"})
POINTS = tw.source("s", {"k": "int64", "v": "int64"}, insert_only=True)


def windows() -> dict[str, WindowedStream]:
    grouped, points = EVENTS.group_by("k"), POINTS.group_by("k")
    return {
        "hopping": grouped.hopping(6, 3),
        "snapshot": grouped.snapshot(),
        "session": grouped.session(4),
        "sliding": points.sliding(6, 2),
        "sliding by wid": points.sliding(6, 2).using("wid"),
        "adaptive": points.sliding(6, 2).using("adaptive"),
        "rank": grouped.sliding(3, 2, over=tw.rank("ts")),
        "landmark": grouped.landmark(4),
        "slide by tuple": grouped.slide_by_tuple(5),
        "bins": points.slide_by_tuple(5).using("bins"),
    }


def rows(random: Random) -> list[tuple[int, int, dict[str, int | None]]]:
    return [
        (start, start + random.randint(1, 6), {"k": random.randint(0, 2), "v": value})
        for start in sorted(random.randint(0, 25) for _ in range(14))
        for value in [random.choice([None, 0, 3, 7, 12])]
    ]


@pytest.mark.parametrize("name", list(windows()))
def test_laws(name: str) -> None:
    query = (
        windows()[name]
        .aggregate(
            spread=tw.aggregate_by(Spread(2), "v"),
            bits=tw.aggregate_by(Bits(), "v", where="v > 0"),
        )
        .node
    )
    inputs = {"s": rows(Random(name))}
    logical = logical_inputs(query, inputs)
    manner = ONLY_INSERTS if next(find(query, Source)).properties.insert_only else WILD
    for number, consistency in enumerate(CONSISTENCIES):
        form = make_form(logical, manner, Random(f"{name}/{number}"))
        assert_form_right(query, form, consistency=consistency)
        assert_form_right(query, form, consistency=consistency, engine=DividedEngine)


def test_it_has_the_strategies_that_it_says() -> None:
    only_bits = EVENTS.hopping(6, 3).aggregate(bits=tw.aggregate_by(Bits(), "v"))
    spread = EVENTS.hopping(6, 3).aggregate(spread=tw.aggregate_by(Spread(), "v"))
    strategies = [
        node.decide().strategy
        for query in (only_bits, spread)
        for node in walk(query.node)
        if isinstance(node, WindowAggregate)
    ]
    assert strategies == ["differential", "rows"]


def test_sql_and_explain() -> None:
    text = (
        "SELECT k, spread_of(v, 5) AS x, bits_of(v) AS b [RANGE TUMBLING 1 second, WA ts] FROM s "
        "GROUP BY k"
    )
    query = tw.sql(text, {"s": EVENTS})
    assert "spread_of(v, 5)" in query.explain()
    feed = [tw.point({"k": 1, "v": value}, 1) for value in (3, 9)]
    assert tw.table(query, {"s": feed}) == [(0, 1_000_000, {"k": 1, "x": 11, "b": 4})]


def test_mistakes() -> None:
    with pytest.raises(TypeMismatchError, match="needs a number"):
        tw.source("t", {"v": "string"}).tumbling(5).aggregate(x=tw.aggregate_by(Spread(), "v"))
    with pytest.raises(PlanError, match="of the system's own"):
        register_aggregate("sum", Spread)

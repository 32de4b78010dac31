"""Sums, averages and variances are exact or refused, whatever the cuts, the strategy and what was
taken back in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.aggregates.limbs import Limbs
from thalweg.errors import EvaluationError
from thalweg.model import Element, Row, rows_of_table, table_of_batches
from thalweg.stream import WindowedStream
from thalweg.testing.identity import identity
from thalweg.testing.oracle.aggregates import aggregate as defined

NAN, INF = math.nan, math.inf
HARD = [0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, 1e300, -1e300, 5e-324, 1e16, -1e16, 0.1, 1e15 + 3]
BIG = 2**61


def events(kind: str = "double", *, insert_only: bool = True) -> tw.Stream:
    return tw.source("s", {"k": "int64", "v": kind}, insert_only=insert_only)


def play(query: tw.Stream, *pushes: Sequence[Element]) -> list[Row]:
    """The final table of one source's elements, batch by batch."""
    engine = tw.Engine(query)
    out = [batch for push in pushes for batch in engine.push("s", push)]
    return rows_of_table(table_of_batches(out + engine.finish(), query.schema))


def in_one_and_in_many(query: tw.Stream, elements: Sequence[Element]) -> list[Row]:
    whole, cut = play(query, elements), play(query, *([one] for one in elements))
    assert identity([list(row) for row in whole]) == identity([list(row) for row in cut])
    return whole


def points(values: Sequence[object], key: int = 1) -> list[Element]:
    return [tw.point({"k": key, "v": value}, at % 10) for at, value in enumerate(values)]


def windows(stream: tw.Stream) -> dict[str, WindowedStream]:
    """One window of every kind that has all rows."""
    return {
        "tumbling": stream.points().tumbling(10),
        "hopping": stream.points().hopping(20, 20),
        "session": stream.session(100),
        "snapshot": stream.alter_lifetime(start="0 * k", duration=1).snapshot(),
        "landmark": stream.landmark(10),
        "slide by tuple": stream.alter_lifetime(start="0 * k", duration=1).slide_by_tuple(5),
    }


@pytest.mark.parametrize("kind", list(windows(events())))
@pytest.mark.parametrize("insert_only", [True, False])
def test_a_sum_of_integers_is_exact_or_refused_by_window(kind: str, insert_only: bool) -> None:
    query = windows(events("int64", insert_only=insert_only))[kind].aggregate(x=tw.sum_("v"))
    for elements in ([points([BIG] * 5)], [[one] for one in points([BIG] * 5)]):
        with pytest.raises(EvaluationError, match="does not fit 64 bits"):
            play(query, *elements)
    (row,) = in_one_and_in_many(query, points([BIG, BIG, BIG]))
    assert row[2] == {"x": 3 * BIG}


def test_large_values_in_different_groups_do_not_meet() -> None:
    query = events("int64").group_by("k").tumbling(10).aggregate(x=tw.sum_("v"))
    elements = [*points([BIG] * 3, key=1), *points([BIG] * 3, key=2)]
    assert [row[2]["x"] for row in in_one_and_in_many(query, elements)] == [3 * BIG, 3 * BIG]


def test_a_sum_that_fits_in_the_end_may_have_been_larger() -> None:
    query = events("int64").tumbling(10).aggregate(x=tw.sum_("v"))
    assert in_one_and_in_many(query, points([BIG * 2, BIG, BIG, -BIG * 2]))[0][2] == {"x": BIG * 2}


def test_averages_of_nanosecond_times_are_right() -> None:
    times = [1_763_000_000_000_000_000 + at for at in range(8)]
    query = events("int64").tumbling(10).aggregate(mean=tw.avg("v"), spread=tw.variance("v"))
    (row,) = in_one_and_in_many(query, points(times))
    assert row[2] == {"mean": 1.763e18, "spread": 6.0}


@pytest.mark.parametrize("kind", list(windows(events())))
def test_variances_far_from_zero(kind: str) -> None:
    query = windows(events())[kind].aggregate(x=tw.variance("v"))
    (row,) = in_one_and_in_many(query, points([1e15 + at for at in range(8)]))
    assert row[2] == {"x": 6.0}
    whole = windows(events("int64"))[kind].aggregate(x=tw.variance("v"))
    (row,) = in_one_and_in_many(whole, points([2**60 + 1, 2**60 + 3]))
    assert row[2] == {"x": 2.0}


@pytest.mark.parametrize("kind", list(windows(events())))
def test_a_small_value_survives_large_ones(kind: str) -> None:
    windowed, total = windows(events())[kind], tw.sum_("v")
    beside = tw.last("v") if kind == "landmark" else tw.percentile("v", 0.5)
    query = windowed.aggregate(x=total, mid=beside)
    (row,) = in_one_and_in_many(query, points([1e300, 1e16, 1.0, -1e16, -1e300]))
    assert row[2]["x"] == 1.0


def test_percentiles_and_sums_of_large_unsigned_integers() -> None:
    query = events("int64").tumbling(10).aggregate(x=tw.percentile("v", 0.5))
    assert in_one_and_in_many(query, points([2**60 + 1, 2**60 + 3]))[0][2]["x"] == float(2**60 + 2)
    unsigned = tw.source("s", {"k": "int64", "v": pa.uint64()})
    sums = unsigned.tumbling(10).aggregate(x=tw.sum_("v"), mean=tw.avg("v"))
    (row,) = in_one_and_in_many(sums, points([2**63, 2**62]))
    assert row[2] == {"x": 2**63 + 2**62, "mean": float(2**62 + 2**61)}
    with pytest.raises(EvaluationError, match="does not fit"):
        play(sums, points([2**63, 2**63]))


@pytest.mark.parametrize("kind", list(windows(events())))
@given(values=st.lists(st.one_of(st.sampled_from(HARD), st.none()), min_size=1, max_size=8))
@settings(max_examples=15, deadline=None)
def test_one_definition_for_nan_and_infinities(kind: str, values: list[float | None]) -> None:
    calls = {
        "total": tw.sum_("v"),
        "mean": tw.avg("v"),
        "spread": tw.variance("v"),
        "low": tw.min_("v"),
        "high": tw.max_("v"),
    }
    query = windows(events())[kind].aggregate(
        total=calls["total"],
        mean=calls["mean"],
        spread=calls["spread"],
        low=calls["low"],
        high=calls["high"],
    )
    (row,) = in_one_and_in_many(query, points(values))
    given_rows: list[Row] = [(0, 1, {"k": 1, "v": value}) for value in values]
    schema = events().schema
    for name, call in calls.items():
        wanted = defined(call, given_rows, schema)
        if name == "spread" and wanted is not None and math.isfinite(wanted):
            assert row[2][name] == pytest.approx(wanted, rel=2**-50)
        else:
            assert identity(row[2][name]) == identity(wanted), name


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    st.integers(0, 20),
)
@settings(max_examples=100, deadline=None)
def test_exact_sums_are_rounded_once_and_take_back(values: list[float], gone: int) -> None:
    every, one = np.array(values), np.zeros(len(values), np.int64)
    total = Limbs.of_floats(every, one, 1)
    rest = total.plus(Limbs.of_floats(every[:gone], one[:gone], 1), -1)
    for found, parts in ((total, values), (rest, values[gone:])):
        exact = sum(map(Fraction, parts), Fraction(0))
        wanted = float(exact) if abs(exact) < Fraction(2) ** 1023 else None
        if wanted is not None:
            assert found.to_floats().tolist() == [wanted]
    again = Limbs.of_lists(rest.to_lists(), np.zeros(1, np.int64), 1)
    assert again.to_floats().tolist() == rest.to_floats().tolist()


def test_what_was_taken_back_leaves_no_trace() -> None:
    stream = events(insert_only=False)
    query = stream.snapshot().aggregate(x=tw.avg("v"))
    elements: list[Element] = [tw.insert({"k": 1, "v": 0.5}, 0, 10)]
    for odd in (NAN, INF, 1e17):
        elements += [tw.insert({"k": 1, "v": odd}, 0, 10), tw.remove({"k": 1, "v": odd}, 0, 10)]
    assert in_one_and_in_many(query, elements) == [(0, 10, {"x": 0.5})]


def test_nan_is_one_value_and_the_largest() -> None:
    stream = events()
    elements = points([1.0, NAN, 3.0])
    top = stream.tumbling(10).top_k(1, by="v")
    assert identity(in_one_and_in_many(top, elements)[0][2]["v"]) == identity(NAN)
    low = stream.tumbling(10).top_k(1, by="v", descending=False)
    assert in_one_and_in_many(low, elements)[0][2]["v"] == 1.0
    groups = stream.select(g="v - v").group_by("g").tumbling(10).aggregate(n=tw.count())
    assert in_one_and_in_many(groups, points([INF, NAN, -INF]))[0][2]["n"] == 3


def test_a_percentile_sketch_has_one_answer_for_every_order() -> None:
    values = np.random.default_rng(7).normal(50_000, 10_000, 20_000)
    query = tw.source("s", {"v": "double"}, insert_only=True)
    query = query.sliding(10).aggregate(x=tw.approx_percentile("v", 0.5))

    def answer(order: Sequence[float], cuts: int) -> float:
        rows = [tw.point({"v": value}, 1) for value in order]
        pushes = [rows[at : at + cuts] for at in range(0, len(rows), cuts)]
        ((_, _, row),) = play(query, *pushes)
        return float(row["x"])

    found = {answer(values.tolist(), 20_000), answer(sorted(values.tolist()), 7_000)}
    assert len(found) == 1
    assert found.pop() == pytest.approx(float(np.percentile(values, 50)), rel=0.01)

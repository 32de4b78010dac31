"""Times at the edge of the clock: an answer or an error that says where, never a wrapped time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg import insert, udm
from thalweg.errors import EvaluationError, LateEventError, LifetimeError, WindowError
from thalweg.model.time import MIN_TIME

VALUE = {"v": "int64"}


def test_shifts_that_leave_the_clock_are_refused_with_their_row() -> None:
    query = tw.source("s", VALUE)
    for _ in range(4):
        query = query.shift(2**61)
    with pytest.raises(EvaluationError, match=r"shift: {'v': 1} over .* outside the range"):
        tw.table(query, {"s": [insert({"v": 1}, 5, 6)]})


def test_shifts_there_and_back_are_none() -> None:
    query = tw.source("s", VALUE).shift(2**61).shift(-(2**61))
    assert tw.table(query, {"s": [insert({"v": 1}, 5, 6)]}) == [(5, 6, {"v": 1})]


@pytest.mark.parametrize("amount", [2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_an_amount_beyond_the_clock_is_refused(amount: int) -> None:
    query = tw.source("s", VALUE).shift(tw.col("v"))
    with pytest.raises(EvaluationError, match="range of the clock"):
        tw.table(query, {"s": [insert({"v": amount}, 5, 6)]})


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("time", [2**60, -(2**60)])
def test_a_time_that_no_calendar_has_is_refused(time: int, zone: str) -> None:
    months = tw.source("s", VALUE).calendar("month", zone=zone).aggregate(n=tw.count())
    with pytest.raises(EvaluationError, match=f"{time} lies beyond the year 30000"):
        tw.table(months, {"s": [insert({"v": 1}, time, time + 1)]})
    near = 3 * time // 4  # the year 29,370, or as far before
    assert len(tw.table(months, {"s": [insert({"v": 1}, near, near + 1)]})) == 1


def test_durations_from_an_expression() -> None:
    rows = {"s": [insert({"v": value}, 3, 4) for value in (2, 0, -1, None)]}
    events = tw.source("s", VALUE)
    assert tw.table(events.set_duration("_start"), {"s": rows["s"][:1]}) == [(3, 6, {"v": 2})]
    assert tw.table(events.set_duration(tw.col("v") * 2), rows) == [(3, 7, {"v": 2})]
    with pytest.raises(WindowError, match="not understood"):
        events.set_duration("10 lightyears")


def test_a_time_that_python_has_no_date_for_is_shown_in_answers_and_messages() -> None:
    """As a damaged file may hold it, in a column that is no time of the stream."""
    beyond = pa.array([2**62, 0], pa.int64()).cast(pa.timestamp("us"))
    rows = pa.table({"_start": [5, 1], "_end": [6, 2], "when": beyond, "v": [1, 2]})
    events = tw.source("s", {"when": pa.timestamp("us"), "v": "int64"}, disorder=0)
    ((_, _, row),) = tw.table(events, {"s": rows.slice(0, 1)})
    assert str(row["when"]).startswith("148108-07-06") and row["v"] == 1
    swapped = rows.take([1, 0]).set_column(0, "_start", pa.array([5, 1]))
    with pytest.raises(LateEventError, match=r"148108-07-06.*'v': 1"):
        tw.table(events, {"s": swapped.set_column(1, "_end", pa.array([6, 2]))})
    by_time = events.group_by("when").tumbling(10).aggregate(n=tw.count())
    assert len(tw.table(by_time, {"s": rows.slice(0, 1)})) == 1


@pytest.mark.parametrize("consistency", ["eager", "speculative", "final"])
def test_no_promise_goes_back_behind_the_beginning_of_time(consistency: str) -> None:
    """A window that begins before all times is not closed: there is nothing to promise yet."""
    moved = tw.source("s", VALUE).alter_lifetime(start="_start + 3", duration=7)
    for query in (
        moved.tumbling(5).aggregate(n=tw.count()),
        moved.hopping(9, 3).top_k(2, by="v"),
        moved.hopping(9, 6).aggregate(n=tw.max_("v")),
        moved.session(4).aggregate(n=tw.count()),
    ):
        engine = tw.Engine(query, consistency=consistency)
        for batch in engine.push("s", [insert({"v": 1}, -(2**60), 4 - 2**60)]):
            assert batch.progress.cti >= MIN_TIME


@udm.aggregate("extreme.rows", inputs={"v": "int64"}, output="int64")
def rows_of_window(values: Sequence[int]) -> int:
    return len(values)


EVENTS = tw.source("s", VALUE)


@pytest.mark.parametrize(
    "query",
    [
        EVENTS.tumbling(9).aggregate(n=tw.count()),
        EVENTS.hopping(9, 3).aggregate(n=tw.sum_("v"), m=tw.max_("v")),
        EVENTS.hopping(9, 3).aggregate(n=tw.percentile("v", 0.5)),
        EVENTS.hopping(9, 3).top_k(2, by="v"),
        EVENTS.hopping(9, 3).aggregate(n=tw.stddev("v")),
        EVENTS.tumbling(9).apply(rows_of_window, "v"),
        EVENTS.chop(9),
    ],
    ids=["count", "max", "percentile", "top", "stddev", "module", "chop"],
)
@pytest.mark.parametrize("consistency", ["eager", "speculative", "final"])
def test_a_lifetime_over_windows_without_number_is_refused(
    query: tw.Stream, consistency: str
) -> None:
    with pytest.raises(LifetimeError, match="windows or pieces of time"):
        tw.table(query, {"s": [insert({"v": 1}, -(2**60), 2**60)]}, consistency=consistency)


@pytest.mark.parametrize("rows", [30, 3_000])
def test_lifetimes_longer_than_half_the_clock_are_found(rows: int) -> None:
    """A start and the longest lifetime of a run may add up to more than 64 bits hold."""
    a, b = (tw.source(name, {"k": "int64"}) for name in "ab")
    engine, last = tw.Engine(a.join(b, "k")), 2**62
    out = engine.push("b", [insert({"k": i % 3}, i + 1 - last, last - 1 - i) for i in range(rows)])
    out += engine.push("a", [insert({"k": 0}, 0, last - 1), insert({"k": 1}, 5 - last // 2, -5)])
    assert sum(map(len, out)) == 2 * rows // 3

"""Times at the edge of the clock: an answer or an error that says where, never a wrapped time."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg import insert
from thalweg.errors import EvaluationError, WindowError

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


def test_durations_from_an_expression() -> None:
    rows = {"s": [insert({"v": value}, 3, 4) for value in (2, 0, -1, None)]}
    events = tw.source("s", VALUE)
    assert tw.table(events.set_duration("_start"), {"s": rows["s"][:1]}) == [(3, 6, {"v": 2})]
    assert tw.table(events.set_duration(tw.col("v") * 2), rows) == [(3, 7, {"v": 2})]
    with pytest.raises(WindowError, match="not understood"):
        events.set_duration("10 lightyears")

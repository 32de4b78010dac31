"""Windows by mark in the fluent API: whole windows of each key leave the queue, and what an
aggregate says about them is what it would say about all rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg import elements_of
from thalweg.errors import PlanError, WindowError
from thalweg.freshness.newest_windows import NewestWindows
from thalweg.freshness.queue_status import Admission
from thalweg.freshness.runner import FreshRunner
from thalweg.freshness.schedules import SCHEDULES, make_schedule
from thalweg.freshness.window_marks import UpdateWindow
from thalweg.model.batch import Batch
from thalweg.model.cht import rows_of_table, table_of_batches
from thalweg.model.soundness import assert_sound
from thalweg.stream import Stream

Row = tuple[str, int, int]
"""Symbol, time, price."""


def quotes() -> Stream:
    rows = tw.source("quotes", {"symbol": "string", "price": "int64"}, disorder=0, insert_only=True)
    return rows.update_key("symbol")


def table(query: Stream, out: list[Batch]) -> list[tuple[int, int, Mapping[str, Any]]]:
    """Start, end and payload of each answer, in the order of their starts."""
    return rows_of_table(table_of_batches(out, query.schema))


def answers_of_all_rows(
    rows: list[Row], size: int, hop: int
) -> dict[tuple[str, int], tuple[int, int]]:
    """By key and window start: rows and sum, over all rows, straight from the definition."""
    found = {}
    for symbol, time, _ in rows:
        for start in range((time - size) // hop * hop, time + 1, hop):
            inside = [p for s, t, p in rows if s == symbol and start <= t < start + size]
            if start <= time < start + size:
                found[symbol, start] = (len(inside), sum(inside))
    return found


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    """Rows of a few keys, times growing for each."""
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.integers(-9, 9)), max_size=40
        )
    )
    clocks = dict.fromkeys("abc", 0)
    rows = []
    for symbol, step, price in steps:
        clocks[symbol] += step
        rows.append((symbol, clocks[symbol], price))
    return rows


@given(
    streams(),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from(["lazy", "eager", "auto"]),
    st.sampled_from(sorted(SCHEDULES)),
    st.data(),
)
@settings(max_examples=25, deadline=None)
def test_an_answer_is_that_of_all_rows(
    rows: list[Row], size: int, hop: int, rule: str, schedule: str, data: st.DataObject
) -> None:
    """Whatever is served, and when: each answer is the append answer for its window, each window
    has one at most, a key's windows follow each other, and no promise is broken."""
    hop = min(hop, size)
    source = tw.source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
    windows = source.update_key("symbol", schedule=schedule).newest_window(size, hop, rule=rule)
    query = windows.aggregate(n=tw.count(), total=tw.sum_("price"))
    clock = count()
    runner = FreshRunner(query, tw.Engine(query), now=lambda: next(clock))
    out = []
    at = 0
    while at < len(rows):
        end = at + data.draw(st.integers(1, 8))
        runner.offer("quotes", [tw.point({"symbol": s, "price": p}, t) for s, t, p in rows[at:end]])
        out += runner.serve(data.draw(st.integers(0, 9)))
        at = end
    runner.offer("quotes", [tw.point({"symbol": s, "price": 0}, 200) for s in "abc"])
    out += runner.serve(1_000)
    assert_sound(out)
    every = answers_of_all_rows([*rows, *((s, 200, 0) for s in "abc")], size, hop)
    last: dict[str, int] = {}
    for element in elements_of(out):
        if not isinstance(element, tw.Insert):
            assert isinstance(element, tw.Cti), "an answer is never revised"
            continue
        symbol, start = element.payload["symbol"], element.start
        assert (element.payload["n"], element.payload["total"]) == every[symbol, start]
        assert element.end == start + size
        assert start > last.get(symbol, -(10**9))
        last[symbol] = start
    if rule == "lazy":
        assert all(symbol in last for symbol, _, _ in rows), "every key has a window that closed"


@given(
    st.lists(
        st.one_of(
            st.lists(
                st.tuples(st.integers(0, 5), st.integers(-1, 3), st.integers(0, 20)), max_size=150
            ),
            st.integers(0, 60),
        ),
        max_size=8,
    ),
    st.integers(1, 40),
    st.sampled_from(["lazy", "eager", "auto"]),
    st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_a_batch_of_rows_is_its_rows_one_by_one(
    actions: list[list[tuple[int, int, int]] | int], size: int, rule: str, overlap: int
) -> None:
    """With room for few rows: what is admitted, served and counted. A row is a key, a step in time,
    and 0 for a text that is too long."""
    schema = pa.schema({"key": pa.int64(), "text": pa.string()})
    window = UpdateWindow(size, max(1, size - overlap))
    whole, single = (
        NewestWindows(schema, ("key",), window, rule, make_schedule("in-place"), capacity=1)
        for _ in range(2)
    )
    clocks, number = [5] * 6, 0
    for now, action in enumerate(actions):
        if isinstance(action, int):
            left, right = whole.serve(action, now=now), single.serve(action, now=now)
            assert left.rows.equals(right.rows)
            assert left.starts.tolist() == right.starts.tolist()
            whole.deliver(left, now=now)
            single.deliver(right, now=now)
        else:
            keys, times, texts = [], [], []
            for key, gap, fits in action:
                clocks[key] += gap
                number += 1
                keys.append(key)
                times.append(clocks[key])
                texts.append(str(number) if fits else "x" * 99)
            batch = pa.record_batch(
                [pa.array(keys, pa.int64()), pa.array(texts, pa.string())], schema=schema
            )
            moments = np.array(times, np.int64)
            one_by_one = Admission(0, 0, 0)
            for row in range(len(batch)):
                admitted = single.enqueue(batch.slice(row, 1), moments[row : row + 1], now=now)
                one_by_one += admitted
            assert whole.enqueue(batch, moments, now=now) == one_by_one
        left_status, right_status = whole.status(now=now), single.status(now=now)
        assert replace(left_status, bytes_used=0) == replace(right_status, bytes_used=0)


@pytest.mark.parametrize("lost", [4, 0], ids=["later", "first"])
@pytest.mark.parametrize("rule", ["lazy", "eager"])
def test_a_window_that_lost_a_row_has_no_answer(rule: str, lost: int) -> None:
    """A row whose text is too long for the queue: no window that contains it is answered, not even
    if it is the first of its key."""
    source = tw.source("notes", {"key": "int64", "text": "string"}, insert_only=True)
    query = source.update_key("key").newest_window(2, 2, rule=rule).aggregate(n=tw.count())
    clock = count()
    runner = FreshRunner(query, tw.Engine(query), now=lambda: next(clock))
    found = []
    for time in range(10):
        text = "x" * (1_000 if time == lost else 3)
        runner.offer("notes", [tw.point({"key": 1, "text": text}, time)])
        found += runner.serve(10)
    starts = [start for start, _, _ in table(query, found)]
    assert starts == [start for start in (0, 2, 4, 6, 8) if start != lost]
    assert runner.status("notes").refused == 1


def test_an_answer_is_final_when_it_is_served() -> None:
    query = quotes().newest_window(4, 2, rule="lazy").aggregate(n=tw.count())
    clock = count()
    runner = FreshRunner(query, tw.Engine(query, consistency="final"), now=lambda: next(clock))
    runner.offer("quotes", [tw.point({"symbol": "IBM", "price": t}, t) for t in range(1, 12)])
    ((start, end, answer),) = table(query, runner.serve(10))
    assert (start, end, answer["n"]) == (8, 12, 4)
    status = runner.status("quotes")
    assert (status.arrived, status.taken, status.conflated, status.waiting) == (5, 1, 4, 0)


def test_what_makes_no_sense_is_refused_when_it_is_built() -> None:
    plain = tw.source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
    with pytest.raises(PlanError, match="right behind update_key"):
        plain.newest_window(4, 2)
    with pytest.raises(PlanError, match="right behind update_key"):
        quotes().where("price > 3").newest_window(4, 2)
    with pytest.raises(PlanError, match=r"rule must be one of .*Did you mean 'lazy'"):
        quotes().newest_window(4, 2, rule="lasy")
    with pytest.raises(WindowError, match="leave rows out"):
        quotes().newest_window(2, 4)
    served = quotes().newest_window(4, 2)
    with pytest.raises(PlanError, match="would answer from the rows that are left"):
        Stream(served.node).group_by("symbol").hopping(4, 2).aggregate(n=tw.count())
    with pytest.raises(PlanError, match="start where their window does"):
        Stream(served.node).edges("symbol")

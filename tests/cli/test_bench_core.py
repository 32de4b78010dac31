"""`thalweg bench core`, at sizes at which its figures mean nothing: every figure that is promised
is there."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks._data import LATEST, make_events
from benchmarks._timing import Timings, measure
from thalweg.cli import main
from thalweg.stream import GroupedStream, Stream, WindowedStream

pytest.importorskip("duckdb")

from benchmarks.core import OPERATORS

ROOT = Path(__file__).parents[2]
TINY = {"events": 3_000, "keys": 50, "batch": 400, "repeats": 1, "pushes": 30}
RUNS = {("filter", "final"), ("hopping", "final"), ("hopping", "speculative"), ("join", "final")}

Line = dict[str, Any]


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        options = [text for name, value in TINY.items() for text in ("-o", f"{name}={value}")]
        result = CliRunner().invoke(main, ["bench", "core", "--json", *options])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def _params(lines: list[Line], metric: str, *names: str) -> list[tuple[Any, ...]]:
    return [
        tuple(line["params"].get(name) for name in names)
        for line in lines
        if line["metric"] == metric
    ]


def test_every_line_is_a_figure(lines: list[Line]) -> None:
    for line in lines:
        assert list(line) == ["bench", "metric", "value", "unit", "params"]
        assert line["bench"] == "core"
        assert math.isfinite(line["value"]), line
        stateless = line["metric"] == "peak_state" and line["params"]["query"] == "filter"
        assert line["value"] == 0 if stateless else line["value"] > 0, line


@pytest.mark.parametrize("metric", ["ratio_to_duckdb", "peak_state", "growth"])
def test_every_query_has_its_figures(lines: list[Line], metric: str) -> None:
    found = _params(lines, metric, "query", "consistency")
    assert len(found) == len(RUNS)
    assert set(found) == RUNS


def test_speed_is_measured_on_both_sides(lines: list[Line]) -> None:
    found = _params(lines, "elements_per_second", "query", "engine", "consistency", "form")
    assert {
        (query, consistency) for query, engine, consistency, _ in found if engine == "thalweg"
    } == RUNS
    forms = {(query, form) for query, engine, _, form in found if engine == "duckdb"}
    panes = {("hopping", "panes_joined"), ("hopping", "panes_unnested")}
    assert forms == {
        ("filter", "where"),
        ("hopping", "naive"),
        *panes,
        ("join", "buckets"),
        ("join", "ranges"),
    }


def test_speed_tells_its_circumstances(lines: list[Line]) -> None:
    for line in lines:
        if line["metric"] == "elements_per_second":
            assert line["params"]["events"] == TINY["events"]
            assert line["params"]["threads"] == (1 if line["params"]["engine"] == "thalweg" else 2)


def test_the_join_gives_rows(lines: list[Line]) -> None:
    assert all(rows > 0 for (rows,) in _params(lines, "ratio_to_duckdb", "rows_out"))


def test_hops_are_compared(lines: list[Line]) -> None:
    assert _params(lines, "hop_growth", "consistency") == [("final",), ("speculative",)]


def test_every_operator_has_a_small_batch(lines: list[Line]) -> None:
    assert [operator for (operator,) in _params(lines, "small_batch", "operator")] == list(
        OPERATORS
    )


def test_operators_are_those_of_the_fluent_api() -> None:
    asides = {
        "node",
        "keys",
        "window",
        "schema",
        "properties",
        "explain",
        "partition",
        "expected",
        "expecting",
        "sources",
        "table",
        "filled",
        "id_column",
        "strategy",
        "plot",
        "update_key",  # a source's own fact, before any operator
        "newest_window",  # what its queue serves
        "stamp_arrivals",  # by the engine, which tells the time
    }
    parts = {
        "group_by",
        "aggregate",
        "apply",
        "windows",
        "fill",
        "using",
        "with_id",
    }  # said with others, or another word for one of them
    methods = {
        name
        for kind in (Stream, GroupedStream, WindowedStream)
        for name in vars(kind)
        if not name.startswith("_")
    }
    assert methods - asides - parts <= set(OPERATORS)


def test_events_are_as_late_as_they_say() -> None:
    events = make_events(20_000, keys=100, seed=3)
    start = events.table.column("_start").to_numpy()
    late = events.arrival - start
    assert (np.diff(events.arrival) >= 0).all()
    assert late.min() == 0
    assert late.max() <= LATEST
    assert 0.19 < (late > 0).mean() < 0.21
    assert events.table.equals(make_events(20_000, keys=100, seed=3).table)
    assert not events.table.equals(make_events(20_000, keys=100, seed=4).table)


def test_keys_are_skewed_alike_for_every_seed() -> None:
    tables = [make_events(20_000, keys=100, seed=seed).table for seed in (3, 4)]
    counts = [np.bincount(table.column("key").to_numpy(), minlength=100) for table in tables]
    assert counts[0].argmax() == counts[1].argmax()
    assert all(count.max() > 10 * np.median(count) for count in counts)


def test_batches_are_the_table() -> None:
    events = make_events(1_000, longest=50)
    assert [rows.num_rows for rows in events.batches(300)] == [300, 300, 300, 100]
    assert events.chunked(300).equals(events.table)
    assert len(events.first(10)) == 10


def test_cases_are_warmed_up_and_take_turns() -> None:
    ran: list[str] = []
    ticks, work = iter(range(0, 100, 2)), iter(range(0, 100, 3))
    cases = {"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}
    took = measure(
        cases, rounds=2, clock=lambda: float(next(ticks)), work_clock=lambda: float(next(work))
    )
    assert ran == ["a", "b", "a", "b", "b", "a"]
    assert took.seconds == {"a": [2.0, 2.0], "b": [2.0, 2.0]}
    assert took.cores("a") == 1.5
    assert took.work_ratio("a", "b") == 1.0


def test_a_ratio_is_taken_within_each_round() -> None:
    took = Timings({"ours": [1.0, 10.0, 2.0], "peer": [2.0, 20.0, 1.0], "other": [3.0, 3.0, 3.0]})
    assert took.ratio("peer", "ours") == 2.0
    assert took.fastest(["peer", "other"]) == "peer"

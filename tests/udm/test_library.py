"""The shipped modules: each lawful, each right on a small example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from tests.udm.modules import MINE
from thalweg.testing import assert_module_lawful, assert_physically_independent, check_module
from thalweg.udm import DEFAULT, Module, Registry, aggregate

PARAMS: dict[str, dict[str, Any]] = {
    "followed_by": {"params": {"first": "a", "second": "b", "within": 6}},
    "interpolate": {"params": {"every": 3}},
    "top_k": {"params": {"k": 2, "by": "v"}, "columns": {"v": "double", "name": "string"}},
    "weighted_quantile": {"params": {"q": 0.25}},
    "heavy_hitters": {"params": {"share": 0.3}},
}
SHIPPED = sorted(
    entry.name.partition(".")[2] for entry in DEFAULT.all() if entry.name.startswith("std.")
)


def test_the_library_is_complete() -> None:
    assert SHIPPED == [
        "average", "followed_by", "head_and_shoulders", "heavy_hitters", "interpolate", "median",
        "mode", "time_weighted_average", "top_k", "weighted_quantile",
    ]  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_lawful(name: str) -> None:
    assert_module_lawful(name, trials=30, **PARAMS.get(name, {}))


S = tw.source("s", {"name": "string", "v": "double", "w": "int64"})


def answers(
    query: tw.Stream, *rows: tuple[int, int, Any]
) -> list[tuple[int, int, tuple[Any, ...]]]:
    nothing = dict.fromkeys(S.schema.names)
    elements = [
        tw.insert(
            {**nothing, **(payload if isinstance(payload, dict) else {"v": payload})}, start, end
        )
        for start, end, payload in rows
    ]
    return [
        (start, end, tuple(payload.values()))
        for start, end, payload in tw.table(query, {"s": elements})
    ]


def test_time_weighted_average() -> None:
    """10 for 2 of 10 ticks, 20 for 5 of them, nothing for 3."""
    assert answers(
        S.tumbling(10).apply("time_weighted_average", "v"), (-4, 2, 10.0), (2, 7, 20.0)
    ) == [
        (-10, 0, (4.0,)),
        (0, 10, (12.0,)),
    ]


def test_median_and_mode() -> None:
    rows = [(at, at + 1, value) for at, value in enumerate([3.0, 1.0, None, 3.0, 9.0])]
    assert answers(S.tumbling(5).apply("median", "v"), *rows) == [(0, 5, (3.0,))]
    assert answers(S.tumbling(5).apply("mode", "v"), *rows) == [(0, 5, (3.0,))]
    assert answers(S.tumbling(5).apply("median", "v"), (0, 1, None)) == [(0, 5, (None,))]


def test_weighted_quantile() -> None:
    rows = [
        (at, at + 1, {"v": float(value), "w": weight})
        for at, (value, weight) in enumerate([(1, 1), (5, 1000), (9, 1)])
    ]
    assert answers(S.tumbling(5).apply("weighted_quantile", "v", "w"), *rows) == [(0, 5, (5.0,))]
    assert answers(
        S.tumbling(5).apply("weighted_quantile", "v", "w"), (0, 1, {"v": 1.0, "w": 0})
    ) == [(0, 5, (None,))]


def test_heavy_hitters() -> None:
    rows = [(0, 1, {"name": name}) for name in "aaaabbbcd"]
    assert answers(S.tumbling(5).apply("heavy_hitters", "name", params={"share": 0.3}), *rows) == [
        (0, 5, ("a", 4, 4)),
        (0, 5, ("b", 3, 3)),
    ]


def test_interpolation_of_edge_events() -> None:
    signal = S.edges().tumbling(8)
    assert answers(
        signal.apply("interpolate", "v", params={"every": 2}), (0, 1, 0.0), (4, 5, 8.0), (8, 9, 0.0)
    )[:4] == [
        (0, 2, (0.0,)),
        (2, 4, (4.0,)),
        (4, 6, (8.0,)),
        (6, 8, (8.0,)),
    ]


def test_a_followed_by_b() -> None:
    rows = [(at, at + 1, {"name": name}) for at, name in enumerate("axbabb")]
    query = S.tumbling(10).apply(
        "followed_by", "name", params={"first": "a", "second": "b", "within": 2}
    )
    assert answers(query, *rows) == [(2, 3, (0, 2)), (4, 5, (3, 4)), (5, 6, (3, 5))]


def test_head_and_shoulders() -> None:
    prices = [1.0, 5.0, 3.0, 9.0, 4.0, 5.2, 2.0, 3.0]
    rows = [(at, at + 1, price) for at, price in enumerate(prices)]
    assert answers(S.tumbling(10).apply("head_and_shoulders", "v"), *rows) == [
        (6, 7, (5.0, 9.0, 5.2))
    ]


@pytest.mark.parametrize("name", SHIPPED)
def test_whatever_the_form(name: str) -> None:
    source = tw.source("s", {"name": "string", "v": "double", "w": "int64"})
    options = PARAMS.get(name, {})
    columns = {
        "followed_by": ["name"],
        "heavy_hitters": ["name"],
        "weighted_quantile": ["v", "w"],
        "top_k": [],
    }.get(name, ["v"])
    query = source.tumbling(8).apply(name, *columns, params=options.get("params"))
    table = [
        (
            at * 3 % 11,
            at * 3 % 11 + 1 + at % 5,
            {"name": "ab"[at % 2], "v": float(at * 7 % 5), "w": at % 3},
        )
        for at in range(9)
    ]
    assert_physically_independent(query.node, {"s": table}, forms=3)


@pytest.mark.parametrize("entry", MINE.all(), ids=str)
def test_the_modules_of_the_tests_are_lawful_too(entry: Module) -> None:
    """They have every form that a module may have, so every law is tried."""
    assert [finding.broken for finding in check_module(entry, trials=15) if not finding.holds] == []


def test_a_broken_law_is_shown_by_the_smallest_window() -> None:
    registry = Registry()

    @aggregate("liar", inputs={"v": "int64"}, output="int64", registry=registry)
    class Liar:
        """Forgets to take a row out when it is the third."""

        def empty(self) -> list[int]:
            return []

        def add(self, state: list[int], values: Sequence[int]) -> list[int]:
            return [*state, *values]

        def remove(self, state: list[int], values: Sequence[int]) -> list[int]:
            return state if len(state) == 3 else state[: len(state) - len(values)]

        def result(self, state: list[int]) -> int:
            return len(state)

    (found,) = [finding for finding in check_module(registry.find("liar")) if not finding.holds]
    assert found.law == "remove undoes add"
    assert found.broken is not None
    assert found.broken.count("'v': ") == 3 and "after removing against without" in found.broken


def test_wrong_modules_are_found() -> None:
    registry = Registry()

    @aggregate("from_the_end", inputs={"v": "int64"}, output="int64", registry=registry)
    class FromTheEnd:
        """Removes as many rows as it is told, but always the last ones."""

        def empty(self) -> list[int]:
            return []

        def add(self, state: list[int], values: Sequence[int]) -> list[int]:
            return [*state, *values]

        def remove(self, state: list[int], values: Sequence[int]) -> list[int]:
            return state[: len(state) - len(values)]

        def result(self, state: list[int]) -> int:
            return sum(state)

    @aggregate("counts_calls", inputs={"v": "int64"}, output="int64", registry=registry)
    class CountsCalls:
        """Answers how often it was asked."""

        def __init__(self) -> None:
            self.calls = 0

        def compute(self, values: Sequence[int]) -> int:
            self.calls += 1
            return self.calls

    def broken(name: str) -> set[str]:
        return {one.law for one in check_module(registry.find(name)) if not one.holds}

    assert "remove undoes add" in broken("from_the_end")
    assert "deterministic" in broken("counts_calls")


def test_a_module_over_lists_takes_frames() -> None:
    @aggregate(
        "librarytests.longest",
        inputs={"xs": pa.list_(pa.int64())},
        output="bigint",
        takes="pandas",
    )
    def longest(frame: Any) -> int:
        return int(frame["xs"].map(len).max())

    stream = tw.source("s", {"xs": pa.list_(pa.int64())})
    rows = [tw.point({"xs": [1, 2]}, 1), tw.point({"xs": [1, 2, 3]}, 2)]
    query = stream.tumbling(10).apply(longest, "xs")
    assert tw.table(query, {"s": rows}) == [(0, 10, {"longest": 3})]

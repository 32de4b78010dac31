"""Queries that are long: many unions, calls one after the other, lists of values. They are built
without deep recursion, and a push costs what the plan's operators have to do."""

from __future__ import annotations

import math

import pytest

import thalweg as tw
from thalweg.shards.local_engine import DividedEngine

SOURCE = tw.source("s", {"k": "string", "v": "int64"}, insert_only=True)


def _count(engine: tw.Engine | DividedEngine, *values: int) -> int:
    out = engine.push("s", [tw.point({"k": "k", "v": v}, 1) for v in values])
    return sum(map(len, out))


@pytest.mark.parametrize("many", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("words", ["UNION ALL", "UNION"])
def test_thousands_of_unions_in_sql(words: str, many: int) -> None:
    parts = [f"SELECT v FROM s WHERE v > {least}" for least in range(many)]
    query = tw.sql(f" {words} ".join(parts), s=SOURCE)
    expected = 10 + 400 if words == "UNION ALL" else 2
    assert _count(tw.Engine(query), 10, 400) == expected


def test_unions_of_both_kinds_are_read_from_the_left() -> None:
    one = "SELECT v FROM s"
    query = tw.sql(f"{one} UNION ALL {one} UNION {one} UNION ALL {one}", s=SOURCE)
    assert _count(tw.Engine(query), 1, 2) == 4  # each once, and once more
    query = tw.sql(f"{one} UNION {one} UNION ALL {one} UNION ALL {one}", s=SOURCE)
    assert _count(tw.Engine(query), 1, 2) == 6


def test_a_chain_of_unions_costs_what_its_levels_cost() -> None:
    query = SOURCE
    for _ in range(500):
        query = query.union(SOURCE)
    engine = tw.Engine(query)
    assert _count(engine, 1) == 501
    runs = sum(figures.batches for figures in engine.status().operators.values())
    assert runs < 501 * (math.log2(501) + 2)


@pytest.mark.parametrize("engine", [tw.Engine, DividedEngine])
@pytest.mark.parametrize("calls", ["where", "shift", "union"])
@pytest.mark.parametrize("many", [1_500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_calls_one_after_the_other(
    engine: type[tw.Engine | DividedEngine], calls: str, many: int
) -> None:
    query = SOURCE
    for at in range(many):
        if calls == "where":
            query = query.where("v > 1")
        elif calls == "shift":
            query = query.shift(1) if at % 2 else query.where("v > 1")
        else:
            query = query.union(SOURCE)
    assert _count(engine(query), 1, 5) == (2 * (many + 1) if calls == "union" else 1)


@pytest.mark.parametrize("many", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_long_list_of_values(many: int) -> None:
    listed = ", ".join(f"'t{i}'" for i in range(many))
    query = SOURCE.where(f"k IN ({listed})")
    engine = tw.Engine(query)
    rows = [tw.point({"k": k, "v": 1}, 1) for k in ("t5", f"t{many}", f"t{many - 1}")]
    assert sum(map(len, engine.push("s", rows))) == 2

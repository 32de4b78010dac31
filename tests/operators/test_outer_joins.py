"""An outer join is its parts: the pairs of the inner join, and what no match covers, alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import thalweg as tw
from thalweg.model import Row
from thalweg.plan.nodes import Join, find
from thalweg.plan.rules import optimize
from thalweg.testing import assert_same_table, oracle
from thalweg.testing.strategies import rows

COLUMNS = {"k": "int64", "v": "int64"}
A, B = tw.source("a", COLUMNS), tw.source("b", COLUMNS)
ROWS = rows(A.schema, nulls=("k",), max_rows=7, times=(0, 30))

PAIRS = A.join(B, on="k", where="l.v <= r.v", select={"x": "l.v", "y": "r.v"})
LEFT = A.anti_join(B, on="k", where="l.v <= r.v").select(x="v", y="cast(null as bigint)")
RIGHT = B.anti_join(A, on="k", where="r.v <= l.v").select(x="cast(null as bigint)", y="v")
PARTS = {
    "left": PAIRS.union(LEFT),
    "right": PAIRS.union(RIGHT),
    "full": PAIRS.union(LEFT).union(RIGHT),
}


def outer(how: str) -> tw.Stream:
    return A.join(B, on="k", how=how, where="l.v <= r.v", select={"x": "l.v", "y": "r.v"})


@pytest.mark.parametrize("how", PARTS)
@settings(max_examples=60, deadline=None)
@given(a=ROWS, b=ROWS)
def test_an_outer_join_is_its_parts(how: str, a: list[Row], b: list[Row]) -> None:
    inputs = {
        name: [tw.insert(payload, start, end) for start, end, payload in table]
        for name, table in (("a", a), ("b", b))
    }
    joined = tw.table(outer(how), inputs)
    assert_same_table(joined, tw.table(PARTS[how], inputs))
    assert_same_table(joined, oracle(PARTS[how].node, {"a": a, "b": b}))


@pytest.mark.parametrize("how", PARTS)
def test_an_outer_join_is_one_operator(how: str) -> None:
    assert len(list(find(optimize(outer(how).node)[0], Join))) == 1


def test_a_row_that_stands_alone_knows_its_own_start() -> None:
    query = A.left_join(B, on="k", select={"at": "l._start"})
    inputs = {"a": [tw.insert({"k": 1, "v": 0}, 0, 9)], "b": [tw.insert({"k": 1, "v": 0}, 3, 5)]}
    assert tw.table(query, inputs) == [(0, 3, {"at": 0}), (3, 5, {"at": 0}), (5, 9, {"at": 0})]

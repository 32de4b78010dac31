"""`tw.merge` in a query: its meaning under the fuzzer, the level it runs at, what it refuses."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.errors import InputError, PlanError, TypeMismatchError
from thalweg.model import Element, Row
from thalweg.plan.nodes import Merge, Source, find
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import EngineType, assert_physically_independent

COLUMNS = {"k": "string", "v": "int64"}
A, B = tw.source("a", COLUMNS), tw.source("b", COLUMNS)
ROWS: list[Row] = [
    (1, 4, {"k": "x", "v": 1}),
    (2, 9, {"k": "y", "v": 1}),
    (12, 14, {"k": "x", "v": 3}),
    (12, 19, {"k": "x", "v": 3}),
    (25, 27, {"k": "y", "v": 3}),
]


def counts(stream: tw.Stream) -> tw.Stream:
    return stream.tumbling(10).aggregate(n=tw.count())


def grouped(stream: tw.Stream) -> tw.Stream:
    return stream.group_by("k").tumbling(10).aggregate(n=tw.count())


@pytest.mark.parametrize(
    "query",
    [
        tw.merge(A, B),
        tw.merge(counts(A), counts(B)),
        tw.merge(grouped(A), grouped(B)),
        tw.merge(grouped(A), grouped(A)),
        tw.merge(grouped(A), grouped(B), missing="keep"),
        tw.merge(grouped(A), grouped(B), revise="every", lag=3),
        tw.merge(A, B).group_by("k").tumbling(10).aggregate(n=tw.count()),
        tw.merge(A.in_order(), B.in_order()),
    ],
    ids=["rows", "counts", "groups", "one source", "keep", "every", "below a window", "in order"],
)
def test_a_merge_means_what_its_inputs_mean(query: tw.Stream) -> None:
    names = {source.name for source in find(query.node, Source)}
    assert_physically_independent(query.node, dict.fromkeys(names, ROWS), forms=8)


@pytest.mark.parametrize(
    "query",
    [
        tw.merge(A, B),
        tw.merge(counts(A), counts(B)),
        tw.merge(grouped(A), grouped(B), missing="keep"),
        grouped(tw.merge(A, B)),
        tw.merge(A.in_order(), B.in_order()),
    ],
    ids=["rows", "counts", "groups", "below a window", "in order"],
)
def test_a_merge_runs_in_buckets(query: tw.Stream) -> None:
    inputs = {"a": ROWS, "b": ROWS}
    assert_physically_independent(query.node, inputs, forms=3, engine=DividedEngine)


SENSORS = [tw.source(name, COLUMNS, group_ctis="k") for name in "ab"]
BY_GROUP: list[Element] = [
    *(tw.insert(payload, start, end) for start, end, payload in ROWS),
    *(tw.cti(time, {"k": k}) for k, time in (("x", 15), ("y", 20), ("x", 40))),
]


@pytest.mark.parametrize("engine", [tw.Engine, DividedEngine])
@pytest.mark.parametrize(
    "query",
    [
        tw.merge(*SENSORS),
        tw.merge(*map(grouped, SENSORS)),
        grouped(tw.merge(*SENSORS, missing="keep")),
    ],
    ids=["rows", "groups", "below a window"],
)
def test_promises_for_groups_pass_a_merge(query: tw.Stream, engine: EngineType) -> None:
    inputs = {"a": BY_GROUP, "b": BY_GROUP}
    assert_physically_independent(query.node, inputs, forms=2, engine=engine)


def test_a_group_is_final_behind_a_merge_when_one_input_has_promised_it() -> None:
    engine = tw.Engine(grouped(tw.merge(*SENSORS)), consistency="final")
    x = {"k": "x", "v": 1}
    engine.push("a", [tw.point(x, 3), tw.point({"k": "y", "v": 1}, 4)])
    out = engine.push("a", tw.cti(10, {"k": "x"}))
    assert tw.insert({"k": "x", "n": 1}, 0, 10) in list(tw.elements_of(out))


def level(*streams: tw.Stream, final: bool = False) -> tuple[str, tuple[str, ...]]:
    node = tw.merge(*streams).node
    assert isinstance(node, Merge)
    choice = node.choose(final=final)
    return choice.level, choice.groups


def test_the_level_follows_from_the_plan_and_the_consistency() -> None:
    # 3) an aggregate: one answer a start; 5) groups with final answers; 6) groups that are revised
    assert level(counts(A), counts(B), final=True) == ("R0", ())
    assert level(grouped(A), grouped(B), final=True) == ("R1", ())
    assert level(grouped(A), grouped(B)) == ("R3", ("k",))
    assert level(counts(A), counts(B)) == ("R3", ())
    assert level(A, B) == ("R4", ())
    # 2) an operator that enforces a property; 4) several rows of a start in one order
    assert level(A.in_order(), B.in_order()) == ("R1", ())
    assert level(counts(A).in_order(), counts(B).in_order()) == ("R0", ())
    assert level(A.in_order(), B) == ("R4", ())
    # 1) what sources declare
    ordered = [
        tw.source(n, COLUMNS, ordered=True, insert_only=True, unique_start=True) for n in "ab"
    ]
    assert level(*ordered) == ("R0", ())


def test_explain_says_the_level_and_why() -> None:
    text = tw.merge(grouped(A), grouped(B)).explain()
    assert "R3 by group (k): one row for each group and start, revised" in text
    assert "with final answers R1: final answers of windows" in text


def test_a_level_that_is_asked_for_is_taken() -> None:
    node = tw.merge(A, B, level="R2").node
    assert isinstance(node, Merge) and node.choose(final=False).level == "R2"


def test_streams_of_other_columns_are_refused() -> None:
    with pytest.raises(TypeMismatchError, match="stream 2 has other columns") as refused:
        tw.merge(A, counts(B))
    assert refused.value.file == __file__
    with pytest.raises(PlanError, match="at least one stream"):
        tw.merge()
    with pytest.raises(PlanError, match="merge"):
        tw.merge(A, B, groups="nothing")


def test_rows_of_merged_sources_are_held_once() -> None:
    """Ten inputs of one table: the merge holds its rows, the sources none."""
    sources = [tw.source(f"s{at}", {"v": "int64"}) for at in range(10)]
    engine = tw.Engine(tw.merge(*sources))
    for at in range(10):
        engine.push(f"s{at}", [tw.insert({"v": row}, row, 500) for row in range(100)])
    assert engine.status().state.rows <= 200
    engine.push("s0", tw.adjust({"v": 3}, 3, 500, 400))
    for at in range(10):
        engine.push(f"s{at}", tw.cti(2**63 - 1))
    assert engine.status().state.rows == 0


def test_a_source_with_another_reader_still_checks_adjusts() -> None:
    a, b = (tw.source(name, {"v": "int64"}) for name in "ab")
    engine = tw.Engine(tw.merge(a, b).union(a))
    with pytest.raises(InputError, match="adjust of a row that is not there"):
        engine.push("a", tw.adjust({"v": 3}, 3, 500, 400))

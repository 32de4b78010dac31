"""Each rule by example, and all of them against the oracle: the table before is the table after."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.rule_cases import CASES, GROUPED, SEVERAL, A, B, RuleCase
from thalweg.expr import col
from thalweg.model import Row
from thalweg.plan.aggregates import count
from thalweg.plan.explain import plan_text
from thalweg.plan.nodes import GroupApply, Node, Source, Union, Where, WindowAggregate, walk
from thalweg.plan.rules import RULES, optimize
from thalweg.stream import Stream
from thalweg.testing import assert_same_table, oracle
from thalweg.testing.strategies import KEYED, queries, rows

A_ROWS = rows(A.schema, nulls=("k", "v", "w", "t"), max_rows=7, times=(0, 30))
B_ROWS = rows(B.schema, nulls=("k", "x", "u"), max_rows=7, times=(0, 30))


def rule_named(name: str) -> ModuleType:
    return importlib.import_module(f"thalweg.plan.rules.{name}")


def by_id(case: RuleCase) -> str:
    return case.id


@pytest.mark.parametrize("case", CASES, ids=by_id)
def test_one_rule_on_one_node(case: RuleCase) -> None:
    before, after = case.texts
    assert plan_text(case.query.node) == before
    rewritten = rule_named(case.rule).apply(case.query.node)
    assert (None if rewritten is None else plan_text(rewritten)) == after


@pytest.mark.parametrize("case", SEVERAL, ids=by_id)
def test_rules_together(case: RuleCase) -> None:
    before, after = case.texts
    assert plan_text(case.query.node) == before
    assert plan_text(optimize(case.query.node)[0]) == after


@pytest.mark.parametrize("case", [*CASES, *SEVERAL], ids=by_id)
@settings(max_examples=40, deadline=None)
@given(a=A_ROWS, b=B_ROWS)
def test_the_table_stays_the_same(case: RuleCase, a: list[Row], b: list[Row]) -> None:
    rewritten, _ = optimize(case.query.node)
    assert rewritten.schema == case.query.schema
    tables = {"a": a, "b": b}
    assert_same_table(oracle(case.query.node, tables), oracle(rewritten, tables))


@pytest.mark.parametrize("shape", GROUPED)
@settings(max_examples=40, deadline=None)
@given(a=A_ROWS, b=B_ROWS)
def test_groups_become_keys_and_the_table_stays_the_same(
    shape: str, a: list[Row], b: list[Row]
) -> None:
    query = GROUPED[shape].node
    rewritten, applied = optimize(query)
    assert applied[0].rule == "ungroup" and not any(
        isinstance(node, GroupApply) for node in walk(rewritten)
    )
    assert rewritten.schema == query.schema
    tables = {"a": a, "b": b}
    assert_same_table(oracle(query, tables), oracle(rewritten, tables))


ONE, TWO = Source("one", KEYED), Source("two", KEYED)


@settings(max_examples=150, deadline=None)
@given(query=queries(ONE, TWO, depth=4), one=rows(), two=rows(), bound=st.integers(0, 3))
def test_any_query_keeps_its_table(
    query: WindowAggregate, one: list[Row], two: list[Row], bound: int
) -> None:
    filtered = Where(query, col(query.schema.names[0]) > bound)
    rewritten, _ = optimize(filtered)
    tables = {"one": one, "two": two}
    assert_same_table(oracle(filtered, tables), oracle(rewritten, tables))


@given(query=queries(ONE, TWO, depth=4))
@settings(max_examples=50, deadline=None)
def test_a_rewritten_plan_is_not_rewritten_again(query: WindowAggregate) -> None:
    rewritten, _ = optimize(query)
    again, applied = optimize(rewritten)
    assert again is rewritten and applied == []


def test_every_rule_has_a_name_a_law_and_a_case() -> None:
    for rule in RULES:
        assert isinstance(rule, ModuleType)
        assert rule.__name__.endswith(f".{rule.name}")
        assert rule.__doc__ and ("=" in rule.__doc__ or "Law." in rule.__doc__), (
            f"{rule.name} states no law"
        )
    local = {rule.name for rule in RULES} - {"ungroup", "balance_unions", "share_panes"}
    assert local == {case.rule for case in CASES}
    assert {case.rule for case in CASES if case.after is None} >= local - {
        "where_below_union",
        "merge_clip_durations",
        "merge_set_durations",
    }


def test_a_long_chain_of_unions_is_a_tree_and_one_that_others_read_stays() -> None:
    chain = A
    for least in range(40):
        chain = chain.union(A.where(f"v > {least}"))
    shared = chain
    for _ in range(3):
        chain = chain.union(A)
    query = chain.union(shared)
    rewritten, applied = optimize(query.node)
    assert "balance_unions" in [step.rule for step in applied]
    assert _levels(rewritten) < 12 < _levels(query.node)
    tables = {"a": [(1, 5, {"k": 1, "v": v, "w": 0.5, "t": "t"}) for v in (3, 50)]}
    assert_same_table(oracle(query.node, tables), oracle(rewritten, tables))


def _levels(root: Node) -> int:
    """How many unions lie on the longest way."""
    found: dict[Node, int] = {}
    for node in walk(root):
        below = max((found[child] for child in node.inputs), default=0)
        found[node] = below + isinstance(node, Union)
    return found[root]


def test_two_filters_are_never_made_one() -> None:
    """The second filter would fail on a row that the first rejects."""
    query = A.where("t <> 'NA'").where("cast(t as bigint) > 1")
    rewritten, applied = optimize(query.node)
    assert rewritten is query.node and not applied


def test_a_filter_does_not_go_below_work_that_others_read() -> None:
    counts = A.select("k").group_by("k").tumbling(10).aggregate(n=count())
    query = counts.where("k = 1").union(counts.where("k = 2"))
    rewritten, applied = optimize(query.node)
    assert [step.rule for step in applied] == []
    assert sum(isinstance(node, WindowAggregate) for node in walk(rewritten)) == 1


def test_what_was_shared_stays_shared() -> None:
    shared = A.where("v > 1").shift(1).shift(2)
    query = shared.union(shared).join(shared, on="k", select={"v": "l.v"})
    rewritten, applied = optimize(query.node)
    assert [step.rule for step in applied] == ["merge_shifts", "prune_columns"]
    labels = [node.label for node in walk(rewritten)]
    assert labels.count("shift") == 1 and labels.count("source") == 1 and labels.count("where") == 1


def test_an_unchanged_plan_is_the_same_object() -> None:
    query: Stream = A.where("v > 1")
    assert optimize(query.node) == (query.node, [])

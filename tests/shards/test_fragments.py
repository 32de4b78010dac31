"""Cutting a plan into fragments: what is exchanged by which keys, what runs before the exchange,
what meets in one bucket."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.expr import col
from thalweg.plan.nodes import Join, Node, Shift, Source, walk
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import FragmentPlan, parts_of, sources_of, targets_of
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import assert_physically_independent

COLUMNS = {"k": "string", "v": "int64", "w": "int64"}
S, T = tw.source("s", COLUMNS), tw.source("t", {"k": "string", "x": "int64"})
EVENTS = tw.source("s", COLUMNS, insert_only=True, late="drop", disorder=5)
LISTS = tw.source("s", pa.schema([("k", pa.int64()), ("items", pa.list_(pa.int64()))]))
N = tw.count()

Shown = list[list[tuple[str, str, list[str]]]]


def plan(query: tw.Stream | Node) -> FragmentPlan:
    return fragments_of(query.node if isinstance(query, tw.Stream) else query)


def labels(node: Node | None) -> list[str]:
    """What runs before an exchange, first to last."""
    return [] if node is None else [one.label for one in walk(node) if not isinstance(one, Source)]


def shown(query: tw.Stream | Node) -> Shown:
    """Per fragment its inputs: where each comes from, its keys, and what runs before the
    exchange."""
    return [
        [
            (
                f"fragment {entry.upstream}" if entry.source is None else entry.source.name,
                ", ".join(map(str, entry.keys)),
                labels(entry.ingest),
            )
            for entry in fragment.inputs
        ]
        for fragment in plan(query).fragments
    ]


def keys(query: tw.Stream | Node) -> list[list[str]]:
    """Per fragment the keys of its inputs."""
    return [[by for _, by, _ in inputs] for inputs in shown(query)]


# ------------------------------------------------------------------------------------------------
# before the exchange


def test_row_operators_run_before_the_exchange() -> None:
    query = (
        S.where("v > 1").select("k", x="v + 1").group_by("k").session(5).aggregate(n=tw.sum_("x"))
    )
    assert shown(query) == [[("s", "k", ["where", "select"])]]


def test_what_changes_lifetimes_runs_after_it() -> None:
    query = S.where("v > 1").shift(3).where("w > 1").group_by("k").snapshot().aggregate(n=N)
    (fragment,) = plan(query).fragments
    assert shown(query) == [[("s", "k", ["where"])]]
    assert "shift" in labels(fragment.plan)


def test_without_an_operator_that_needs_rows_together_equal_rows_meet() -> None:
    assert shown(S.where("v > 1").select("k", "v")) == [[("s", "k, v", ["where", "select"])]]
    assert keys(S) == [["k, v, w"]]


def test_columns_nobody_reads_are_left_behind() -> None:
    (fragment,) = plan(S.group_by("k").snapshot().aggregate(n=N)).fragments
    assert fragment.inputs[0].leaf.schema.names == ["k"]


def test_a_start_is_read_before_the_exchange_unless_late_rows_are_moved() -> None:
    for late, where in (("drop", ["where"]), ("side", ["where"]), ("adjust", [])):
        events = tw.source("s", COLUMNS, late=late)
        assert shown(
            events.where("_start > 3")
            .group_by("k")
            .snapshot()
            .aggregate(n=tw.sum_("v"), m=tw.sum_("w"))
        ) == [[("s", "k", where)]]


@pytest.mark.parametrize(
    "build",
    [lambda s: s.select("k", x="_start"), lambda s: s.where("_start < 10")],
    ids=["select", "where"],
)
def test_a_late_row_that_is_moved_is_seen_where_it_was_moved_to(build: Any) -> None:
    query = build(tw.source("s", {"k": "int64"}, late="adjust"))
    feed = [tw.insert({"k": 1}, 2, 30), tw.cti(10), tw.insert({"k": 2}, 4, 20), tw.cti(None)]
    whole, divided = (
        sorted(map(str, tw.elements_of(engine.push("s", feed))))
        for engine in (tw.Engine(query), DividedEngine(query))
    )
    assert divided == whole


# ------------------------------------------------------------------------------------------------
# panes


def test_partial_sums_are_made_before_the_exchange() -> None:
    query = (
        EVENTS.where("v > 1")
        .group_by("k")
        .hopping(10, 5)
        .aggregate(n=N, s=tw.sum_("v"), a=tw.avg("w"))
    )
    assert [entry[2][-1] for entry in shown(query)[0]] == ["panes"]
    (fragment,) = plan(query).fragments
    assert labels(fragment.plan) == ["combine_panes"]
    assert fragment.inputs[0].panes is not None and fragment.inputs[0].leaf.ingress.trusted


@pytest.mark.parametrize(
    "query",
    [
        S.group_by("k").tumbling(10).aggregate(n=N),
        EVENTS.group_by("k").tumbling(10).aggregate(m=tw.max_("v")),
        EVENTS.group_by("k").hopping(10, 3).aggregate(n=N),
        EVENTS.group_by("k").snapshot().aggregate(n=N),
        EVENTS.shift(3).group_by("k").tumbling(10).aggregate(n=N),
        tw.source("s", COLUMNS, insert_only=True, late="adjust")
        .group_by("k")
        .tumbling(10)
        .aggregate(n=N),
        tw.source("s", COLUMNS, insert_only=True, late="side")
        .group_by("k")
        .tumbling(10)
        .aggregate(n=N),
    ],
    ids=[
        "adjusts may come",
        "no partial sum",
        "hop does not divide size",
        "no grid",
        "lifetimes change",
        "late are moved",
        "late are kept",
    ],
)
def test_no_partial_sums_where_they_would_lose_something(query: tw.Stream) -> None:
    assert "panes" not in [
        label for inputs in shown(query) for _, _, before in inputs for label in before
    ]


# ------------------------------------------------------------------------------------------------
# one bucket


@pytest.mark.parametrize(
    "query",
    [
        S.snapshot().aggregate(n=N),
        S.top_k(2, by="v"),
        S.join(T, where="l.v = r.x", select={"v": "l.v"}),
        S.group_by("k").tumbling(10).fill(["a", "b"]).aggregate(n=N),
        S.shift(3).select(t="_start % 2").group_by("t").snapshot().aggregate(n=N),
        LISTS.shift(3)
        .select_many(unnest="items", item="items")
        .group_by("item")
        .snapshot()
        .aggregate(n=N),
        tw.source("s", COLUMNS, partition="k", disorder=3).group_by("k").snapshot().aggregate(n=N),
        tw.source("s", COLUMNS, disorder=3).group_by("k").snapshot().aggregate(n=N),
    ],
    ids=[
        "no key",
        "top_k",
        "no join key",
        "fill",
        "key is a new start",
        "key is an item",
        "partitions",
        "disorder with adjusts",
    ],
)
def test_one_bucket(query: tw.Stream) -> None:
    (fragment,) = plan(query).fragments
    assert fragment.single
    assert "in one bucket: the query has no key to divide it by" in plan(query).describe()


def test_a_source_that_needs_its_order_is_admitted_as_it_was_declared() -> None:
    (fragment,) = plan(
        tw.source("s", COLUMNS, partition="k", disorder=3).group_by("k").snapshot().aggregate(n=N)
    ).fragments
    assert (
        fragment.inputs[0].leaf.ingress.disorder == 3
        and fragment.inputs[0].leaf.ingress.partition == "k"
    )


def test_disorder_without_adjusts_is_judged_by_the_runner() -> None:
    (fragment,) = plan(EVENTS.group_by("k").snapshot().aggregate(n=N)).fragments
    (entry,) = fragment.inputs
    assert not fragment.single
    assert (
        entry.leaf.ingress.disorder is None
        and entry.source is not None
        and entry.source.ingress.disorder == 5
    )


# ------------------------------------------------------------------------------------------------
# following


def test_an_operator_that_groups_finer_stays_in_its_bucket() -> None:
    fine = S.group_by("k").snapshot().aggregate(n=N).group_by("k", "n").snapshot().aggregate(m=N)
    assert keys(fine) == [["k"]]


def test_an_operator_that_groups_coarser_or_otherwise_asks_for_an_exchange() -> None:
    pairs = S.group_by("k", "v").snapshot().aggregate(n=N)
    assert keys(pairs.group_by("v").snapshot().aggregate(m=N)) == [["k, v"], ["v"]]
    assert keys(pairs.group_by("n").snapshot().aggregate(m=N)) == [["k, v"], ["n"]]
    assert keys(pairs.snapshot().aggregate(m=N)) == [["k, v"], [""]]


def test_three_fragments_in_a_row() -> None:
    query = (
        S.group_by("k", "v")
        .snapshot()
        .aggregate(n=N)
        .group_by("v")
        .snapshot()
        .aggregate(m=N)
        .top_k(1, by="m")
    )
    chain = plan(query)
    assert keys(query) == [["k, v"], ["v"], [""]]
    assert [[entry.upstream for entry in fragment.inputs] for fragment in chain.fragments] == [
        [None],
        [0],
        [1],
    ]
    assert parts_of(chain, chain.fragments[1], [3, 5, 8]) == {"fragment-0": 3}
    assert parts_of(chain, chain.fragments[2], [3, 5, 8]) == {"fragment-1": 3}
    assert parts_of(chain, chain.fragments[0], [3, 5, 8]) == {}


def test_what_was_in_one_bucket_stays_there() -> None:
    query = S.snapshot().aggregate(n=N).group_by("n").snapshot().aggregate(m=N)
    (fragment,) = plan(query).fragments
    assert fragment.single


def test_keys_are_followed_through_select_and_rename() -> None:
    groups = S.group_by("k").snapshot().aggregate(n=N)
    assert keys(groups.rename(k="z").group_by("z").snapshot().aggregate(m=N)) == [["k"]]
    assert keys(groups.select(z="k", n="n + 1").group_by("z").snapshot().aggregate(m=N)) == [["k"]]
    assert keys(groups.select(k="n", n="k").group_by("k").snapshot().aggregate(m=N)) == [
        ["k"],
        ["k"],
    ]
    assert keys(groups.select("n").group_by("n").snapshot().aggregate(m=N)) == [["k"], ["n"]]
    assert keys(groups.select(z="upper(k)").group_by("z").snapshot().aggregate(m=N)) == [
        ["k"],
        ["z"],
    ]


def test_keys_are_put_in_terms_of_what_is_below_a_select() -> None:
    query = S.shift(2).select(z="v + w", y="k").group_by("z").snapshot().aggregate(n=tw.count("y"))
    assert keys(query) == [["v + w"]]


def test_an_item_of_a_list_is_not_the_list() -> None:
    counted = (
        LISTS.group_by("items")
        .snapshot()
        .aggregate(n=N)
        .select_many("n", unnest="items", items="items")
    )
    assert keys(counted.group_by("items").snapshot().aggregate(m=N)) == [["items"], ["items"]]
    assert keys(
        LISTS.select_many(unnest="items", item="items").group_by("item").snapshot().aggregate(n=N)
    ) == [["item"]]


@pytest.mark.parametrize("below", ["a new lifetime", "an aggregate"])
def test_equal_items_of_different_lists_meet(below: str) -> None:
    stream = (
        LISTS.shift(2)
        if below == "a new lifetime"
        else LISTS.group_by("items").snapshot().aggregate(n=N)
    )
    query = (
        stream.select_many(unnest="items", item="items").group_by("item").snapshot().aggregate(m=N)
    )
    rows = [
        (i % 5, i % 5 + 4, {"k": i % 3, "items": [i % 4, (i + 1) % 4, i % 7]}) for i in range(20)
    ]
    assert_physically_independent(query.node, {"s": rows}, forms=2, engine=DividedEngine)


# ------------------------------------------------------------------------------------------------
# two inputs


def test_a_join_exchanges_both_sides_by_its_keys() -> None:
    assert shown(S.join(T, on="k")) == [[("s", "k", []), ("t", "k", [])]]
    assert keys(S.join(T, on={"v + 1": "x"}, select={"v": "l.v"})) == [["v + 1", "x"]]


def test_a_side_that_is_placed_by_some_of_the_keys_stays_where_it_is() -> None:
    placed = S.group_by("k").snapshot().aggregate(n=N)
    assert keys(placed.join(T, on="k")) == [["k", "k"]]
    assert keys(placed.join(T, on={"n": "x", "k": "k"}, select={"n": "l.n"})) == [["k", "k"]]
    assert keys(T.join(placed, on={"k": "k", "x": "n"}, select={"n": "r.n"})) == [["k", "k"]]


def test_a_side_that_is_placed_otherwise_is_exchanged_again() -> None:
    placed = S.group_by("k").snapshot().aggregate(n=N)
    assert shown(placed.join(T, on={"n": "x"}, select={"n": "l.n"})) == [
        [("s", "k", ["select"])],
        [("fragment 0", "n", []), ("t", "x", ["select"])],
    ]


def test_a_join_hands_its_keys_on_under_their_new_names() -> None:
    joined = S.join(T, on="k", select={"a": "r.k", "v": "l.v"})
    assert keys(joined.group_by("a").snapshot().aggregate(n=N)) == [["k", "k"]]
    lost = S.join(T, on="k", select={"v": "l.v"})
    assert keys(lost.group_by("v").snapshot().aggregate(n=N)) == [["k", "k"], ["v"]]
    assert keys(S.anti_join(T, on="k").group_by("k").snapshot().aggregate(n=N)) == [["k", "k"]]


def test_rows_without_a_partner_may_have_another_key_than_their_bucket() -> None:
    outer = (
        S.join(T, on="k", how="left", select={"a": "r.k", "v": "l.v"})
        .group_by("a")
        .snapshot()
        .aggregate(n=N)
    )
    rows: dict[str, Any] = {
        "s": [(i % 4, i % 4 + 3, {"k": f"{i % 6}", "v": i % 2, "w": 0}) for i in range(12)],
        "t": [(1, 3, {"k": "0", "x": 1}), (2, 6, {"k": "5", "x": 1})],
    }
    assert_physically_independent(outer.node, rows, forms=2, engine=DividedEngine)


def test_a_self_join_reads_its_source_once_where_the_keys_agree() -> None:
    (fragment,) = plan(S.join(S.shift(2), on="k")).fragments
    assert [(entry.leaf.name, str(entry.keys[0])) for entry in fragment.inputs] == [("s", "k")]


def test_a_self_join_reads_its_source_twice_where_they_differ() -> None:
    (fragment,) = plan(S.join(S.shift(2), on={"v": "w"}, select={"a": "l.k", "b": "r.k"})).fragments
    assert [(entry.leaf.name, str(entry.keys[0])) for entry in fragment.inputs] == [
        ("s", "v"),
        ("s#2", "w"),
    ]
    assert {entry.source.name for entry in fragment.inputs if entry.source is not None} == {"s"}


def test_null_safe_columns_are_keys_too() -> None:
    a, b = (
        Source("a", pa.schema([("k", pa.int64()), ("g", pa.int64())])),
        Source("b", pa.schema([("k", pa.int64()), ("g", pa.int64())])),
    )
    query = Join(a, Shift(b, 1), (col("k"),), (col("k"),), result=(("g", col("l.g")),), same=("g",))
    assert keys(query) == [["k, g", "k, g"]]
    rows: dict[str, Any] = {
        name: [(0, 5, {"k": i % 2, "g": None if i % 3 else i}) for i in range(6)]
        for name in ("a", "b")
    }
    assert_physically_independent(query, rows, forms=2, engine=DividedEngine)


def test_a_group_apply_is_placed_by_its_keys() -> None:
    inside = S.group_by("k").apply(lambda g: g.join(g.shift(3), select={"a": "l.v", "b": "r.v"}))
    (fragment,) = plan(inside).fragments
    assert [len(entry.keys) for entry in fragment.inputs] == [1, 1]
    nested = S.group_by("k").apply(
        lambda g: g.group_by("v").apply(lambda h: h.snapshot().aggregate(n=N))
    )
    assert [len(entry.keys) for entry in plan(nested).fragments[0].inputs] == [2]


def test_both_sides_of_a_union_meet() -> None:
    one, two = S.group_by("k").snapshot().aggregate(n=N), T.group_by("k").snapshot().aggregate(n=N)
    assert keys(S.select("k").union(T.select("k")).group_by("k").snapshot().aggregate(n=N)) == [
        ["k", "k"]
    ]
    assert keys(one.union(two)) == [["k", "k"]]
    assert keys(one.union(T.select("k", n="x"))) == [["k", "k"]]
    assert keys(one.union(two.select(k="cast(n as text)", n="n"))) == [["k"], ["k", "k"]]


def test_a_union_with_one_bucket_is_in_one_bucket() -> None:
    total = S.snapshot().aggregate(n=N)
    last = plan(total.union(T.group_by("k").snapshot().aggregate(n=N).select("n"))).fragments[-1]
    assert last.single and len(last.inputs) == 2


# ------------------------------------------------------------------------------------------------
# who reads whom


def test_targets_of_a_source_and_of_a_fragment() -> None:
    chain = plan(
        S.group_by("k")
        .snapshot()
        .aggregate(n=N)
        .join(T, on={"n": "x"}, select={"n": "l.n"})
        .top_k(1, by="n")
    )
    ids = [3, 5]
    assert [(number, buckets) for number, _, buckets in targets_of(chain, ids, source="s")] == [
        (0, ids)
    ]
    assert [(number, buckets) for number, _, buckets in targets_of(chain, ids, source="t")] == [
        (1, ids)
    ]
    assert [(number, buckets) for number, _, buckets in targets_of(chain, ids, upstream=0)] == [
        (1, ids)
    ]
    assert [(number, buckets) for number, _, buckets in targets_of(chain, ids, upstream=1)] == [
        (2, [3])
    ]
    assert targets_of(chain, ids, upstream=2) == []
    assert sorted(sources_of(chain)) == ["s", "t"]


def test_two_readers_of_one_aggregate_each_get_it_by_their_own_keys() -> None:
    counts = S.group_by("k").snapshot().aggregate(n=N)
    query = (
        counts.group_by("n")
        .snapshot()
        .aggregate(m=N)
        .select("m")
        .union(counts.snapshot().aggregate(m=N))
    )
    assert {by for inputs in keys(query) for by in inputs} == {"k", "n", ""}
    rows = [(i % 3, i % 3 + 4, {"k": f"{i % 4}", "v": 1, "w": 1}) for i in range(9)]
    assert_physically_independent(query.node, {"s": rows}, forms=2, engine=DividedEngine)


def test_fragments_are_explained() -> None:
    query = EVENTS.where("v > 1").group_by("k").tumbling(10).aggregate(n=N).top_k(1, by="n")
    lines = plan(query).describe().splitlines()
    said = [
        "fragment 0, in every bucket",
        "  reads source s, exchanged by k",
        "    before the exchange: where v > 1",
        "    before the exchange: select k",
        "    before the exchange: panes tumbling(10) by k",
        "fragment 1, in one bucket: the query has no key to divide it by",
        "  reads fragment 0, exchanged by nothing",
    ]
    assert [line for line in lines if line in said] == said


def test_the_explanation_says_what_each_operator_keeps() -> None:
    text = plan(EVENTS.group_by("k").tumbling(10).aggregate(n=N).join(T, on="k")).describe()
    assert "combine_panes-1 keeps sums by key and pane" in text
    assert "join-1 keeps the rows of both sides" in text

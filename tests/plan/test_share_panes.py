"""Panes shared between windows: the plan, the table, and both engines."""

from __future__ import annotations

from random import Random

from tests.operators.test_buckets import ONLY_INSERTS, W
from tests.operators.test_laws import WIDE, A, finite, table, used
from thalweg import approx_percentile, avg, count, first, heavy_hitters, max_, min_, sql, sum_
from thalweg.plan.nodes import CombinePanes, Panes, WindowAggregate, walk
from thalweg.plan.rules import optimize
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream
from thalweg.testing import (
    CONSISTENCIES,
    assert_form_right,
    assert_physically_independent,
    logical_inputs,
    make_form,
)
from thalweg.testing.manner import WILD

EVENTS = Stream(A).group_by("k")


def several() -> Stream:
    """Three queries over one stream, as one."""
    short = EVENTS.tumbling(4).aggregate(n=count(), s=sum_("v")).with_columns(q="'short'")
    long = (
        EVENTS.hopping(12, 6, offset=2)
        .aggregate(n=count(), s=sum_("v", where="v > 1"))
        .with_columns(q="'long'")
    )
    steep = EVENTS.hopping(6, 2).aggregate(n=count("v"), s=sum_("v")).with_columns(q="'steep'")
    return short.union(long, steep)


def test_one_node_of_panes_feeds_all_windows() -> None:
    rewritten, applied = optimize(several().node)
    kinds = [type(node) for node in walk(rewritten)]
    assert (
        kinds.count(Panes) == 1 and kinds.count(CombinePanes) == 3 and WindowAggregate not in kinds
    )
    panes = next(node for node in walk(rewritten) if isinstance(node, Panes))
    assert panes.window.size == 2 and len(panes.aggregates) == 4
    assert applied[0].rule == "share_panes"


def test_the_table_stays_the_same() -> None:
    query = several().node
    for seed in range(6):
        inputs = used(query, finite(Random(f"shared/{seed}")))
        assert_physically_independent(
            query, inputs, forms=4, seed=seed, consistency=CONSISTENCIES[seed % 3]
        )
        form = make_form(logical_inputs(query, inputs), WILD, Random(seed))
        assert_form_right(query, form, consistency=CONSISTENCIES[seed % 3], engine=DividedEngine)


def test_what_does_not_add_up_or_is_alone_is_left_as_it_is() -> None:
    most = (
        EVENTS.tumbling(4).aggregate(n=max_("v")).union(EVENTS.tumbling(8).aggregate(n=max_("v")))
    )
    alone = EVENTS.tumbling(4).aggregate(n=count())
    other = (
        EVENTS.tumbling(4)
        .aggregate(n=count())
        .union(Stream(A).group_by("v").tumbling(8).aggregate(n=count()).rename(v="k"))
    )
    odd = (
        EVENTS.tumbling(1_000_001)
        .aggregate(n=count())
        .union(EVENTS.tumbling(1_000_000).aggregate(n=count()))
    )
    for query in (most, alone, other, odd):
        assert not any(isinstance(node, Panes) for node in walk(optimize(query.node)[0]))


def largest() -> Stream:
    """Windows over points that are never taken back, of aggregates that do not add up."""
    points = Stream(W).group_by("k")
    short = points.sliding(4, 2).aggregate(x=max_("v"), n=count()).with_columns(q="'short'")
    long = points.sliding(12, 4).aggregate(x=min_("v"), n=count("v")).with_columns(q="'long'")
    tumbling = points.sliding(6, 6).aggregate(x=first("v"), n=count()).with_columns(q="'whole'")
    return short.union(long, tumbling)


def test_the_largest_value_of_a_pane_is_found_once() -> None:
    query = largest().node
    rewritten, _ = optimize(query)
    kinds = [type(node) for node in walk(rewritten)]
    assert kinds.count(Panes) == 1 and kinds.count(CombinePanes) == 3
    for seed, consistency in enumerate((*CONSISTENCIES, *CONSISTENCIES)):
        rows = {"w": table(Random(f"largest/{seed}"), WIDE, size=16, null=0.2)}
        form = make_form(logical_inputs(query, rows), ONLY_INSERTS, Random(seed))
        assert_form_right(query, form, consistency=consistency)
        assert_form_right(query, form, consistency=consistency, engine=DividedEngine)


def test_what_grows_or_is_sketched_is_not_shared() -> None:
    points = Stream(W).group_by("k")
    for call in (avg("f"), approx_percentile("v", 0.5), heavy_hitters("t", 0.3)):
        one, two = (points.sliding(size, 2).aggregate(y=call) for size in (4, 8))
        assert Panes not in [type(node) for node in walk(optimize(one.union(two).node)[0])]


def test_sliding_windows_and_sql_share_too() -> None:
    packets = Stream(A)
    first, second, third = (
        packets.group_by("k").sliding(size, hop).aggregate(n=count(), s=sum_("v"))
        for size, hop in ((4, 2), (8, 2), (12, 4))
    )
    rewritten, _ = optimize(first.union(second, third).node)
    kinds = [type(node) for node in walk(rewritten)]
    assert kinds.count(Panes) == 1 and kinds.count(CombinePanes) == 3
    text = "SELECT k, sum(v) AS s [RANGE {} seconds, SLIDE 2 seconds, WA ts] FROM a GROUP BY k"
    query = " UNION ALL ".join(text.format(size) for size in (4, 8, 12))
    rewritten, _ = optimize(sql(query, {"a": packets}).node)
    kinds = [type(node) for node in walk(rewritten)]
    assert kinds.count(Panes) == 1 and kinds.count(CombinePanes) == 3


def test_other_rows_are_not_shared() -> None:
    one = Stream(A).where("v > 1").group_by("k").sliding(4, 2).aggregate(n=count())
    two = Stream(A).where("v > 2").group_by("k").sliding(8, 2).aggregate(n=count())
    assert Panes not in [type(node) for node in walk(optimize(one.union(two).node)[0])]

"""The baselines that keep order: in order they are, and their answers are ours; and the shapes of
the experiments with them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import thalweg as tw
from benchmarks.baselines.ordered_joins import InputBufferedJoin, OutputBufferedJoin, band_query
from benchmarks.baselines.ordering import Merge, SlackSort
from benchmarks.repro.ordered_plans import Count, count_pairs, out_of_order
from benchmarks.repro.streams import SECOND
from benchmarks.repro.traffic import Link, arrivals, sources
from benchmarks.repro.whole_plans import SERIES, Plan
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress

LINKS = [Link("a", 40, 5), Link("b", 30, 5, SECOND)]


def test_a_merge_is_in_order_and_keeps_all() -> None:
    merge = Merge(2)
    ports = {"a": 0, "b": 1}
    out = [
        merge.process(ports[name], batch)
        for name, batch in arrivals(LINKS, length=5 * SECOND, step=SECOND // 4)
    ]
    times = np.concatenate([batch.start for batch in out])
    assert (np.diff(times) >= 0).all()
    assert merge.state_size().rows == 40, "one second of the link that is ahead"
    assert len(times) + merge.state_size().rows == sum(
        len(batch) for _, batch in arrivals(LINKS, length=5 * SECOND, step=SECOND // 4)
    )


def test_sorting_with_slack_loses_what_comes_later() -> None:
    sort = SlackSort(5)
    times = np.arange(100)
    order = np.argsort(
        times + np.array([Random(n).randint(0, 5) for n in range(100)]), kind="stable"
    )
    rows = Link("a", 10, 3).step(0, 10 * SECOND)
    shuffled = Batch(rows.payload, times[order], times[order] + 1)
    out = [sort.process(shuffled.take(np.arange(at, at + 10))) for at in range(0, 100, 10)]
    out.append(sort.process(Batch.empty(rows.schema, Progress(tw.INFINITY))))
    assert (np.concatenate([batch.start for batch in out]) == times).all() and sort.lost == 0
    sort.process(shuffled.take(np.array([0])))
    assert sort.lost == 1


@pytest.mark.parametrize("join", [OutputBufferedJoin, InputBufferedJoin])
def test_a_join_that_keeps_order_has_the_same_results_in_order(
    join: type[OutputBufferedJoin | InputBufferedJoin],
) -> None:
    left, right = sources("a", "b")
    feed = list(arrivals(LINKS, length=5 * SECOND, step=SECOND // 4))
    ours, ordered = tw.Engine(band_query(left, right, SECOND)), join(left, right, SECOND)
    mine = [
        row
        for name, batch in feed
        for out in ours.push(name, batch)
        for row in out.payload.to_pylist()
    ]
    theirs = [
        row
        for name, batch in feed
        for out in ordered.process(name, batch)
        for row in out.payload.to_pylist()
    ]
    assert [row["left_time"] for row in theirs] == sorted(row["left_time"] for row in theirs)
    settled = max(row["left_time"] for row in theirs)

    def key(row: dict[str, int]) -> list[int]:
        return [row[name] for name in sorted(row)]

    assert sorted(map(key, theirs)) == sorted(
        key(row) for row in mine if row["left_time"] <= settled
    )


@pytest.mark.parametrize("window", [1, 3])
def test_shapes_of_7_6_and_7_7(window: int) -> None:
    """OA-Join holds less than a join that keeps order, whichever of its ends it buffers at."""
    count = Count(window_s=window, length_s=12, rate=500, keys=500, counted_s=4)
    ours, output, input_ = (
        out_of_order(count),
        count_pairs(count, OutputBufferedJoin),
        count_pairs(count, InputBufferedJoin),
    )
    assert ours.plan_bytes < output.plan_bytes and ours.plan_bytes < input_.plan_bytes
    assert ours.join_bytes < output.join_bytes and ours.join_bytes < input_.join_bytes
    assert ours.pairs == output.pairs


def held(kind: str, plan: Plan) -> int:
    return SERIES[kind](plan).plan.bytes


def test_shape_of_8_8_and_8_11() -> None:
    """The memory of an aggregate over a union in order grows with the skew; out of order it
    stays."""

    def plan(skew: int) -> Plan:
        links = [Link("m1", 500, 10), Link("m2", 500, 10, skew * SECOND)]
        return Plan(
            {"m": links},
            lambda m: m[0].group_by("key").tumbling("20 s").aggregate(n=tw.count()),
            length_s=30,
        )

    for kind in ("IOP", "IOP with slack"):
        assert held(kind, plan(10)) > 3 * held(kind, plan(1))
    assert held("OOP", plan(10)) < 1.5 * held("OOP", plan(1))
    assert held("OOP", plan(10)) < held("IOP", plan(10)) / 3


def test_shape_of_8_9_and_8_10() -> None:
    """Of joins over unions with skew both hold the same tuples; with late tuples on one side, out
    of order holds less."""

    def joined(m: list[tw.Stream]) -> tw.Stream:
        return m[0].window_join(m[1], "key", window=tw.same_window("2 s"))

    both = {
        "x": [Link("a", 50, 50), Link("b", 50, 50, 8 * SECOND)],
        "y": [Link("c", 50, 50), Link("d", 50, 50, 8 * SECOND)],
    }
    one = {"x": [Link("a", 100, 50)], "y": [Link("m2", 100, 50), Link("c", 1, 50, 8 * SECOND)]}
    assert held("OOP", Plan(both, joined, 20)) <= 1.2 * held("IOP", Plan(both, joined, 20))
    assert held("OOP", Plan(one, joined, 20)) < 0.8 * held("IOP", Plan(one, joined, 20))

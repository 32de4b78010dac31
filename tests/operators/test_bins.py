"""The one-pass algorithm for slide-by-tuple windows and its variations: against the oracle, in any
order, with restarts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.operators.test_buckets import ONLY_INSERTS, W, rows
from tests.operators.test_wid_aggregate import ADDS, BOUNDED, aggregate
from thalweg import Engine, count, cti, point, sum_
from thalweg import rows as arrival
from thalweg.operators.consistency import Consistency
from thalweg.operators.registry import kernel_for
from thalweg.operators.window.bins import BinsAggregateKernel
from thalweg.plan.nodes import WidAggregate
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream, source
from thalweg.testing import CONSISTENCIES, assert_form_right, logical_inputs, make_form
from thalweg.windows.specification import rank

w = Stream(W)
WINDOWS = {
    "every tuple": w.slide_by_tuple(7),
    "groups": w.group_by("k").slide_by_tuple(7),
    "partitions and groups": w.group_by("t").slide_by_tuple(9, partition_by="k"),
    "every third by rank": w.slide_by_tuple(9, every=3, order=rank("ts")),
    "every second by rank, partitions": w.group_by("t").slide_by_tuple(
        9, every=2, order=rank("ts"), partition_by="k"
    ),
}


@pytest.mark.parametrize("calls", ["adds", "bounded"])
@pytest.mark.parametrize("name", WINDOWS)
def test_law(name: str, calls: str) -> None:
    in_rows = aggregate(WINDOWS[name], ADDS if calls == "adds" else BOUNDED)
    assert isinstance(in_rows, WidAggregate)
    query = replace(in_rows, strategy="bins")
    assert isinstance(kernel_for(query, Consistency()), BinsAggregateKernel)
    for number, consistency in enumerate(CONSISTENCIES):
        logicals = logical_inputs(query, rows(Random(f"{name}/{calls}/{number}")))
        form = make_form(logicals, ONLY_INSERTS, Random(f"{name}/{number}"))
        assert_form_right(query, form, consistency=consistency)
        assert_form_right(query, form, consistency=consistency, engine=DividedEngine)


def test_every_third_by_arrival() -> None:
    """Numbers are given in the order in which tuples arrive: 7, 3, 9 | 4, 12, 5 | 13."""
    query = source("s", {"v": "int64"}, insert_only=True).slide_by_tuple(
        5, every=3, order=arrival()
    )
    engine = Engine(query.using("bins").aggregate(n=count(), s=sum_("v")), consistency="final")
    for time in (7, 3, 9, 4, 12, 5, 13):
        engine.push("s", point({"v": time}, time))
    out = [
        row
        for batch in engine.push("s", cti(20))
        for row in zip(batch.start.tolist(), batch.payload.to_pylist(), strict=True)
    ]
    assert sorted(out, key=lambda row: row[0]) == [(1, {"n": 3, "s": 12}), (5, {"n": 3, "s": 21})]


def test_bins_are_dropped() -> None:
    query = (
        source("s", {"v": "int64"}, insert_only=True)
        .slide_by_tuple(50)
        .using("bins")
        .aggregate(n=count())
    )
    engine = Engine(query)
    for time in range(0, 1_000, 10):
        engine.push("s", [point({"v": 1}, time), cti(time)])
        assert engine.state_size()["wid_aggregate-1"].rows <= 2 * 50 // 10 + 4
    engine.finish()
    assert engine.state_size()["wid_aggregate-1"].rows == 0

"""Every kind of window against the oracle, under the fuzzer, with restarts, in-process and
divided."""

from __future__ import annotations

from random import Random

import pytest

from tests.operators.test_laws import W, finite, used
from thalweg import avg, count, first, max_, min_, percentile, stddev, sum_
from thalweg.plan.aggregates import AggregateCall, arg_max
from thalweg.plan.nodes import Node, WidAggregate, WindowAggregate
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream, WindowedStream
from thalweg.testing import (
    CONSISTENCIES,
    assert_form_right,
    assert_physically_independent,
    logical_inputs,
    make_form,
)
from thalweg.testing.manner import PUNCTUATED, WILD
from thalweg.windows import HoppingWindow, SlidingTime, WindowKind
from thalweg.windows.specification import rank

FORMS = 2
w = Stream(W)

ADDS = {"n": count(), "s": sum_("v"), "m": avg("v", where="k > 0")}
BOUNDED = {
    "low": min_("t"),
    "high": max_("f"),
    "x": first("v"),
    "best": arg_max("t", by="v"),
    "d": stddev("f"),
    "f": sum_("f"),
}
HOLISTIC = {"p": percentile("v", 0.4), "n": count("v"), "low": min_("f")}

KINDS: dict[str, WindowedStream] = {
    "slide by tuple": w.slide_by_tuple(7),
    "slide by tuple, groups": w.group_by("k").slide_by_tuple(7),
    "slide by tuple, partitions": w.slide_by_tuple(9, partition_by="k"),
    "slide by tuple, partitions and groups": w.group_by("t").slide_by_tuple(9, partition_by="k"),
    "slide by 3 over rank": w.slide_by_tuple(9, every=3, order=rank("ts")),
    "slide by 2 over rank, partitions": w.group_by("t").slide_by_tuple(
        9, every=2, order=rank("ts"), partition_by="k"
    ),
    "rank sliding": w.sliding(4, 2, over=rank("ts")),
    "rank sliding, groups": w.group_by("t").sliding(5, 3, over=rank("ts")),
    "rank tumbling, partitions": w.sliding(2, over=rank("ts"), partition_by="k"),
    "rank sliding, partitions and groups": w.group_by("t").sliding(
        3, 1, over=rank("ts"), partition_by="k"
    ),
    "time from the first row": w.sliding(8, 3, origin=None),
    "time from the first row, groups": w.group_by("k").sliding(9, 3, origin=None),
    "landmark": w.landmark(5),
    "landmark, groups": w.group_by("k").landmark(4, origin=3),
    "landmark over rank": w.landmark(2, over=rank("ts")),
    "landmark over rank, partitions and groups": w.group_by("t").landmark(
        2, over=rank("ts"), partition_by="k"
    ),
    "a kind of its own": w.group_by("k").windows(SlidingTime(8, 3)),
    "time from an origin": w.group_by("k").sliding(7, 3, origin=2),
}


def aggregate(windows: WindowedStream, calls: dict[str, AggregateCall]) -> Node:
    if isinstance(windows.window, HoppingWindow):
        return WindowAggregate(windows.node, windows.window, tuple(calls.items()), windows.keys)
    assert isinstance(windows.window, WindowKind)
    return WidAggregate(
        windows.node, windows.window, tuple(calls.items()), windows.keys, windows.partition
    )


def queries() -> dict[str, Node]:
    found = {}
    for name, windows in KINDS.items():
        for title, calls in (("adds", ADDS), ("bounded", BOUNDED), ("holistic", HOLISTIC)):
            if title == "holistic" and name.startswith("landmark"):
                continue
            found[f"{name}, {title}"] = aggregate(windows, calls)
    return found


QUERIES = queries()


@pytest.mark.parametrize("name", QUERIES)
def test_law(name: str) -> None:
    for seed in range(len(CONSISTENCIES)):
        inputs = used(QUERIES[name], finite(Random(f"{name}/{seed}")))
        assert_physically_independent(
            QUERIES[name], inputs, forms=FORMS, seed=seed, consistency=CONSISTENCIES[seed]
        )


@pytest.mark.parametrize(("number", "name"), list(enumerate(QUERIES)), ids=list(QUERIES))
def test_law_divided(number: int, name: str) -> None:
    logicals = logical_inputs(QUERIES[name], used(QUERIES[name], finite(Random(f"{name}/divided"))))
    for manner in (PUNCTUATED, WILD):
        form = make_form(logicals, manner, Random(name))
        assert_form_right(
            QUERIES[name],
            form,
            consistency=CONSISTENCIES[number % len(CONSISTENCIES)],
            engine=DividedEngine,
        )

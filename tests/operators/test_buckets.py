"""WID, panes, buffering and the adaptive mixture of them: one meaning, under the fuzzer, with
restarts, in-process and divided."""

from __future__ import annotations

from random import Random

import pytest

from tests.operators.test_laws import WIDE, table
from tests.operators.test_wid_aggregate import ADDS, BOUNDED
from thalweg import approx_percentile, count, heavy_hitters
from thalweg.model import Row
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.grid.buckets import BucketAggregateKernel
from thalweg.plan.nodes import SetDuration, Source, WindowAggregate
from thalweg.plan.properties import StreamProperties
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import (
    CONSISTENCIES,
    assert_form_right,
    assert_physically_independent,
    logical_inputs,
    make_form,
)
from thalweg.testing.manner import Manner
from thalweg.windows import HoppingWindow

W = Source("w", WIDE, declared=StreamProperties(insert_only=True, firm_ends=True))
WINDOWS = {
    "sliding": HoppingWindow(9, 3, 1),
    "tumbling": HoppingWindow(8, 8),
    "uneven": HoppingWindow(6, 4),
    "gapped": HoppingWindow(3, 7),
}
ONLY_INSERTS = Manner(disorder=8, promises=0.5, cut=0.7, restarts=0.2, delay=0.3)


def query(
    strategy: str, window: str, *, bounded: bool, keys: tuple[str, ...] = ("k",)
) -> WindowAggregate:
    calls = tuple((BOUNDED if bounded else ADDS).items())
    return WindowAggregate(SetDuration(W, 1), WINDOWS[window], calls, keys, strategy=strategy)


QUERIES = {
    f"{strategy}, {window}, {'bounded' if bounded else 'adds'}": query(
        strategy, window, bounded=bounded, keys=("k",) if bounded else ()
    )
    for strategy in ("wid", "panes", "adaptive", "adaptive panes")
    for window in WINDOWS
    for bounded in (True, False)
}


SKETCHES = {"p": approx_percentile("v", 0.4), "often": heavy_hitters("t", 0.3), "n": count()}
QUERIES["sketches, sliding"] = WindowAggregate(
    SetDuration(W, 1), WINDOWS["sliding"], tuple(SKETCHES.items()), ("k",)
)
QUERIES["sketches, wid"] = WindowAggregate(
    SetDuration(W, 1), WINDOWS["uneven"], tuple(SKETCHES.items()), (), strategy="wid"
)


def rows(random: Random) -> dict[str, list[Row]]:
    return {"w": table(random, WIDE, size=16, null=0.1)}


@pytest.mark.parametrize("name", QUERIES)
def test_law(name: str) -> None:
    logicals = logical_inputs(QUERIES[name], rows(Random(name)))
    for number, consistency in enumerate(CONSISTENCIES):
        form = make_form(logicals, ONLY_INSERTS, Random(f"{name}/{number}"))
        assert_form_right(QUERIES[name], form, consistency=consistency)
        assert_form_right(QUERIES[name], form, consistency=consistency, engine=DividedEngine)


def test_fuzzed() -> None:
    assert_physically_independent(query("rows", "sliding", bounded=True), rows(Random(1)), forms=1)
    assert (
        BucketAggregateKernel(query("wid", "sliding", bounded=True), Consistency())
        .state_size()
        .rows
        == 0
    )

"""Windows whose groups close one by one, by promises for single groups."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tw
from thalweg.model import Batch

COLUMNS = {"sensor": "string", "v": "int64"}


def reading(sensor: str, time: int, v: int = 1) -> tw.Insert:
    return tw.point({"sensor": sensor, "v": v}, time)


def answers(batches: list[Batch]) -> list[tuple[int, Any]]:
    return [
        (one.start, one.payload) for one in tw.elements_of(batches) if isinstance(one, tw.Insert)
    ]


WINDOWS = {
    "sums": lambda s: s.tumbling(10).aggregate(n=tw.count()),
    "partial results": lambda s: (
        s.sliding(10).using("wid").aggregate(n=tw.count(), most=tw.max_("v")).select("sensor", "n")
    ),
    "rows": lambda s: s.tumbling(10).using("rows").aggregate(n=tw.count()),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_group_is_final_before_the_others(kind: str) -> None:
    readings = tw.source("s", COLUMNS, group_ctis="sensor", insert_only=True)
    query = WINDOWS[kind](readings.group_by("sensor"))
    engine = tw.Engine(query, consistency="final")
    assert not answers(
        engine.push("s", [reading("a", 1), reading("b", 4), reading("a", 15), reading("a", 8)])
    )
    out = engine.push("s", tw.cti(12, {"sensor": "a"}))
    assert answers(out) == [(0, {"sensor": "a", "n": 2})]
    assert [one for one in tw.elements_of(out) if isinstance(one, tw.Cti)] == [
        tw.cti(10, {"sensor": "a"})
    ]
    engine = tw.Engine.restore(query, engine.snapshot(), consistency="final")
    assert not answers(engine.push("s", reading("b", 7)))
    assert answers(engine.push("s", tw.cti(20))) == [
        (0, {"sensor": "b", "n": 2}),
        (10, {"sensor": "a", "n": 1}),
    ]


def test_a_slow_sensor_does_not_hold_back_the_others() -> None:
    """Each sensor has a timeline of its own, and promises by its own disorder."""
    readings = tw.source("s", COLUMNS, partition="sensor", disorder=5, insert_only=True)
    engine = tw.Engine(
        readings.group_by("sensor").tumbling(10).aggregate(n=tw.count()), consistency="final"
    )
    assert not answers(
        engine.push("s", [reading("slow", 1), reading("fast", 2), reading("fast", 9)])
    )
    assert answers(engine.push("s", reading("fast", 16))) == [(0, {"sensor": "fast", "n": 2})]
    assert not answers(engine.push("s", reading("slow", 3)))
    assert answers(engine.push("s", reading("slow", 15))) == [(0, {"sensor": "slow", "n": 2})]


def test_what_is_early_waits_for_the_watermark() -> None:
    """A group that is far ahead does not make the answers of others come before they may."""
    readings = tw.source("s", COLUMNS, group_ctis="sensor", insert_only=True)
    engine = tw.Engine(readings.group_by("sensor").tumbling(10).aggregate(n=tw.count()))
    engine.push("s", [reading("a", 1), reading("b", 2)])
    assert answers(engine.push("s", tw.cti(50, {"sensor": "a"}))) == [(0, {"sensor": "a", "n": 1})]
    assert not answers(engine.push("s", reading("b", 5)))
    assert answers(engine.push("s", reading("b", 12))) == [(0, {"sensor": "b", "n": 2})]
    assert engine.state_size()["window_aggregate-1"].rows > 0
    engine.finish()
    assert engine.state_size()["window_aggregate-1"].rows == 0

"""The experiments on strategies and promises, small: the shapes that must come out."""

from __future__ import annotations

from collections import defaultdict

import pytest

from benchmarks.repro import fig_mill_14, fig_mill_15, fig_mill_16
from thalweg.cli.repro import Line

pytestmark = pytest.mark.slow

Points = dict[tuple[str, str], dict[float, float]]


def points(lines: list[Line]) -> Points:
    found: Points = defaultdict(dict)
    for line in lines:
        found[line.metric, str(line.params["series"])][float(line.params["x"])] = line.value
    return found


def test_promises_on_demand_take_the_wait_out_of_a_union() -> None:
    for strategy in fig_mill_14.STRATEGIES:
        found = points(list(fig_mill_14._with_and_without(strategy, 4.0)))
        latency = {name.partition(",")[0]: by for (m, name), by in found.items() if "latency" in m}
        (without,), (asked,) = latency["without"].values(), latency["on demand"].values()
        assert asked <= without / 100
        beats = latency["heartbeats"]
        assert asked < beats[10] < beats[100] < beats[1_000] < without


def test_promises_on_demand_take_the_wait_out_of_a_window_join() -> None:
    for strategy in fig_mill_14.STRATEGIES:
        without, asked = (line.value for line in fig_mill_14._join(strategy, 8.0))
        assert asked <= without / 100


def test_latency_rises_with_bursts_and_faster_breadth_first() -> None:
    slopes = {}
    for strategy in fig_mill_14.STRATEGIES:
        for stamps in ("on demand", "latent"):
            low, high = (
                fig_mill_14._burst(strategy, burst, stamps, 3.0).value for burst in (1, 60)
            )
            slopes[strategy, stamps] = (high - low) / 59
    for stamps in ("on demand", "latent"):
        assert slopes["breadth-first", stamps] >= 1.4 * slopes["depth-first", stamps] > 0


def test_promise_arcs_beat_promises_by_operator() -> None:
    gaps = []
    for plain in (5, 10):
        found = points(
            [
                line
                for name in ("by operator", "bypass")
                for line in fig_mill_15._measure(name, plain, 0.1, "b")
            ]
        )
        by_operator = found["b: mean latency", "by operator"][plain]
        bypass = found["b: mean latency", "bypass"][plain]
        assert by_operator >= 1.1 * bypass
        calls = [found["b: calls a row", name][plain] for name in ("by operator", "bypass")]
        assert calls[0] > calls[1]
        gaps.append(by_operator - bypass)
    assert gaps[1] > gaps[0]


def test_a_slide_makes_bursts_and_promises_on_demand_none() -> None:
    found = {
        demand: [fig_mill_16.measure(slide, 2.0, demand=demand).value for slide in (1, 50, 200)]
        for demand in (False, True)
    }
    one, fifty, many = found[False]
    assert one < fifty / 2 and fifty < many / 2
    assert max(found[True]) <= 1.2 * min(found[True])

"""AdaptWID: groups change from lazy to eager and back at run time, by the memory that each would
take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg import Engine, count, cti, point, source
from thalweg.errors import UnknownColumnError, WindowError
from thalweg.model import Batch, batches_of
from thalweg.model.elements import Element
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.grid.adaptation import (
    Monitor,
    eager_bytes,
    lazy_bytes,
    lower_threshold,
    threshold,
)
from thalweg.operators.window.grid.buckets import BucketAggregateKernel
from thalweg.plan.nodes import WindowAggregate


def test_cost_functions() -> None:
    assert eager_bytes(32, extent=10, slide=1) == 320
    assert lazy_bytes(16, volume=2, extent=10, behind=0) == 320
    assert lazy_bytes(16, volume=2, extent=10, behind=5) == 240
    assert (
        threshold(32, 16, extent=10, slide=1) == 20
        and threshold(32, 16, extent=10, slide=1, behind=3) == 23
    )
    assert lower_threshold(20) < 20


def test_offsets_between_sources() -> None:
    monitor = Monitor(10)
    start = np.array([0, 20, 20, 10])
    monitor.see(start, start, start + 1, 0, pa.array(["main", "main", "main", "control"]))
    assert monitor.share_behind() == pytest.approx(
        0.25 * 10 / 10
    )  # a quarter of the rows, a whole extent behind


def test_what_has_not_come_yet_counts_where_the_sources_are_told_apart() -> None:
    """A group that is half behind takes less memory as rows than its windows say: it goes back to
    lazy, if one knows."""
    packets = source("s", {"k": "int64", "link": "string"}, insert_only=True)
    switched = []
    for windows in (
        packets.group_by("k").sliding(10, 1),
        packets.group_by("k").sliding(10, 1).expecting(sources="link"),
    ):
        node = windows.using("adaptive").aggregate(n=count(where="k > 0")).node
        assert isinstance(node, WindowAggregate)
        kernel = BucketAggregateKernel(node, Consistency("final"), adaptive=True)
        for time in range(100):
            rows = [("main", time)] * (100 if time == 0 else 1) + [("control", time - 12)] * (
                time >= 12 and time % 3 > 0
            )
            elements: list[Element] = [
                *(point({"k": 1, "link": link}, at) for link, at in rows),
                cti(time - 12),
            ]
            for batch in batches_of(elements, packets.schema):
                kernel.process(0, batch)
        assert kernel.switches["to eager"] == 1
        switched.append(kernel.switches["to lazy"])
    assert switched == [0, 1]


def test_sources_are_for_adaptive_evaluation() -> None:
    windows = source("s", {"k": "int64"}, insert_only=True).sliding(10, 2)
    with pytest.raises(WindowError, match="adaptive"):
        windows.expecting(sources="k").aggregate(n=count())
    with pytest.raises(UnknownColumnError, match="link"):
        windows.expecting(sources="link").using("adaptive").aggregate(n=count())


def test_an_extent_lasts_until_it_is_closed() -> None:
    monitor = Monitor(10)
    monitor.see(np.array([5]), np.array([0]), np.array([2]), 0)
    monitor.see(np.array([25]), np.array([2]), np.array([4]), 4)
    monitor.close(1)
    assert monitor.extent == 25


@pytest.fixture
def kernel() -> BucketAggregateKernel:
    events = source("s", {"k": "int64"}, insert_only=True)
    node = events.group_by("k").sliding(10, 2).using("adaptive").aggregate(n=count()).node
    assert isinstance(node, WindowAggregate)
    return BucketAggregateKernel(node, Consistency("final"), adaptive=True)


def play(kernel: BucketAggregateKernel, *elements: Element) -> list[Batch]:
    schema = source("s", {"k": "int64"}).schema
    return [kernel.process(0, batch) for batch in batches_of(elements, schema)]


def test_groups_switch_both_ways(kernel: BucketAggregateKernel) -> None:
    play(kernel, *[point({"k": 1}, 1) for _ in range(100)], point({"k": 2}, 1), cti(2))
    assert kernel.switches["to eager"] == 1  # the dense group
    for time in range(2, 60, 2):
        play(kernel, point({"k": 1}, time), point({"k": 2}, time), cti(time))
    assert kernel.switches["to lazy"] == 1  # it has become sparse
    play(kernel, *[point({"k": 2}, 61) for _ in range(100)], cti(62))
    assert kernel.switches["to eager"] == 2


def test_a_group_between_the_thresholds_stays_as_it_is(kernel: BucketAggregateKernel) -> None:
    limit = threshold(32, 17, extent=10, slide=2)
    rows = int((limit + lower_threshold(limit)) / 2)
    play(kernel, *[point({"k": 1}, 1) for _ in range(100)], cti(2))
    for time in range(3, 41):
        play(kernel, *[point({"k": 1}, time) for _ in range(rows)], cti(time))
    assert kernel.switches == {"to eager": 1, "to lazy": 0}


def test_state_is_small_and_gone_at_the_end() -> None:
    events = source("s", {"k": "int64"}, insert_only=True).group_by("k").sliding(10, 2)
    sizes = {}
    for strategy in ("wid", "adaptive"):
        engine = Engine(
            events.using(strategy).aggregate(n=count(where="k >= 0")), consistency="final"
        )
        largest = 0
        for time in range(0, 40, 2):
            sparse = [point({"k": 1_000 * time + key}, time) for key in range(50)]
            engine.push("s", [*sparse, *[point({"k": 7}, time) for _ in range(100)], cti(time)])
            largest = max(largest, engine.state_size()["window_aggregate-1"].bytes)
        engine.finish()
        assert engine.state_size()["window_aggregate-1"].rows == 0
        sizes[strategy] = largest
    assert sizes["adaptive"] < 0.6 * sizes["wid"]

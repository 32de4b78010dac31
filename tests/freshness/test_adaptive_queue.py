"""A queue that serves all rows while it can, and the newest of each key while it cannot."""

from __future__ import annotations

import logging
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.errors import PlanError
from thalweg.freshness._arrays import Floats
from thalweg.freshness.adaptive_queue import AdaptiveQueue
from thalweg.freshness.runner import FreshRunner
from thalweg.freshness.update_queue import Taken
from thalweg.testing.oracle.freshness import (
    Delivery,
    application_staleness,
    integrate,
    queue_staleness,
)

SCHEMA = pa.schema({"key": pa.int64(), "number": pa.int64()})
KEYS = 4


def make_queue(target: int = 20, capacity: int = 2**20) -> AdaptiveQueue:
    return AdaptiveQueue(SCHEMA, "key", target=target, schedule="in-place", capacity=capacity)


def rows(keys: list[int], first: int) -> pa.RecordBatch:
    numbers = range(first, first + len(keys))
    return pa.record_batch([pa.array(keys), pa.array(list(numbers))], schema=SCHEMA)


class Trace:
    """What came and what went, by key: arrival times, and deliveries of single updates."""

    def __init__(self, queue: AdaptiveQueue) -> None:
        self.queue = queue
        self.arrivals: list[list[int]] = [[] for _ in range(KEYS)]
        self.deliveries: list[list[Delivery]] = [[] for _ in range(KEYS)]
        self._ranks: list[int] = []
        """The rank of each row among those of its key."""

    def send(self, keys: list[int], now: int) -> None:
        self.queue.enqueue(rows(keys, len(self._ranks)), now=now)
        for key in keys:
            self._ranks.append(len(self.arrivals[key]))
            self.arrivals[key].append(now)

    def take(self, most: int, now: int) -> list[tuple[int, int]]:
        """Rows that are taken, and delivered a tick later: key and rank."""
        taken = self.queue.dequeue(most, now=now)
        self._deliver(taken, now)
        return [(key, self._ranks[number]) for key, number in _pairs(taken)]

    def _deliver(self, taken: Taken, now: int) -> None:
        self.queue.deliver(taken, now=now + 1)
        for key, number in _pairs(taken):
            self.deliveries[key].append(Delivery(key, self._ranks[number], now, now + 1))


def _pairs(taken: Taken) -> list[tuple[int, int]]:
    columns = [taken.rows.column(name).to_pylist() for name in ("key", "number")]
    return list(zip(*columns, strict=True))


steps = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.one_of(st.lists(st.integers(0, KEYS - 1), max_size=12), st.integers(0, 6)),
    ),
    max_size=40,
)
"""Ticks that pass, then rows that come together, or how many are taken."""


@given(steps, st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_what_is_served_and_how_stale_it_is(
    steps: list[tuple[int, list[int] | int]], target: int
) -> None:
    """In append mode rows leave in order of arrival and none is conflated. In both modes the rows
    of a key leave in order, counts add up, and staleness is that of the definition."""
    queue = make_queue(target)
    trace = Trace(queue)
    now = 0
    for passed, action in steps:
        now += passed + 2
        if isinstance(action, list):
            trace.send(action, now)
        else:
            was_append, conflated = queue.is_append, queue.status(now=now).conflated
            served = trace.take(action, now)
            for key, rank in served:
                if not queue.is_append:
                    waits = [at for at in trace.arrivals[key] if at <= now]
                    assert rank == len(waits) - 1, "not the newest of its key"
            if was_append and queue.is_append:
                assert (
                    queue.status(now=now).conflated == conflated == queue.status(now=now).conflated
                )
        status = queue.status(now=now)
        assert status.arrived == sum(len(each) for each in trace.arrivals)
        assert status.arrived == status.taken + status.conflated + status.waiting
        assert status.conflated >= 0
        assert queue.keys.memory.used == status.waiting
    end = now + 10
    for key in range(KEYS):
        ranks = [delivery.value for delivery in trace.deliveries[key]]
        assert ranks == sorted(set(ranks)), "out of order, or twice"
    check_areas(trace, end)


def check_areas(trace: Trace, end: int) -> None:
    known = trace.queue.keys.size
    application = trace.queue.keys.application_area(end)
    for key in range(KEYS):
        if not trace.arrivals[key]:
            continue
        cell = cell_of(trace.queue, key)
        assert cell < known
        expected = integrate(
            application_staleness, trace.arrivals[key], trace.deliveries[key], 0, end
        )
        assert application[cell] == expected
    waited = queue_areas(trace.queue, end)
    for key in range(KEYS):
        if trace.arrivals[key]:
            expected = integrate(
                queue_staleness, trace.arrivals[key], trace.deliveries[key], 0, end
            )
            assert waited[cell_of(trace.queue, key)] == expected


def cell_of(queue: AdaptiveQueue, key: int) -> int:
    assert queue._table is not None
    return int(queue._table.cells([pa.array([key])], limit=0)[0])


def queue_areas(queue: AdaptiveQueue, now: int) -> Floats:
    cells = np.arange(queue.keys.size)
    return queue._ledger.queue_area(now, _padded(queue, cells))[: queue.keys.size]


def _padded(
    queue: AdaptiveQueue, cells: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    since = np.full(len(queue.keys.location), -(2**63))
    since[cells] = queue._since(cells, None)
    return since


def test_it_conflates_under_overload_and_goes_back_when_the_load_has_fallen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A row takes two ticks. Ten rows of two keys every ten ticks are twice what can be served;
    then a row every ten ticks."""
    queue = make_queue(target=40)
    trace = Trace(queue)
    modes: list[str] = []
    with caplog.at_level(logging.INFO, logger="thalweg.freshness.adaptive_queue"):
        for now in range(0, 400, 10):
            trace.send([0, 1] * 5 if now < 200 else [0], now)
            for at in range(now, now + 10, 2):
                trace.take(1, at)
            status = queue.status(now=now + 9)
            if not modes or modes[-1] != status.mode:
                modes.append(status.mode)
    assert modes == ["append", "update", "append"]
    status = queue.status(now=400)
    assert status.switches == 2
    assert "append at" in status.last_switch
    assert [record.getMessage().split(" at ")[0] for record in caplog.records] == [
        "update queue by (key): update",
        "update queue by (key): append",
    ]
    assert status.conflated > 0
    assert status.waiting <= 1


def test_a_steady_overload_does_not_make_it_swing() -> None:
    """What waits in an update queue of two keys is always little; the load is what counts."""
    queue = make_queue(target=40)
    trace = Trace(queue)
    for now in range(0, 2_000, 10):
        trace.send([0, 1] * 5, now)
        for at in range(now, now + 10, 2):
            trace.take(1, at)
    assert queue.status(now=2_000).switches == 1


def test_without_room_for_all_rows_it_conflates_and_refuses_none() -> None:
    queue = make_queue(target=10**9, capacity=100_000)
    room = queue.keys.memory.free_locations
    sent = 0
    while queue.is_append:
        assert queue.enqueue(rows([0, 1, 2, 3] * 16, sent), now=sent).refused == 0
        sent += 64
        assert sent <= room + 64
    assert queue.waiting == KEYS
    assert "have no room" in queue.status(now=sent).last_switch


def test_in_a_query() -> None:
    source = tw.source(
        "quotes", {"symbol": "string", "price": "int64"}, disorder=0, insert_only=True
    )
    query = source.update_key("symbol", freshness=30, adaptive=True).where("price > 10")
    clock = count(0, 5)
    runner = FreshRunner(query, tw.Engine(query), now=lambda: next(clock))
    runner.offer("quotes", [tw.point({"symbol": "IBM", "price": 20 + t}, t) for t in range(3)])
    prices = [
        row.payload["price"]
        for row in tw.elements_of(runner.serve(10))
        if isinstance(row, tw.Insert)
    ]
    assert prices == [20, 21, 22]
    assert runner.status("quotes").mode == "append"
    runner.offer("quotes", [tw.point({"symbol": "IBM", "price": 20 + t}, t) for t in range(3, 40)])
    status = runner.status("quotes")
    assert (status.mode, status.waiting, status.conflated) == ("update", 1, 36)


def test_what_makes_no_sense_is_refused_when_it_is_built() -> None:
    source = tw.source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
    with pytest.raises(PlanError, match="adaptive=True needs freshness="):
        source.update_key("symbol", adaptive=True)
    with pytest.raises(PlanError, match=r"adaptive=True.*inputs="):
        source.update_key("symbol", adaptive=True, freshness="1 s", inputs=("a", "b"))
    with pytest.raises(PlanError, match=r"adaptive=True.*windows"):
        source.update_key("symbol", adaptive=True, freshness="1 s").newest_window(4, 2)

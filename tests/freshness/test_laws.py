"""Laws of update queues, for every schedule and random arrivals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.freshness._arrays import NEVER
from thalweg.freshness.arrivals import group_by_cell
from thalweg.freshness.key_queue import KeyQueue
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.rates import CostMonitor, RateMonitor, class_of, classes_of
from thalweg.freshness.schedules import SCHEDULES, DeadlineSchedule, make_schedule
from thalweg.freshness.simulation import (
    Workload,
    bursty_times,
    poisson_times,
    regular_times,
    run,
)
from thalweg.testing.oracle.freshness import (
    Delivery,
    NaivePages,
    NaiveQueue,
    application_staleness,
    integrate,
    queue_staleness,
)

KEYS = 6

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("arrive"),
            st.lists(st.tuples(st.integers(0, 3), st.integers(0, KEYS - 1)), max_size=30),
        ),
        st.tuples(st.just("take"), st.integers(0, 4)),
        st.tuples(st.just("deliver"), st.integers(1, 3)),
    ),
    max_size=20,
)


def make_queue(schedule: str, pages: int = 8, memory: int = 3, readers: int = 1) -> KeyQueue:
    queue = KeyQueue(
        PagedMemory(PagePool(pages, 2)),
        {f"r{number}": make_schedule(schedule) for number in range(readers)},
        rates=RateMonitor(memory),
        costs=CostMonitor(first=3.0),
    )
    queue.grow(KEYS)
    return queue


def show(queue: KeyQueue, now: int) -> object:
    """All of a queue's state that a user could ever see."""
    return (
        queue.arrived[:KEYS].tolist(),
        queue.refused[:KEYS].tolist(),
        queue.location[:KEYS].tolist(),
        queue.memory.pages_with_room,
        [queue.conflated(name)[:KEYS].tolist() for name in queue.readers],
        [queue.read(KEYS, now, name)[0].tolist() for name in queue.readers],
        [queue.application_area(now, name).tolist() for name in queue.readers],
        [queue.queue_area(now, name).tolist() for name in queue.readers],
        queue.rates.rates(np.arange(KEYS), now)[queue.arrived[:KEYS] > 0].tolist(),
    )


@pytest.mark.parametrize("pages", [2, 8], ids=["full", "roomy"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@given(steps=steps)
@settings(max_examples=30, deadline=None)
def test_a_batch_is_its_rows_one_by_one(
    schedule: str, pages: int, steps: list[tuple[str, object]]
) -> None:
    whole, single = make_queue(schedule, pages, readers=2), make_queue(schedule, pages, readers=2)
    now = 0
    for kind, argument in steps:
        if kind == "arrive":
            assert isinstance(argument, list)
            gaps, keys = [g for g, _ in argument], [k for _, k in argument]
            times = now + np.cumsum(np.array(gaps, np.int64))
            whole.arrive(np.array(keys, np.int64), times)
            for key, time in zip(keys, times.tolist(), strict=True):
                single.arrive_one(key, time)
            now = int(times[-1]) if len(times) else now
        elif kind == "take":
            assert isinstance(argument, int)
            now += argument
            reader = f"r{argument % 2}"
            cells, locations = whole.take(argument, now, reader)
            pairs = [single.take_one(now, reader) for _ in range(argument)]
            assert [p for p in pairs if p[0] >= 0] == list(
                zip(cells.tolist(), locations.tolist(), strict=True)
            )
            now += 1
            whole.deliver(cells, now, reader)
            for cell in cells.tolist():
                single.deliver_one(cell, now, reader)
        else:
            now += 5
        assert show(whole, now) == show(single, now)


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=40),
    cuts=st.sets(st.integers(0, 40)),
    memory=st.integers(1, 4),
)
@settings(max_examples=100, deadline=None)
def test_rates_of_a_batch_are_those_of_its_rows(
    rows: list[tuple[int, int]], cuts: set[int], memory: int
) -> None:
    whole, single = RateMonitor(memory), RateMonitor(memory)
    whole.grow(3)
    single.grow(3)
    times = np.cumsum(np.array([gap for gap, _ in rows], np.int64))
    keys = np.array([key for _, key in rows], np.int64)
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for begin, end in itertools.pairwise(bounds):
        batch = group_by_cell(keys[begin:end], times[begin:end], np.empty(3, np.int64))
        of_rows = whole.rates_of_rows(batch).tolist()
        of_first, known = whole.arrive(batch)
        expected, counted = [], []
        for row in range(begin, end):
            expected.append(single.arrive_one(int(keys[row]), int(times[row])))
            counted.append(single.key_count)
        assert of_rows == expected
        assert of_first.tolist() == [expected[row] for row in batch.first]
        assert known.tolist() == [counted[row] for row in batch.first]


@given(st.lists(st.floats(1e-12, 4.0), min_size=1))
def test_classes_of_many_rates_are_those_of_each(rates: list[float]) -> None:
    assert classes_of(np.array(rates)).tolist() == [class_of(rate) for rate in rates]


@given(
    st.lists(
        st.one_of(st.integers(1, 9), st.lists(st.integers(0, 30), min_size=1, max_size=6)),
        max_size=30,
    )
)
@settings(max_examples=100, deadline=None)
def test_pages_are_those_of_the_pseudo_code(actions: list[int | list[int]]) -> None:
    """Numbers add that many locations; lists remove the locations at these positions."""
    pool = PagePool(4, 3)
    batches, single, naive = PagedMemory(pool), PagedMemory(PagePool(4, 3)), NaivePages(4, 3)
    used: list[int] = []
    for action in actions:
        if isinstance(action, int):
            got = batches.add(action).tolist()
            one_by_one = [single.add_one() for _ in range(action)]
            assert one_by_one == [naive.add() for _ in range(action)]
            assert got == [location for location in one_by_one if location >= 0]
            used += got
        else:
            gone = [used[at] for at in dict.fromkeys(action) if at < len(used)]
            batches.remove(np.array(gone, np.int64))
            for location in gone:
                single.remove_one(location)
                naive.remove(location)
            used = [location for location in used if location not in gone]
        free = {page: naive.free[page][::-1] for page in naive.room}
        assert batches.pages_with_room == single.pages_with_room == free
        assert list(batches.pages_with_room) == list(single.pages_with_room) == naive.room
        assert batches.used == len(used) == 12 - batches.free_locations
    batches.remove(np.array(used, np.int64))
    assert pool.lent == batches.pages == 0, "a page leaked"


workloads = st.builds(
    lambda rows: Workload(
        np.cumsum(np.array([gap for gap, _ in rows], np.int64)),
        np.array([key for _, key in rows], np.int64),
        KEYS,
    ),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, KEYS - 1)), min_size=1, max_size=60),
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(load=workloads, cost=st.integers(1, 6), servers=st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_what_is_served(schedule: str, load: Workload, cost: int, servers: int) -> None:
    """A value is its key's newest when it is taken; what was taken, conflated and still waits is
    what came; staleness is that of the definition, tick by tick."""
    queue = make_queue(schedule)
    queue.grow(load.number_of_keys)
    end = int(load.times[-1]) + 4 * cost
    served = run(queue, load, lambda _: cost, until=end, servers=servers)
    assert (queue.conflated() >= 0).all()
    assert queue.arrived.sum() == len(load.times)
    for key in range(KEYS):
        arrivals = load.times[load.keys == key].tolist()
        deliveries = [
            Delivery(key, sum(a <= taken for a in arrivals) - 1, taken, out)
            for k, taken, out in zip(served.keys, served.taken, served.delivered, strict=True)
            if k == key
        ]
        values = [d.value for d in deliveries]
        assert values == sorted(set(values)), "a value was delivered twice, or out of order"
        finished = [d for d in deliveries if d.time < end]
        assert queue.application_area(end)[key] == integrate(
            application_staleness, arrivals, finished, 0, end
        )
        taken = [d for d in deliveries if d.taken < end]
        assert queue.queue_area(end)[key] == integrate(queue_staleness, arrivals, taken, 0, end)
        waits = queue.readers["r0"].schedule.since[key] != NEVER
        assert len(arrivals) == len(taken) + queue.conflated()[key] + waits


@pytest.mark.parametrize("in_place", [True, False], ids=["in-place", "fifo"])
@given(load=workloads, cost=st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_fifo_and_in_place_are_lists(in_place: bool, load: Workload, cost: int) -> None:
    naive = NaiveQueue(in_place=in_place)
    queue = make_queue("in-place" if in_place else "fifo")
    until = int(load.times[-1]) + 20
    served = run(queue, load, lambda _: cost, until=until)
    fed = 0
    for key, taken in zip(served.keys, served.taken, strict=True):
        while fed < len(load.times) and load.times[fed] <= taken:
            naive.enqueue(int(load.keys[fed]), int(load.times[fed]))
            fed += 1
        entry = naive.dequeue()
        assert entry is not None
        assert entry[0] == key


@given(load=workloads, cost=st.integers(1, 6), factor=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_in_place_nobody_waits_longer_than_a_round(load: Workload, cost: int, factor: int) -> None:
    """No queue staleness above (number of keys) x cost, at any load."""
    crowded = Workload(np.repeat(load.times, factor), np.repeat(load.keys, factor), KEYS)
    queue = make_queue("in-place")
    run(queue, crowded, lambda _: cost, until=int(load.times[-1]) + 100)
    assert queue.readers["r0"].ledger.longest_wait <= KEYS * cost


def test_deadlines_are_kept_in_order() -> None:
    schedule = DeadlineSchedule(100, {1: 10})
    queue = KeyQueue(PagedMemory(PagePool(4, 4)), {"app": schedule})
    queue.grow(3)
    queue.arrive(np.array([0, 1, 2]), np.array([0, 5, 6]))
    assert [queue.take_one(7)[0] for _ in range(3)] == [1, 0, 2]


def test_a_value_leaves_with_its_last_reader() -> None:
    queue = make_queue("in-place", readers=2)
    queue.arrive_one(3, 0)
    assert queue.take_one(1, "r0") == (3, 0)
    assert (len(queue), queue.waiting("r0"), queue.waiting("r1")) == (1, 0, 1)
    queue.arrive_one(3, 2)  # in place for r1, again for r0
    assert queue.take_one(3, "r1") == (3, 0)
    assert queue.conflated("r0")[3] == 0
    assert queue.conflated("r1")[3] == 1
    assert queue.take_one(4, "r0") == (3, 0)
    assert len(queue) == queue.memory.pages == 0


def test_a_key_without_a_location_is_refused_and_counted() -> None:
    queue = make_queue("in-place", pages=1)
    batch = queue.arrive(np.array([0, 1, 2, 0, 2]), np.arange(5))
    assert batch.distinct.tolist() == [0, 1]
    assert queue.refused[:3].tolist() == [0, 0, 2]
    assert queue.arrived[:3].tolist() == [2, 1, 0]
    assert queue.arrive_one(2, 5) == -1
    queue.take_one(6)
    assert queue.arrive_one(2, 7) >= 0


@pytest.mark.parametrize("arrivals", ["regular", "poisson", "bursty"])
@pytest.mark.parametrize("load", [2, 5, 10])
def test_the_area_between_both_stalenesses_of_one_key(arrivals: str, load: int) -> None:
    """Per served update it lies in [wait * cost, wait * cost + cost^2 / 2], `wait` the mean."""
    cost, until = 1_000, 2_000_000
    random = np.random.default_rng(load)
    times = {
        "regular": lambda: regular_times(load / cost, until),
        "poisson": lambda: poisson_times(load / cost, until, random),
        "bursty": lambda: bursty_times(load / cost, until, random),
    }[arrivals]()
    queue = make_queue("in-place")
    served = run(
        queue, Workload(times, np.zeros(len(times), np.int64), 1), lambda _: cost, until=until
    )
    first = np.searchsorted(times, np.array([-1, *served.taken[:-1]]), side="right")
    wait = float((np.array(served.taken) - times[first]).mean())
    area = float((queue.application_area(until) - queue.queue_area(until))[0]) / len(served.keys)
    edge = cost**2 / len(served.keys)  # the run ends in the middle of a service
    assert wait * cost - edge <= area <= wait * cost + cost**2 / 2 + edge


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name != "in-place"])
def test_equal_rates_nobody_is_fresher_than_in_place(schedule: str) -> None:
    """Random arrivals, ten keys, load 3: by no more than 1 %."""
    until = 8_000_000
    random = np.random.default_rng(1)
    load = Workload.merge([poisson_times(0.3 / 1_000, until, random) for _ in range(10)])
    areas = {}
    for name in ("in-place", schedule):
        queue = KeyQueue(
            PagedMemory(PagePool(2, 8)), {"": make_schedule(name)}, costs=CostMonitor(first=1_000.0)
        )
        queue.grow(10)
        run(queue, load, lambda _: 1_000, until=until)
        areas[name] = float(queue.queue_area(until).sum())
    assert areas[schedule] >= 0.99 * areas["in-place"]

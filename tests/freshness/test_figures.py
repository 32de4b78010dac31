"""The worked examples of the document on update queues, tick by tick."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.repro.fig_upstream_5 import by_definition
from benchmarks.repro.fig_upstream_14 import patterns, staleness
from benchmarks.repro.updates import arrivals, average_staleness, slow_and_fast
from thalweg.freshness.key_queue import KeyQueue
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.schedules import make_schedule
from thalweg.freshness.simulation import Served, Workload, run
from thalweg.testing.oracle.freshness import Delivery, application_staleness, queue_staleness


def make_queue(schedule: str = "in-place", keys: int = 1) -> KeyQueue:
    queue = KeyQueue(PagedMemory(PagePool(8, 4)), {"app": make_schedule(schedule)})
    queue.grow(keys)
    return queue


def deliveries_of(load: Workload, served: Served, key: int) -> tuple[list[int], list[Delivery]]:
    """One key's arrivals and deliveries; a value is the newest update at the time of its take."""
    arrivals = load.times[load.keys == key].tolist()
    deliveries = [
        Delivery(key, sum(a <= taken for a in arrivals) - 1, taken, delivered)
        for k, taken, delivered in zip(served.keys, served.taken, served.delivered, strict=True)
        if k == key
    ]
    return arrivals, deliveries


def test_figure_2_arrivals_every_2_ticks_and_a_cost_of_3() -> None:
    """a arrives at 0, b at 2, c at 4, ...; a' is out at 3, c... the letters of the figure.

        time      0  1  2  3  4  5  6  7  8  9
        arrives   a     b     c     d     e
        serves    a.......b(2).....d(6)......e
        out                a'       b'       d'
        stale     0  1  2  3|1 2  3  4|2 3  4  5|...

    When a' is delivered at 3, b has been pending since 2: staleness falls to 1, not to 0.
    """
    load = Workload(np.arange(0, 30, 2), np.zeros(15, np.int64), 1)
    queue = make_queue()
    seen: list[tuple[int, int]] = []

    def watch(now: int) -> None:
        seen.append((now, int(queue.application_staleness(now)[0])))

    served = run(queue, load, lambda _: 3, until=13, at_take=watch)
    assert served.taken == [0, 3, 6, 9, 12]
    assert served.delivered == [3, 6, 9, 12, 15]
    assert seen == [(0, 0), (3, 1), (6, 2), (9, 1), (12, 2)]
    arrivals, deliveries = deliveries_of(load, served, 0)
    assert [d.value for d in deliveries] == [0, 1, 3, 4, 6]
    curve = [application_staleness(arrivals, deliveries, t) for t in range(13)]
    assert curve == [0, 1, 2, 1, 2, 3, 2, 3, 4, 1, 2, 3, 2]
    peaks = [application_staleness(arrivals, deliveries, t, before=True) for t in (3, 6, 9, 12)]
    assert peaks == [3, 4, 5, 4]


IBM, MSFT, YHOO, GOOG = range(4)


@pytest.mark.parametrize(
    ("schedule", "order"),
    [("fifo", [MSFT, YHOO, IBM]), ("in-place", [IBM, MSFT, YHOO])],
)
def test_figure_6_a_second_ibm(schedule: str, order: list[int]) -> None:
    """IBM1, MSFT, YHOO wait, IBM2 arrives: fifo sends IBM to the tail, in place it keeps its
    place."""
    queue = make_queue(schedule, 4)
    for time, key in enumerate([IBM, MSFT, YHOO, IBM]):
        queue.arrive_one(key, time)
    assert queue.waiting() == 3
    assert [queue.take_one(10)[0] for _ in range(4)] == [*order, -1]
    assert queue.conflated()[:3].tolist() == [1, 0, 0]


def test_figure_6_the_append_queue_keeps_both() -> None:
    from benchmarks.baselines.append_queue import AppendQueue

    queue = AppendQueue(4)
    for time, key in enumerate([IBM, MSFT, YHOO, IBM]):
        queue.arrive_one(key, time)
    assert [queue.take_one(10) for _ in range(5)] == [
        (IBM, 0),
        (MSFT, 0),
        (YHOO, 0),
        (IBM, 1),
        (-1, -1),
    ]


def test_a_page_trace_of_mem_add_and_mem_rem() -> None:
    """Two locations a page, three pages; what the pseudo-code of the document does."""
    pool = PagePool(3, 2)
    memory = PagedMemory(pool)
    assert memory.next_available is None
    assert memory.add_one() == 0  # nothing has room: page 0 is allocated
    assert memory.next_available == (0, 1)
    assert memory.pages_with_room == {0: [1]}
    assert memory.add_one() == 1  # page 0 is full and leaves the empty-locations pool
    assert (memory.next_available, memory.pages_with_room) == (None, {})
    assert [memory.add_one(), memory.add_one(), memory.add_one()] == [2, 3, 4]
    memory.remove_one(1)  # page 0 was full: it is added with the freed location
    assert memory.pages_with_room == {2: [1], 0: [1]}
    memory.remove_one(0)  # page 0 is empty: it goes back to the pool at once
    assert (memory.pages_with_room, pool.lent) == ({2: [1]}, 2)
    memory.remove_one(3)
    assert memory.add_one() == 5  # the next available page is filled first
    assert memory.add_one() == 3  # then the first page with room, at the location that was freed
    assert memory.add_one() == 0  # only then a page is allocated
    assert (memory.used, memory.pages, pool.lent) == (5, 3, 3)
    assert [memory.add_one(), memory.add_one()] == [1, -1]


def test_both_stalenesses_are_those_of_the_definition() -> None:
    """At every tick, for one key and for three."""
    for keys in (1, 3):
        load = Workload(np.arange(40), np.arange(40) % keys, keys)
        queue = make_queue("in-place", keys)
        seen: list[tuple[int, list[int], list[int]]] = []

        def watch(
            now: int, queue: KeyQueue = queue, seen: list[tuple[int, list[int], list[int]]] = seen
        ) -> None:
            seen.append(
                (
                    now,
                    queue.application_staleness(now).tolist(),
                    queue.queue_staleness(now).tolist(),
                )
            )

        served = run(queue, load, lambda _: 3, until=40, at_take=watch)
        by_key = [deliveries_of(load, served, key) for key in range(keys)]
        assert len(seen) > 10
        for now, application, waiting in seen:
            assert application == [application_staleness(*by_key[k], now) for k in range(keys)]
            # The watch looks just before the take at `now`.
            assert waiting == [
                queue_staleness(by_key[k][0], by_key[k][1], now, before=True) for k in range(keys)
            ]


@pytest.mark.parametrize("keys", [1, 10])
@pytest.mark.parametrize("load", [2, 5, 10])
def test_figure_5_is_what_the_definitions_say(keys: int, load: float) -> None:
    """Regular arrivals: staleness in the queue and the difference follow from the load, to within
    what the beginning of a run takes."""
    services = 1_500
    rows = arrivals([1 / keys] * keys, load, services, regular=True, seed=keys)
    application, waiting = average_staleness("in-place", rows, services)
    queue, difference = by_definition(keys, load)
    assert waiting == pytest.approx(queue, rel=0.07)
    assert application - waiting == pytest.approx(difference, rel=0.04)


def test_at_load_2_nothing_is_fresher_than_serving_slow_keys_first() -> None:
    """Nine slow keys and a fast one: `gain` does what the guarded line cutting does."""
    rows = arrivals(slow_and_fast(9, 100), 2, 3_000, regular=False, seed=1)
    stale = {name: average_staleness(name, rows, 3_000)[1] for name in ("gain", "linecutting")}
    assert stale["gain"] == pytest.approx(stale["linecutting"], rel=0.02)


@pytest.mark.parametrize("load", [0.25, 1, 3])
@pytest.mark.parametrize("pattern", ["zipf 0.9", "regular order"])
def test_the_automatic_choice_is_no_staler_than_the_better_rule(pattern: str, load: float) -> None:
    """By no more than a tenth, the time before the first trial included; LAZY is up to four times
    and EAGER up to three hundred times staler than the other here."""
    keys = patterns(5_000, seed=5)[pattern]
    for size in (2, 9):
        stale = {rule: staleness(rule, keys, size, load) for rule in ("lazy", "eager", "auto")}
        assert stale["auto"] < 1.1 * min(stale["lazy"], stale["eager"]), (size, stale)

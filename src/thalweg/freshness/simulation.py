"""Simulation in virtual time: arrivals, costs and servers around the real queues.

At one moment arrivals come first, then deliveries, then the next takes: a server that becomes free
at t sees the updates of t.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from thalweg.freshness._arrays import Floats, Ints
from thalweg.freshness.window_queue import Step

__all__ = [
    "Answer",
    "Served",
    "ServedQueue",
    "SteppedQueue",
    "Workload",
    "bursty_times",
    "poisson_times",
    "regular_times",
    "run",
    "run_windows",
    "zipf_shares",
]


@dataclass(frozen=True)
class Workload:
    """Updates in order of arrival: time, key."""

    times: Ints
    keys: Ints
    number_of_keys: int

    def __post_init__(self) -> None:
        assert (np.diff(self.times) >= 0).all()

    @staticmethod
    def merge(streams: list[Ints]) -> Workload:
        """One stream of times for each key.

        >>> Workload.merge([np.array([1, 5]), np.array([3])]).keys
        array([0, 1, 0])
        """
        times = np.concatenate(streams)
        keys = np.repeat(np.arange(len(streams)), [len(stream) for stream in streams])
        order = np.argsort(times, kind="stable")
        return Workload(times[order], keys[order], len(streams))


def regular_times(rate: float, until: int, phase: float = 0.0) -> Ints:
    """One update every 1 / rate ticks; the first after `phase` of that.

    >>> regular_times(0.5, 7)
    array([0, 2, 4, 6])
    """
    times: Ints = np.floor((np.arange(int(until * rate) + 1) + phase) / rate).astype(np.int64)
    return times[times < until]


def poisson_times(rate: float, until: int, random: np.random.Generator) -> Ints:
    count = random.poisson(rate * until)
    return np.sort(random.integers(0, until, count))


def bursty_times(
    rate: float, until: int, random: np.random.Generator, burst: int = 10, spread: float = 0.1
) -> Ints:
    """Bursts of about `burst` updates that come `spread` as far apart as regular ones would; bursts
    come as a Poisson process."""
    starts = poisson_times(rate / burst, until, random)
    gaps = random.exponential(spread / rate, (len(starts), burst)).cumsum(axis=1)
    times = np.sort((starts[:, None] + gaps).astype(np.int64).ravel())
    return times[times < until]


def zipf_shares(keys: int, skew: float) -> Floats:
    """The share of each key: proportional to 1 / rank^skew.

    >>> zipf_shares(3, 1.0).round(3)
    array([0.545, 0.273, 0.182])
    """
    weights = 1.0 / np.arange(1, keys + 1) ** skew
    shares: Floats = weights / weights.sum()
    return shares


class ServedQueue(Protocol):
    """The methods of a queue that a simulated server calls."""

    def arrive(self, cells: Ints, times: Ints) -> object: ...

    def arrive_one(self, cell: int, time: int) -> object: ...

    def take_one(self, now: int) -> tuple[int, int]: ...

    def deliver_one(self, cell: int, now: int) -> None: ...


@dataclass(frozen=True)
class Served:
    """The served values, in parallel lists: key, when taken and delivered, and the second number
    that `take_one` has returned."""

    keys: list[int]
    taken: list[int]
    delivered: list[int]
    values: list[int]


@dataclass(frozen=True)
class Answer:
    """The result of one window: its key, start, the rows it was made of, when it was delivered."""

    key: int
    window: int
    rows: tuple[int, ...]
    delivered: int


class SteppedQueue(Protocol):
    """The methods of a queue of windows that a simulated server calls."""

    def arrive_one(self, cell: int, time: int, now: int, number: int) -> object: ...

    def next_step(self, now: int) -> Step | None: ...

    def deliver_one(self, cell: int, now: int) -> None: ...


def run_windows(
    queue: SteppedQueue,
    load: Workload,
    source_times: Ints,
    row_cost: int,
    *,
    until: int,
    at: Callable[[int], None] | None = None,
) -> list[Answer]:
    """Simulate one server that takes rows of windows at a cost of `row_cost` each, by their marks.
    Row i of the load has the source time `source_times[i]`. `at` is called with the time after
    each event."""
    answers: list[Answer] = []
    open_rows: dict[int, list[int]] = {}
    times, keys = load.times.tolist(), load.keys.tolist()
    source = source_times.tolist()
    fed, now = 0, 0

    def feed(moment: int, watch: Callable[[int], None] | None = None) -> None:
        """Let the rows up to a moment arrive; `watch` is called for those before it."""
        nonlocal fed
        while fed < len(times) and times[fed] <= moment:
            queue.arrive_one(keys[fed], source[fed], times[fed], fed)
            if watch is not None and times[fed] < moment:
                watch(times[fed])
            fed += 1

    while True:
        feed(now)
        step = queue.next_step(now)
        if at is not None:
            at(now)
        if step is None:
            if fed == len(times) or times[fed] >= until:
                break
            now = times[fed]
            continue
        if step.number >= 0:
            if step.mark > 0:
                open_rows[step.cell] = []
            if step.cell in open_rows:
                open_rows[step.cell].append(step.number)
            end = now + row_cost
            if end >= until:
                break
            feed(end, at)
            now = end
        if step.completes:
            queue.deliver_one(step.cell, now)
            answers.append(Answer(step.cell, step.window, tuple(open_rows.pop(step.cell, ())), now))
    feed(until - 1)
    return answers


def run(
    queue: ServedQueue,
    load: Workload,
    cost: Callable[[int], int],
    *,
    until: int,
    servers: int = 1,
    batch_from: int = 16,
    at_take: Callable[[int], None] | None = None,
) -> Served:
    """Serve `load` until `until`; `cost(key)` is how long serving a key takes.

    `values` holds what `take_one` gives as its second number. Runs of `batch_from` arrivals and
    more are enqueued as a batch. `at_take` is called with each moment at which a server turns to
    the queue.
    """
    served = Served([], [], [], [])
    busy: list[tuple[int, int, int]] = []
    fed, number = 0, 0
    times, keys = load.times, load.keys

    def feed(moment: int) -> None:
        nonlocal fed
        end = int(np.searchsorted(times, moment, side="right"))
        if end - fed >= batch_from:
            queue.arrive(keys[fed:end], times[fed:end])
        else:
            for at in range(fed, end):
                queue.arrive_one(int(keys[at]), int(times[at]))
        fed = end

    while True:
        now = busy[0][0] if busy else until
        if len(busy) < servers and fed < len(times):
            now = min(now, int(times[fed]))
        if now >= until:
            break
        feed(now)
        while busy and busy[0][0] == now:
            _, _, cell = heapq.heappop(busy)
            queue.deliver_one(cell, now)
        while len(busy) < servers:
            if at_take is not None:
                at_take(now)
            cell, value = queue.take_one(now)
            if cell < 0:
                break
            number += 1
            end = now + cost(cell)
            heapq.heappush(busy, (end, number, cell))
            served.keys.append(cell)
            served.taken.append(now)
            served.delivered.append(end)
            served.values.append(value)
    feed(until - 1)
    return served

"""What the experiments on update queues share: workloads, queues, averages.

One tick is a thousandth of the cost of serving a key, so that random arrivals hardly ever fall on
one tick. Staleness is given in units of that cost, averaged over keys and time by integral.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.freshness.key_queue import KeyQueue
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.rates import CostMonitor
from thalweg.freshness.schedules import make_schedule
from thalweg.freshness.simulation import Workload, poisson_times, regular_times, run

__all__ = ["COST", "arrivals", "average_staleness", "make_queue", "slow_and_fast"]

COST = 1_000


def make_queue(schedule: str, keys: int, *, locations: int = 8) -> KeyQueue:
    queue = KeyQueue(
        PagedMemory(PagePool(-(-keys // locations), locations)),
        {"": make_schedule(schedule)},
        costs=CostMonitor(first=COST),
    )
    queue.grow(keys)
    return queue


def slow_and_fast(slow: int, ratio: float, keys: int = 10) -> list[float]:
    """Shares of the updates: of `slow` keys a `ratio`-th of the others'. Where all or none are
    slow, all are alike."""
    weights = [1.0 / ratio if slow < keys and key < slow else 1.0 for key in range(keys)]
    return [weight / sum(weights) for weight in weights]


def arrivals(
    shares: Sequence[float], load: float, services: int, *, regular: bool, seed: int
) -> Workload:
    """Updates at `load` times the rate that can be served, until `services` could have been."""
    random = np.random.default_rng(seed)
    until = services * COST
    rates = [share * load / COST for share in shares]
    return Workload.merge(
        [
            regular_times(rate, until, random.random())
            if regular
            else poisson_times(rate, until, random)
            for rate in rates
        ]
    )


def average_staleness(schedule: str, load: Workload, services: int) -> tuple[float, float]:
    """Application and queue staleness of a schedule."""
    queue = make_queue(schedule, load.number_of_keys)
    until = services * COST
    run(queue, load, lambda _: COST, until=until)
    scale = until * COST * load.number_of_keys
    return (
        float(queue.application_area(until).sum()) / scale,
        float(queue.queue_area(until).sum()) / scale,
    )

"""Locations held by pages on demand and by the naive manager, in one run (figures 16 and 17).

A hundred keys, ten served a second, until a thousand results are out. Use is looked at before each
take. `held` counts locations that a manager keeps from others: those with a value for pages on
demand, all that ever had one for the naive manager. `effective` is the share of them whose value is
still to be delivered. Empty space inside pages is reported apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.baselines.naive_memory import NaiveMemory
from benchmarks.repro.updates import make_queue
from thalweg.freshness.simulation import Workload, poisson_times, run, zipf_shares

__all__ = ["SKEWS", "Use", "measure_use"]

KEYS, SECOND, SERVED_A_SECOND = 100, 1_000_000, 10
PAGE = 8
SKEWS = (0.0, 0.3, 0.6, 0.9)


@dataclass(frozen=True)
class Use:
    """Averages over the takes of a run, in locations; shares of them."""

    held: float
    naive_held: float
    effective: float
    naive_effective: float
    empty_in_pages: float
    """Locations of pages in use that hold nothing."""


def measure_use(skew: float, rate: int, results: int) -> Use:
    until = results * SECOND // SERVED_A_SECOND
    random = np.random.default_rng(rate)
    shares = zipf_shares(KEYS, skew)
    load = Workload.merge([poisson_times(share * rate / SECOND, until, random) for share in shares])
    queue, naive = make_queue("in-place", KEYS, locations=PAGE), NaiveMemory(KEYS)
    seen: list[tuple[int, int, int, int]] = []
    fed = 0

    def watch(now: int) -> None:
        nonlocal fed
        end = int(np.searchsorted(load.times, now, side="right"))
        naive.arrive(load.keys[fed:end])
        fed = end
        occupied = queue.memory.used
        with_value = int((queue.location[:KEYS] >= 0).sum())
        seen.append((occupied, with_value, naive.held, queue.memory.pages * PAGE - occupied))

    run(queue, load, lambda _: SECOND // SERVED_A_SECOND, until=until, at_take=watch)
    held, with_value, naive_held, empty = np.array(seen, np.float64).T
    busy = held > 0
    return Use(
        float(held.mean()),
        float(naive_held.mean()),
        float((with_value[busy] / held[busy]).mean()),
        float((with_value / np.maximum(naive_held, 1)).mean()),
        float(empty.mean()),
    )

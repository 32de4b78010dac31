"""Timing side by side: everything is warmed up, then measured in turns, so that what disturbs the
machine disturbs all.

A ratio is taken within each round and the median of the rounds is reported: a slow minute makes
both sides slow.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

__all__ = ["Timings", "measure"]

Clock = Callable[[], float]


@dataclass(frozen=True)
class Timings:
    """Of each case, one number a round: the seconds it took, and the seconds of work of all its
    threads."""

    seconds: Mapping[str, list[float]]
    work: Mapping[str, list[float]] = field(default_factory=dict)

    def median(self, case: str) -> float:
        return median(self.seconds[case])

    def fastest(self, cases: Iterable[str]) -> str:
        """The case with the smallest median."""
        return min(cases, key=self.median)

    def ratio(self, over: str, under: str) -> float:
        """How many times longer `over` takes than `under`.

        >>> Timings({"slow": [4.0, 9.0, 6.0], "fast": [2.0, 3.0, 3.0]}).ratio("slow", "fast")
        2.0
        """
        return _ratio(self.seconds[over], self.seconds[under])

    def work_ratio(self, over: str, under: str) -> float:
        """How many times more work `over` is than `under`, whatever the number of threads that
        share it."""
        return _ratio(self.work[over], self.work[under])

    def cores(self, case: str) -> float:
        """How many cores a case kept busy: well below its threads, it may have had to share them
        with other programs."""
        return _ratio(self.work[case], self.seconds[case])


def _ratio(over: list[float], under: list[float]) -> float:
    return median(one / two for one, two in zip(over, under, strict=True))


def measure(
    cases: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warm_ups: int = 1,
    clock: Clock = time.perf_counter,
    work_clock: Clock = time.process_time,
) -> Timings:
    """Run all cases `warm_ups` times unmeasured, then `rounds` times in turns, every second round
    backwards."""
    for _ in range(warm_ups):
        for run in cases.values():
            run()
    took = Timings({name: [] for name in cases}, {name: [] for name in cases})
    for number in range(rounds):
        for name in list(cases)[:: -1 if number % 2 else 1]:
            gc.collect()
            begin, begin_work = clock(), work_clock()
            kept = cases[name]()  # what comes out is let go of after the clocks have stopped
            took.work[name].append(work_clock() - begin_work)
            took.seconds[name].append(clock() - begin)
            del kept
    return took

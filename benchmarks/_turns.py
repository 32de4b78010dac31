"""Ours and Spark's own in turns, in processes that stay warm.

A JVM compiles what it runs for some hundred micro-batches, so that the first round of each engine
is no measure of it: it only chooses the fastest of Spark's own, by store and checkpoint files. More
rounds may be left out to warm both up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks._own_process import OwnProcess
from benchmarks._spark_peer import STORES, Store

__all__ = ["OURS", "Turns", "store_of", "take_turns"]

OURS = "thalweg"
Found = dict[str, Any]


def store_of(engine: str) -> str:
    """
    >>> store_of("spark, rocksdb")
    'rocksdb'
    """
    return engine.removeprefix("spark, ")


class Turns:
    """What was found in each round, by engine; of all but Spark's fastest in the first round
    only."""

    def __init__(self, runs: dict[str, list[Found]], theirs: str) -> None:
        self._runs = runs
        self.theirs = theirs

    def of(self, engine: str) -> list[Found]:
        """The rounds that count: all but the first, where there are more."""
        runs = self._runs[engine]
        return runs[1:] or runs

    def ratio(self, of: Callable[[Found], float]) -> float:
        """The median over the rounds of Spark's figure over ours."""
        pairs = zip(self.of(OURS), self.of(self.theirs), strict=True)
        return median(of(peer) / of(ours) for ours, peer in pairs)


def take_turns(
    measure: Callable[[OwnProcess, str], Found],
    seconds: Callable[[Found], float],
    rounds: int,
    peers: Sequence[Store] = STORES,
    warm_rounds: int = 0,
) -> Turns:
    """All engines once; then, `rounds` times, ours and the fastest of Spark's own. Before those the
    two take turns for `warm_rounds` that do not count."""
    with ExitStack() as stack:
        names = (OURS, *(f"spark, {store}" for store in peers))
        engines = {name: stack.enter_context(OwnProcess()) for name in names}
        runs = {name: [measure(process, name)] for name, process in engines.items()}
        theirs = min(names[1:], key=lambda name: seconds(runs[name][0]))
        for name in set(names) - {OURS, theirs}:
            engines[name].close()
        for number in range(-warm_rounds, rounds):
            for name in (OURS, theirs)[:: -1 if number % 2 else 1]:
                found = measure(engines[name], name)
                if number >= 0:
                    runs[name].append(found)
    return Turns(runs, theirs)

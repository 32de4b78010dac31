"""The figures of a queue at one moment, and how staleness is summed up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from thalweg.freshness._arrays import Ints

__all__ = ["Mode", "QueueStatus", "Staleness"]

Mode = Literal["append", "update"]
"""An adaptive queue serves all rows, or the newest of each key."""


@dataclass(frozen=True, slots=True)
class Staleness:
    """Staleness over the keys of a queue, in ticks of the clock of arrival."""

    now: float
    p99: float
    average: float
    queue_average: float

    @classmethod
    def of(cls, stale: Ints, area: float, waited: float, *, keys: int, elapsed: int) -> Staleness:
        """`stale` is that of each key now; `area` and `waited` are the integrals of staleness and
        of queue staleness, over all of `keys` and the time that has elapsed."""
        keys, elapsed = max(keys, 1), max(elapsed, 1)
        now, p99 = (stale.mean(), np.percentile(stale, 99)) if len(stale) else (0.0, 0.0)
        return cls(float(now), float(p99), area / keys / elapsed, waited / keys / elapsed)


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue at one moment, for one reader. Staleness in ticks of the clock of arrival."""

    keys: int
    forgotten: int
    """Keys that were idle when room was needed for new ones; one that comes again is new."""
    waiting: int
    arrived: int
    taken: int
    conflated: int
    outdated: int
    refused: int
    staleness_now: float
    """Mean over the keys."""
    staleness_p99: float
    """Of a hundred keys, the stalest but one."""
    staleness_average: float
    """Mean over keys and time."""
    queue_staleness_average: float
    longest_wait: int
    bytes_used: int
    bytes_allowed: int
    mode: Mode = "update"
    """How often it changed, and when and why it last did."""
    switches: int = 0
    last_switch: str = ""

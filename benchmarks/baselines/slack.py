"""Buffering with slack: an extent ends when a tuple has come whose time is `slack` beyond its end,
whatever is still missing.

A tuple that comes after the end of an extent is late for it. Under `generous` slack it is left out
of the extents it is late for; under `consistent` slack it is left out of all its extents when it is
late for one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.repro.streams import Arrivals, Numbers

__all__ = ["Answers", "buffering_with_slack", "extents_of"]


@dataclass(frozen=True)
class Answers:
    """Of each extent: its end, how many tuples it had, their sum, after which tuple it was
    answered, and how long that took."""

    end: Numbers
    count: Numbers
    total: Numbers
    answered: Numbers
    seconds: list[float]


def extents_of(arrivals: Arrivals, range_: int, slide: int) -> Numbers:
    """The ends of all extents that are full."""
    first, last = int(arrivals.ts.min()), int(arrivals.ts.max())
    return np.arange(first // slide * slide + range_, last // slide * slide + 1, slide)


def buffering_with_slack(
    arrivals: Arrivals, range_: int, slide: int, slack: int, *, consistent: bool
) -> Answers:
    ends = extents_of(arrivals, range_, slide)
    highest = np.maximum.accumulate(arrivals.ts)
    position = np.arange(len(arrivals))
    answered = np.searchsorted(highest, ends + slack, side="left")
    """The tuple that ends each extent; behind the last one for those that the end of the stream
    ends."""
    first = np.maximum(
        (arrivals.ts - ends[0]) // slide + 1, 0
    )  # the first extent that ends after the tuple
    late = (first < len(ends)) & (position >= answered[np.minimum(first, len(ends) - 1)])
    counts, totals, seconds = [], [], []
    for end, closes in zip(ends.tolist(), answered.tolist(), strict=True):
        begin = time.perf_counter()
        held = slice(
            max(int(np.searchsorted(highest, end - range_)) - 1, 0), closes
        )  # what the buffer holds now
        ts, value = arrivals.ts[held], arrivals.value[held]
        inside = (ts >= end - range_) & (ts < end)
        if consistent:
            inside &= ~late[held]
        counts.append(int(inside.sum()))
        totals.append(int(value[inside].sum()))
        seconds.append(time.perf_counter() - begin)
    return Answers(ends, np.array(counts), np.array(totals), answered, seconds)

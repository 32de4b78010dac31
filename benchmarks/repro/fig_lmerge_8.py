"""Congestion: three inputs that stall at different times, two of them at once, and their merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.delayed_inputs import RATE, deliver, delivered, rates

TITLE = "Three congested inputs of 5,000 elements/s, and their merge"
CONGESTED = ([(4, 6), (17, 20)], [(9, 12), (18, 21)], [(13, 15)])
"""Seconds in which each input is congested."""


def series(scale: float) -> Iterator[Line]:
    length = 25 * min(1.0, max(scale, 0.04))
    stretch = length / 25
    count = int(length * RATE)
    random = np.random.default_rng(5)
    made = np.arange(count) / RATE
    times = []
    for periods in CONGESTED:
        congested = np.zeros(count, np.bool_)
        for begin, end in periods:
            congested |= (made >= begin * stretch) & (made < end * stretch)
        delay = np.maximum(random.normal(1.6 / RATE, 0.5 / RATE, count), 0)
        times.append(delivered(count, np.where(congested, delay, 0)))
    series = {f"input {number}": one for number, one in enumerate(times, 1)}
    for name, one in {**series, "merged": deliver(times)}.items():
        measured = rates(one, 0.5 * stretch)
        for at, rate in enumerate(measured):
            when = (at + 1) * 0.5 * stretch
            yield point("lmerge-8", name, when, "rate", float(rate), "elements/s")
        yield point("lmerge-8", name, 0, "lowest rate", float(measured.min()), "elements/s")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series([one for one in lines if one.metric == "rate"], path, title=TITLE, x="s")

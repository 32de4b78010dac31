"""Bursty inputs: the rate of each input and of their merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.delayed_inputs import RATE, deliver, delivered, rates

TITLE = "Four bursty inputs of 5,000 elements/s, and their merge"


def series(scale: float) -> Iterator[Line]:
    count = max(int(20 * RATE * scale), 2 * RATE)
    random = np.random.default_rng(5)
    times = []
    for share in (0.003, 0.0035, 0.004, 0.005):
        delay = np.maximum(random.normal(0.020, 0.005, count), 0)
        times.append(delivered(count, np.where(random.random(count) < share, delay, 0)))
    series = {f"input {number}": one for number, one in enumerate(times, 1)}
    for name, one in {**series, "merged": deliver(times)}.items():
        measured = rates(one, 0.1)
        variation = float(measured.std() / measured.mean())
        for at, rate in enumerate(measured):
            yield point("lmerge-7", name, (at + 1) / 10, "rate", float(rate), "elements/s")
        yield point("lmerge-7", name, 0, "coefficient of variation", variation, "")


def draw(lines: Iterable[Line], path: Path) -> None:
    shown = [one for one in lines if one.metric == "rate" and one.params["series"] != "input 2"]
    draw_series(shown, path, title=TITLE, x="s")

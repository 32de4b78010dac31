"""Memory of waiting values over the skew of the keys (update queues, figure 16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.memory_use import SKEWS, Use, measure_use

TITLE = "Locations held, averaged over the loads"
RATES = (20, 50, 100, 200, 500, 1_000)


def series(scale: float) -> Iterator[Line]:
    results = max(100, int(1_000 * scale))
    for skew in SKEWS:
        yield from _lines(skew, [measure_use(skew, rate, results) for rate in RATES])


def _lines(x: float, uses: list[Use]) -> Iterator[Line]:
    for name, metric, values in (
        ("pages on demand", "effective use", [use.effective for use in uses]),
        ("naive", "effective use", [use.naive_effective for use in uses]),
        ("pages on demand", "locations held", [use.held for use in uses]),
        ("naive", "locations held", [use.naive_held for use in uses]),
        ("pages on demand", "empty locations in pages", [use.empty_in_pages for use in uses]),
    ):
        yield point("upstream-16", name, x, metric, float(np.mean(values)), "")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="skew")

"""Memory of waiting values over the load (update queues, figure 17)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.memory_use import SKEWS, Use, measure_use

TITLE = "Locations held, averaged over the skews"
RATES = (20, 50, 100, 200, 500, 1_000)


def series(scale: float) -> Iterator[Line]:
    results = max(100, int(1_000 * scale))
    for rate in RATES:
        for skew in SKEWS:
            yield from _lines(rate, f"zipf {skew}", measure_use(skew, rate, results))


def _lines(rate: int, mix: str, use: Use) -> Iterator[Line]:
    for name, metric, value in (
        ("pages on demand", "effective use", use.effective),
        ("naive", "effective use", use.naive_effective),
        ("pages on demand", "locations held", use.held),
        ("naive", "locations held", use.naive_held),
        ("pages on demand", "empty locations in pages", use.empty_in_pages),
    ):
        yield point("upstream-17", f"{name},{mix}", rate, metric, value, "")


def draw(lines: Iterable[Line], path: Path) -> None:
    """The mean over the skews, as in the document."""
    sums: dict[tuple[str, float, str], list[float]] = {}
    for line in lines:
        name = str(line.params["series"]).partition(",")[0]
        sums.setdefault((name, float(line.params["x"]), line.metric), []).append(line.value)
    means = [
        point("upstream-17", name, x, metric, float(np.mean(values)), "")
        for (name, x, metric), values in sums.items()
    ]
    draw_series(means, path, title=TITLE, x="updates a second", log_x=True)

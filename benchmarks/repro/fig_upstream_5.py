"""Application and queue staleness over the load, one key and ten (update queues, figure 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.updates import arrivals, average_staleness

TITLE = "Application and queue staleness, in-place"
LOADS = (1.5, 2, 3, 4, 5, 6, 8, 10)


def series(scale: float) -> Iterator[Line]:
    """With regular arrivals, as the document's argument has them, and with random ones."""
    services = max(500, int(20_000 * scale))
    for regular in (True, False):
        for keys in (1, 10):
            for load in LOADS:
                rows = arrivals([1 / keys] * keys, load, services, regular=regular, seed=keys)
                application, waiting = average_staleness("in-place", rows, services)
                for kind, value in (
                    ("application", application),
                    ("queue", waiting),
                    ("difference", application - waiting),
                ):
                    metric = f"staleness, {'regular' if regular else 'random'} arrivals"
                    yield point("upstream-5", f"{kind},{keys} keys", load, metric, value, "costs")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="load")

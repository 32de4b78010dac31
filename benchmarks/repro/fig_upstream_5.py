"""Application and queue staleness over the load, one key and ten (update queues, figure 5).

With regular arrivals at load L, in units of the cost, both follow from the definitions:

                    queue staleness                    application less queue staleness
    one key         w^2 / 2,  w = 1 - 1/L              w + (1 - w^2) / 2
    n keys, L <= n  n/2 (1 - 1/L + 1/(3 L^2))          1 - 1/(2 L) + 1/(2 n) - L / (6 n^2)

Arrivals of one key fall in step with its services; those of several fall anywhere in a round. So
that ten keys are ten times as stale as one holds for high loads only, whatever the schedule: by
definition 23 times at load 2, 12.7 at load 5, 11.2 at load 10; and the differences are within a
tenth of each other. The figure has these values beside the measured ones.
"""

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
                metric = f"staleness, {'regular' if regular else 'random'} arrivals"
                for kind, value in (
                    ("application", application),
                    ("queue", waiting),
                    ("difference", application - waiting),
                ):
                    yield point("upstream-5", f"{kind},{keys} keys", load, metric, value, "costs")
                if regular:
                    waits, differ = by_definition(keys, load)
                    for kind, value in (("queue", waits), ("difference", differ)):
                        name = f"{kind} by definition,{keys} keys"
                        yield point("upstream-5", name, load, metric, value, "costs")


def by_definition(keys: int, load: float) -> tuple[float, float]:
    """Queue staleness, and application less queue staleness, with regular arrivals.

    >>> [tuple(round(value, 3) for value in by_definition(keys, 2)) for keys in (1, 10)]
    [(0.125, 0.875), (2.917, 0.797)]
    """
    if keys == 1:
        waits = 1 - 1 / load
        return waits**2 / 2, waits + (1 - waits**2) / 2
    queue = keys / 2 * (1 - 1 / load + 1 / (3 * load**2))
    return queue, 1 - 1 / (2 * load) + 1 / (2 * keys) - load / (6 * keys**2)


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="load")

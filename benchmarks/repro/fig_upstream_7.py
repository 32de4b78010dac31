"""Append queue, random shedding, fifo and in-place over the load (update queues, figure 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.baselines.append_queue import AppendQueue, SheddingQueue
from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.updates import COST, arrivals, average_staleness
from thalweg.freshness.simulation import run

TITLE = "Append queue, random shedding and update queues"
LOADS = (2, 3, 4, 5, 6, 8, 10)
KEPT = 0.95
"""Shedding keeps this much of what can be served: at all of it, its queue would still grow."""


def series(scale: float) -> Iterator[Line]:
    services = max(500, int(5_000 * scale))
    until = services * COST
    for keys in (1, 10):
        for load in LOADS:
            rows = arrivals([1 / keys] * keys, load, services, regular=False, seed=keys)
            shedding = SheddingQueue(keys, KEPT / load, np.random.default_rng(0))
            values = {}
            for name, queue in (("append", AppendQueue(keys)), ("random shedding", shedding)):
                run(queue, rows, lambda _: COST, until=until)
                values[name] = float(queue.application_area(until).sum()) / (until * COST * keys)
            for name in ("fifo", "in-place"):
                values[name] = average_staleness(name, rows, services)[0]
            for name, value in values.items():
                yield point(
                    "upstream-7",
                    f"{name},{keys} keys",
                    load,
                    "application staleness",
                    value,
                    "costs",
                )


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="load", log_y=True)

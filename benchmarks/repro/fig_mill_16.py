"""How even the output is, by the slide of an aggregate that a union waits for.

    fast   -> selection (95% pass) ------> union
    other  -> a result every SLIDE rows -> union

Both sources have 1,000 rows a second (Poisson). The union waits for order, so without promises rows
of the first source leave when a slide of the other is complete, all at once. Virtual time, 5
microseconds for a row or a promise in an operator. Burstiness is (max - min) / mean of the rows of
the first source that leave in intervals of 0.02 s; results of the aggregate are left out, since
there are fewer of them the larger the slide is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.waiting_runs import DemandRun, arrivals, slide_graph

TITLE = "Burstiness of the output by the slide of an aggregate"
RATES = {"fast": 1_000.0, "other": 1_000.0}
COST = 5e-6
INTERVAL = 0.02
SLIDES = (1, 10, 25, 50, 100, 200)


def series(scale: float) -> Iterator[Line]:
    for slide in SLIDES:
        for demand in (False, True):
            yield measure(slide, max(1.0, 10 * scale), demand=demand)


def measure(slide: int, seconds: float, *, demand: bool) -> Line:
    graph, costs = slide_graph(slide)
    costs = dict.fromkeys(costs, COST)
    came = arrivals(RATES, seconds)
    run = DemandRun(graph, came, costs, demand=demand)
    graph.use("depth-first")
    run.run()
    fast = np.concatenate([arrival.batch.start for arrival in came if arrival.source == "fast"])
    left = np.repeat([time for time, _ in run.output], [len(batch) for _, batch in run.output])
    left = left[np.isin(np.concatenate([batch.start for _, batch in run.output]), fast)]
    # The last interval is cut off by the end of the sources.
    counts, _ = np.histogram(left, np.arange(0, seconds - INTERVAL, INTERVAL))
    value = float((counts.max() - counts.min()) / counts.mean())
    return point("mill-16", "on demand" if demand else "without", slide, "burstiness", value, "1")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="slide (rows)")

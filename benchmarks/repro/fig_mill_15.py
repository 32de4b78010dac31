"""Promises on demand, operator by operator and along the arcs of the enhanced graph.

Three sources (1,000, 0.5 and 0.5 rows a second), two nested ordered unions, and selections between
all operators that wait; the graph is drawn in `waiting_runs.nested_graph`. Virtual time, 5
microseconds for a row or a promise in an operator. (a) mean latency without promises and in both
forms, with five selections on each stretch; (b) both forms by the number of selections, with the
calls of operators for a row of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.waiting_runs import DemandRun, arrivals, latencies, nested_graph

TITLE = "Promises operator by operator and past operators that only pass them on"
RATES = {"fast": 1_000.0, "slow-1": 0.5, "slow-2": 0.5}
COST = 5e-6
FORMS = {"without": (False, False), "by operator": (True, False), "bypass": (True, True)}


def series(scale: float) -> Iterator[Line]:
    for name in FORMS:
        yield from _measure(name, 5, max(4.0, 20 * scale), "a")
    for plain in (1, 2, 5, 10, 20):
        for name in ("by operator", "bypass"):
            yield from _measure(name, plain, max(0.2, 4 * scale), "b")


def _measure(name: str, plain: int, seconds: float, part: str) -> Iterator[Line]:
    graph, costs = nested_graph(plain)
    demand, bypass = FORMS[name]
    costs = dict.fromkeys(costs, COST)
    run = DemandRun(graph, arrivals(RATES, seconds), costs, demand=demand, bypass=bypass)
    graph.use("depth-first")
    run.run()
    found = latencies(run)
    yield point("mill-15", name, plain, f"{part}: mean latency", 1_000 * mean(found), "ms")
    yield point("mill-15", name, plain, f"{part}: calls a row", run.calls / len(found), "1")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="selections on a stretch", log_y=True)

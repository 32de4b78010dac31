"""Latency of an ordered union of a fast and a slow stream: strategies, promises on demand, bursts.

Two Poisson streams of 1,000 and 0.5 rows a second, a selection each that 95% pass, and a union that
waits for order (`benchmarks/baselines/ordered_union.py`) on our executor, in virtual time: an
operator takes 20 microseconds for a row or a promise, sources take none. (a) without promises, with
heartbeats of both sources, and with promises on demand; x is 0 without, the interval in
milliseconds for heartbeats, and 1 on demand; the same for a window join in the place of the union
(`benchmarks/baselines/waiting_join.py`). (b) bursts of up to 100 rows, with promises on demand
and with latent time stamps, where the union does not wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.waiting_runs import (
    DemandRun,
    arrivals,
    heartbeats,
    join_graph,
    latencies,
    latent_graph,
    union_graph,
)

TITLE = "Latency of an ordered union by strategy, promises and bursts"
RATES = {"fast": 1_000.0, "slow": 0.5}
STRATEGIES = ("depth-first", "breadth-first")


def series(scale: float) -> Iterator[Line]:
    seconds = max(4.0, 60 * scale)
    for strategy in STRATEGIES:
        yield from _with_and_without(strategy, seconds)
        yield from _join(strategy, seconds)
    for strategy in STRATEGIES:
        for burst in (1, 10, 20, 40, 60, 80, 100):
            for stamps in ("on demand", "latent"):
                yield _burst(strategy, burst, stamps, max(4.0, 20 * scale))


def _run(
    strategy: str, seconds: float, every: float | None, *, demand: bool, join: bool = False
) -> DemandRun:
    graph, costs = join_graph() if join else union_graph()
    rows = arrivals(RATES, seconds)
    if every is not None:
        rows += list(heartbeats(list(RATES), seconds, every))
    run = DemandRun(graph, rows, costs, demand=demand)
    graph.use(strategy)
    run.run()
    return run


def _with_and_without(strategy: str, seconds: float) -> Iterator[Line]:
    cases: list[tuple[str, float | None, bool, int]] = [
        ("without", None, False, 0),
        ("heartbeats", 1.0, False, 1_000),
        ("heartbeats", 0.1, False, 100),
        ("heartbeats", 0.01, False, 10),
        ("on demand", None, True, 1),
    ]
    for name, every, demand, x in cases:
        run = _run(strategy, seconds, every, demand=demand)
        label = f"{name}, {strategy}"
        value = 1_000 * mean(latencies(run))
        yield point("mill-14", label, x, "a: mean latency", value, "ms")
        messages = run.asked if demand else 0 if every is None else int(seconds / every) * 2
        yield point("mill-14", label, x, "a: messages", messages / seconds, "1/s")


def _join(strategy: str, seconds: float) -> Iterator[Line]:
    for name, demand in (("without", False), ("on demand", True)):
        run = _run(strategy, seconds, None, demand=demand, join=True)
        value = 1_000 * mean(latencies(run))
        label = f"{name}, window join, {strategy}"
        yield point("mill-14", label, int(demand), "a: mean latency", value, "ms")


def _burst(strategy: str, burst: int, stamps: str, seconds: float) -> Line:
    graph, costs = union_graph() if stamps == "on demand" else latent_graph()
    rows = arrivals(RATES, seconds, burst=burst)
    run = DemandRun(graph, rows, costs, demand=stamps == "on demand")
    graph.use(strategy)
    run.run()
    fast = 1_000 * mean(latencies(run))
    return point("mill-14", f"{stamps}, {strategy}", burst, "b: mean latency", fast, "ms")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="interval (ms) or rows a burst", log_y=True)

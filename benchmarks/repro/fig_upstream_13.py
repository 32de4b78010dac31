"""LAZY and EAGER windows of one key over the window size (update queues, figure 13)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.baselines.append_windows import AppendWindows
from benchmarks.repro import Line, draw_series, point
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.schedules import make_schedule
from thalweg.freshness.simulation import SteppedQueue, Workload, run_windows
from thalweg.freshness.window_choice import make_window_queue
from thalweg.freshness.window_marks import UpdateWindow
from thalweg.freshness.window_queue import WindowQueue

TITLE = "Windows of one key, one row a tick, cost 1"
SIZES = (2, 4, 6, 8, 10, 15, 20)


def series(scale: float) -> Iterator[Line]:
    ticks = max(2_000, int(20_000 * scale))
    for size in SIZES:
        for slide, panel in ((size, "tumbling"), (1, "slide 1")):
            for rule in ("lazy", "eager"):
                yield _measure(make_windows(size, slide, rule, 1), size, ticks, panel, rule)
        window = UpdateWindow(size, 1)
        # A window costs `size` rows and one starts every tick: what can be served is 1 / size.
        for name, keep in (("append", 1.0), ("random window shedding", 1 / size)):
            queue = AppendWindows(window, 1, keep, np.random.default_rng(0))
            yield _measure(queue, size, ticks, "slide 1", name)


def make_windows(size: int, slide: int, rule: str, keys: int) -> WindowQueue:
    blocks = keys * (2 * -(-(2 * size + slide) // 8) + 4)
    memory = PagedMemory(PagePool(-(-blocks // 4), 4))
    queue = make_window_queue(UpdateWindow(size, slide), rule, memory, make_schedule("in-place"))
    queue.grow(keys)
    return queue


def _measure(
    queue: WindowQueue | AppendWindows, size: int, ticks: int, panel: str, name: str
) -> Line:
    times = np.arange(1, ticks)
    served: SteppedQueue = queue
    run_windows(served, Workload(times, np.zeros(ticks - 1, np.int64), 1), times, 1, until=ticks)
    value = float(queue.application_area(ticks).sum()) / ticks
    return point("upstream-13", f"{name},{panel}", size, f"staleness, {panel}", value, "ticks")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="window size", log_y=True)

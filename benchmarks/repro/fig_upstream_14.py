"""EAGER over LAZY windows for ten keys and several arrival patterns (update queues, figure 14).

EAGER falls below LAZY for even skews (Zipf 0 and 0.5) from about ten rows a window on: its gaps
cost a time that does not grow with the window, what it saves does. The document's figure ends
before.

AUTO tries both rules on the latest rows in virtual time and follows the better one
(`window_choice`). It is measured at the figure's load of one row for each cost of a row, and at a
quarter, a half, two and five times that, where which rule is better changes: at a quarter EAGER is
4 to 300 times staler, since it leaves out the windows that close while it waits for the one it has
begun. A run includes the time before the first trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.fig_upstream_13 import make_windows
from thalweg.freshness._arrays import Ints
from thalweg.freshness.simulation import Workload, run_windows, zipf_shares

TITLE = "Application staleness, ten keys, slide 1, cost 1, in-place"
SIZES = (2, 3, 4, 5, 7, 10, 20, 50)
KEYS = 10
COST = 100
"""Ticks that a row costs: rows come every tick at load 100."""


def series(scale: float) -> Iterator[Line]:
    """One row for each cost of a row, over all keys; then other loads, for fewer sizes."""
    rows = max(2_000, int(20_000 * scale))
    for load, sizes in ((1.0, SIZES), *((load, (2, 5, 20)) for load in (0.25, 0.5, 2.0, 5.0))):
        for name, keys in patterns(rows, seed=0).items():
            for size in sizes:
                stale = {rule: staleness(rule, keys, size, load) for rule in RULES}
                better = min(stale["eager"], stale["lazy"])
                for metric, value in (
                    ("EAGER / LAZY", stale["eager"] / stale["lazy"]),
                    ("AUTO / better of both", stale["auto"] / better),
                ):
                    yield point("upstream-14", name, size, metric, value, "", load=load)


RULES = ("eager", "lazy", "auto")


def patterns(rows: int, seed: int) -> dict[str, Ints]:
    """The key of each row."""
    random = np.random.default_rng(seed)
    found: dict[str, Ints] = {
        f"zipf {skew}": random.choice(KEYS, rows, p=zipf_shares(KEYS, skew))
        for skew in (0.0, 0.5, 0.9)
    }
    found["regular order"] = np.arange(rows) % KEYS
    return found


def staleness(rule: str, keys: Ints, size: int, load: float) -> float:
    """The area under the staleness of all keys. The source time of a key counts its own rows, so
    that gaps are gaps of arrival: a key's window holds as many rows as its size whatever the other
    keys do."""
    source = np.empty(len(keys), np.int64)
    for key in range(KEYS):
        mine = keys == key
        source[mine] = np.arange(1, int(mine.sum()) + 1)
    times = (np.arange(1, len(keys) + 1) * COST / load).astype(np.int64)
    queue = make_windows(size, 1, rule, KEYS)
    until = int(times[-1])
    run_windows(queue, Workload(times, keys, KEYS), source, COST, until=until)
    return float(queue.application_area(until).sum())


def draw(lines: Iterable[Line], path: Path) -> None:
    """The figure of the document: one row for each cost of a row."""
    shown = [line for line in lines if line.params["load"] == 1.0]
    draw_series(shown, path, title=TITLE, x="window size", log_x=True)

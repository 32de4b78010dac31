"""EAGER over LAZY windows for ten keys and several arrival patterns (update queues, figure 14).

EAGER falls below LAZY for even skews (Zipf 0 and 0.5) from about ten rows a window on: its gaps cost
a time that does not grow with the window, what it saves does. The document's figure ends before.

The constants of AUTO were found on this figure, and do not generalise. On other seeds at this load
(2,500 rows, warm-up included) it is up to 1.65 times as stale as the better rule where windows are
small and keys skewed (Zipf 0.9). At half the load it is two to three times staler for skewed keys,
and three to fourteen times for windows of two rows, where both are a few hundredths of a tick: there
the choice depends on what the server does in between, which gaps do not show. Measuring both rules
in turn instead gave mixed results. Where it matters, name the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.fig_upstream_13 import make_windows
from thalweg.freshness.simulation import Workload, run_windows, zipf_shares

TITLE = "Application staleness, ten keys, slide 1, cost 1, in-place"
SIZES = (2, 3, 4, 5, 7, 10, 20, 50)
KEYS = 10


def series(scale: float) -> Iterator[Line]:
    """One row a tick over all keys. The source time of a key counts its own rows, so that gaps are
    gaps of arrival: a key's window holds as many rows as its size whatever the other keys do."""
    rows = max(2_000, int(20_000 * scale))
    random = np.random.default_rng(0)
    patterns = {
        f"zipf {skew}": random.choice(KEYS, rows, p=zipf_shares(KEYS, skew))
        for skew in (0.0, 0.5, 0.9)
    }
    patterns["regular order"] = np.arange(rows) % KEYS
    for name, keys in patterns.items():
        load = Workload(np.arange(1, rows + 1), keys, KEYS)
        source = np.empty(rows, np.int64)
        for key in range(KEYS):
            source[keys == key] = np.arange(1, int((keys == key).sum()) + 1)
        for size in SIZES:
            stale = {}
            for rule in ("eager", "lazy", "auto"):
                queue = make_windows(size, 1, rule, KEYS)
                run_windows(queue, load, source, 1, until=rows)
                stale[rule] = float(queue.application_area(rows).sum())
            ratio = stale["eager"] / stale["lazy"]
            yield point("upstream-14", name, size, "EAGER / LAZY", ratio, "")
            best = stale["auto"] / min(stale["eager"], stale["lazy"])
            yield point("upstream-14", name, size, "AUTO / better of both", best, "")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="window size", log_x=True)

"""Execution time with panes over execution time without, for a sliding maximum.

Tuples a pane and panes a window vary; both sides are the engine, once with `using("panes")`, once
with `using("wid")`, less the time of passing the rows through. Processor time, the best of some
rounds that take turns.

Changed: the time of passing rows through is taken off, of which the thesis says nothing; windows go
by time, and tuples come at even distances.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import thalweg as tw
from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.fig_6_10 import batches_of
from benchmarks.repro.streams import in_order
from thalweg.model.batch import Batch

TITLE = "Sliding maximum: time with panes / time without"
TUPLES, PANES = (5, 10, 20, 50, 100), (2, 5, 10, 20)
BATCH = 100_000
ROUNDS = 4


def _seconds(query: tw.Stream, batches: list[Batch]) -> float:
    engine = tw.Engine(query, consistency="final")
    begin = time.process_time()
    for batch in batches:
        engine.push("rows", batch)
    return time.process_time() - begin


def series(scale: float) -> Iterator[Line]:
    data = in_order(max(int(1_000_000 * scale), 20_000), rate=1_000)
    batches = batches_of(data, BATCH)
    rows = tw.source("rows", {"value": "int64"}, insert_only=True)
    for panes in PANES:
        for tuples in TUPLES:
            slide = tuples * 1_000
            windows = rows.sliding(slide * panes, slide)
            with_, without = (
                windows.using(strategy).aggregate(most=tw.max_("value"))
                for strategy in ("panes", "wid")
            )
            best = {"scan": math.inf, "panes": math.inf, "wid": math.inf}
            for _ in range(ROUNDS):
                for name, query in (("scan", rows), ("panes", with_), ("wid", without)):
                    best[name] = min(best[name], _seconds(query, batches))
            ratio = (best["panes"] - best["scan"]) / (best["wid"] - best["scan"])
            seconds = round(best["wid"], 4)
            yield point(
                "6-15",
                f"{panes} panes a window",
                tuples,
                "time ratio",
                ratio,
                "x",
                panes=panes,
                wid_seconds=seconds,
            )


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="tuples a pane", log_x=True)

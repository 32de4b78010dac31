"""Memory of OA-Join and of an order-preserving, input-buffered join, by window (Q7-2).

Changed: as in 7-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.baselines.ordered_joins import InputBufferedJoin
from benchmarks.repro import Line, draw_series
from benchmarks.repro.fig_7_6 import WINDOWS_S, lines
from benchmarks.repro.ordered_plans import Count, count_pairs, out_of_order

TITLE = "Count of pairs of a sliding-window join (Q7-2): OA-Join against input buffering"


def series(scale: float) -> Iterator[Line]:
    for seconds in WINDOWS_S:
        count = Count(window_s=seconds, length_s=max(130, int(190 * scale)), counted_s=60)
        for name, result in (
            ("OA-Join", out_of_order(count)),
            ("OPIB-Join", count_pairs(count, InputBufferedJoin)),
        ):
            yield from (
                line
                for line in lines("7-7", name, seconds, result)
                if line.metric.startswith("memory")
            )


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="window (s)")

"""Memory, latency and run time of OA-Join and of an order-preserving, output-buffered join, by
window (Q7-2).

Pairs are counted in each minute, as in the thesis. Changed: links are synthetic, with a thousand
packets a second each, and one column is the key where the thesis compares addresses and ports.
Latency is the processor time from the punctuation that releases an answer; one run, not eight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.baselines.ordered_joins import OutputBufferedJoin
from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.ordered_plans import Count, Result, count_pairs, out_of_order

TITLE = "Count of pairs of a sliding-window join (Q7-2): OA-Join against output buffering"

WINDOWS_S = (1, 3, 5, 7, 9)


def series(scale: float) -> Iterator[Line]:
    for seconds in WINDOWS_S:
        count = Count(window_s=seconds, length_s=max(130, int(190 * scale)), counted_s=60)
        for name, result in (
            ("OA-Join", out_of_order(count)),
            ("OPOB-Join", count_pairs(count, OutputBufferedJoin)),
        ):
            yield from lines("7-6", name, seconds, result)


def lines(figure: str, name: str, x: int, result: Result) -> Iterator[Line]:
    yield point(figure, name, x, "memory of the plan", result.plan_bytes, "B", level="system")
    yield point(figure, name, x, "memory of the join", result.join_bytes, "B", level="engine")
    yield point(figure, name, x, "latency", result.latency_s, "s", level="system")
    yield point(
        figure, name, x, "run time", result.seconds, "s", level="system", pairs=result.pairs
    )


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="window (s)")

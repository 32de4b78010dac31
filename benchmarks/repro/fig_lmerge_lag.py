"""Throughput of LMerge by the lag of its slower inputs (section VI-C3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.merge_streams import SCHEMA, forms, make_merge, play

TITLE = "Throughput of LMerge, increasing lag"
INPUTS = 4


def series(scale: float) -> Iterator[Line]:
    streams = forms(
        max(int(100_000 * scale), 4_000), INPUTS, disorder=0.2, live=int(10_000 * min(1, scale * 5))
    )
    for lag in (0, 1, 10, 50, 100, 200):
        run = play(make_merge("R3+", SCHEMA, INPUTS), streams, lag=lag)
        yield point("lmerge-lag", "R3+", lag * 100, "input", run.input_rate, "elements/s")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="elements that each input is behind the one before")

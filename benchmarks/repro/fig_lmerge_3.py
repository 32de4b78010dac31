"""Throughput of LMerge over ordered streams, by the number of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.fig_lmerge_2 import INPUTS, MERGES
from benchmarks.repro.merge_streams import SCHEMA, forms, make_merge, play

TITLE = "Throughput of LMerge, ordered streams"


ROUNDS = 3
"""The cheap merges are near each other: they run in turns, and the best of each counts, since other
work only ever slows down. The first to read a stream pays for it, so that nobody's first is
alone."""
NEAR = ("R0", "R1", "R2", "R3+")


def series(scale: float) -> Iterator[Line]:
    for inputs in INPUTS:
        streams = forms(
            max(int(200_000 * scale), 2_000), inputs, live=int(10_000 * min(1, scale * 5))
        )
        rates = dict.fromkeys(MERGES, 0.0)
        for turn in range(ROUNDS):
            for name in MERGES if turn == 0 else NEAR:
                run = play(make_merge(name, SCHEMA, inputs), streams)
                rates[name] = max(rates[name], run.output_rate)
        for name, rate in rates.items():
            yield point("lmerge-3", name, inputs, "output", rate, "elements/s")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="inputs", log_y=True)

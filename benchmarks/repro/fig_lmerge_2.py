"""Memory of LMerge over ordered streams, by the number of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.merge_streams import SCHEMA, forms, make_merge, play

TITLE = "Memory of LMerge, ordered streams"
INPUTS = (2, 4, 6, 8, 10)
MERGES = ("R0", "R1", "R2", "R3+", "R3-", "R4")


def series(scale: float) -> Iterator[Line]:
    for inputs in INPUTS:
        streams = forms(
            max(int(200_000 * scale), 2_000), inputs, live=int(10_000 * min(1, scale * 5))
        )
        for name in MERGES:
            run = play(make_merge(name, SCHEMA, inputs), streams)
            yield point("lmerge-2", name, inputs, "memory", run.mean_bytes / 2**20, "MiB")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="inputs", log_y=True)

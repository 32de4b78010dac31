"""Memory and throughput of LMerge, by how often CTIs come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.merge_streams import SCHEMA, forms, make_merge, play
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS

TITLE = "LMerge, increasing StableFreq"
INPUTS = 3
BATCH = 50
"""Elements come in batches of this size whatever the CTIs, so that only these differ."""


def series(scale: float) -> Iterator[Line]:
    count = max(int(200_000 * scale), 4_000)
    fine = forms(count, 1, stable=1 / BATCH, live=int(10_000 * min(1, scale * 5)))[0]
    for percent in (0.001, 0.01, 0.1, 1.0):
        every = max(1, round(100 / percent / BATCH))
        stream: list[Batch] = [
            batch
            if number % every == every - 1 or number == len(fine) - 1
            else batch.with_progress(NO_PROGRESS)
            for number, batch in enumerate(fine)
        ]
        for name in ("R0", "R1", "R2", "R3+", "R4"):
            run = play(make_merge(name, SCHEMA, INPUTS), [stream] * INPUTS)
            yield point("lmerge-5", name, percent, "memory", run.mean_bytes / 2**20, "MiB")
            yield point("lmerge-5", name, percent, "output", run.output_rate, "elements/s")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="StableFreq, %", log_x=True, log_y=True)

"""Enforcing order before merging: memory, throughput and latency of Cleanse + R1 against R3+.

Latency is in the time of the data: how far the stream has gone on, at the moment a row comes out,
since the moment it first came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.merge_streams import SCHEMA, forms, make_merge, play
from thalweg.model.batch import Batch

TITLE = "Enforcing stream properties: Cleanse + R1 against R3+"


def series(scale: float) -> Iterator[Line]:
    count = max(int(200_000 * scale), 4_000)
    live = int(10_000 * min(1, scale * 5))
    for inputs in (2, 4, 6, 8, 10):
        streams = forms(count, inputs, disorder=0.5, stable=0.001, live=live)
        for name in ("R3+", "R3-", "C+R1"):
            run = play(make_merge(name, SCHEMA, inputs), streams)
            yield point("lmerge-6", name, inputs, "memory", run.mean_bytes / 2**20, "MiB")
            yield point("lmerge-6", name, inputs, "output", run.output_rate, "elements/s")
        for name in ("R3+", "C+R1"):
            late = _latency(name, streams[0])
            yield point("lmerge-6", name, inputs, "mean latency", late / 1e6, "s of data")


def _latency(name: str, stream: list[Batch]) -> float:
    """The mean latency of the inserts that come out of a merge of two copies of a stream."""
    merge = make_merge(name, SCHEMA, 2)
    clock, total, rows = 0, 0.0, 0
    arrived: dict[int, int] = {}
    for batch in stream:
        clock = max(clock, int(batch.start.max()))
        for start in batch.start.tolist():
            arrived.setdefault(start, clock)
        for port in (0, 1):
            out = merge.process(port, batch)
            inserts = out.start if out.is_adjust is None else out.start[~out.is_adjust]
            came = np.array([arrived[start] for start in inserts.tolist()])
            total += float((clock - came).sum()) if len(came) else 0.0
            rows += len(came)
    return total / max(rows, 1)


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="inputs", log_y=True)

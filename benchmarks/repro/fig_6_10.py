"""Execution time of a sliding maximum over rows, by RANGE/SLIDE.

The maximum of the last 4000 rows, every 1 to 4000 rows, over ordered data. Processor time, median
of the rounds. The lines:

    scan        the engine passes the rows through
    buffering   a NumPy buffer; every extent is reduced when it ends (`baselines.buffering`). No
                engine around it: no batches, no promises, no late rows
    engine      windows over row numbers in the in-process engine, each row held once and each
                window answered by range queries over them: not the thesis's WID
    WID         window ids as in the thesis: a partial result for each window of each row, over a
                time that is the row number; left out where a run takes minutes (SLIDE < 40)

Changed: the thesis's buffering and WID run inside the same engine, in the same language; here
buffering is bare NumPy, the fastest form of the idea. It is ahead at every ratio of the figure: a
vectorised scan of 4000 values costs less than a step of any engine. Its line grows with RANGE/SLIDE
(about a hundredfold from 1 to 4000), that of the engine about twofold, so that they would cross
beyond it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median

import pyarrow as pa

import thalweg as tw
from benchmarks.baselines.buffering import BufferedMaximum
from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.streams import SECOND, Arrivals, in_order
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress

TITLE = "Sliding maximum over 4000 rows: execution time by RANGE/SLIDE"
RANGE = 4_000
SLIDES = (1, 2, 5, 10, 40, 100, 400, 1_000, 4_000)
BATCH = 20_000
ROUNDS = 3
LONG = 2.0
"""Seconds above which one round is enough."""


def batches_of(data: Arrivals, size: int = BATCH) -> list[Batch]:
    """Cut into batches, each with a promise for all before it."""
    rows = pa.RecordBatch.from_pydict({"value": data.value})
    found = []
    for at in range(0, len(data), size):
        ts = data.ts[at : at + size]
        found.append(Batch(rows.slice(at, size), ts, ts + 1, progress=Progress(int(ts[-1]) + 1)))
    return found


def _engine(query: tw.Stream, batches: list[Batch]) -> int:
    engine = tw.Engine(query, consistency="final")
    out = [batch for one in batches for batch in engine.push("rows", one)]
    return sum(map(len, out))


def _buffering(batches: list[Batch], slide: int) -> int:
    buffer = BufferedMaximum(RANGE, slide)
    values = (batch.payload.column("value").to_numpy() for batch in batches)
    return sum(len(buffer.process(part)) for part in values)


def by_number(rows: tw.Stream, slide: int) -> tw.Stream:
    """The line `engine`."""
    return rows.sliding(RANGE, slide, over=tw.rows()).aggregate(most=tw.max_("value"))


def by_window_id(rows: tw.Stream, slide: int) -> tw.Stream:
    """The line `WID`."""
    return rows.sliding(RANGE, slide).using("wid").aggregate(most=tw.max_("value"))


def series(scale: float) -> Iterator[Line]:
    data = in_order(
        max(int(30_000 * scale), 2 * RANGE), rate=SECOND
    )  # the time of a row is its number
    batches = batches_of(data)
    rows = tw.source("rows", {"value": "int64"}, insert_only=True)

    cases: dict[str, tuple[Callable[[int], int], list[int]]] = {
        "scan": (lambda _: _engine(rows, batches), [*SLIDES]),
        "buffering": (lambda slide: _buffering(batches, slide), [*SLIDES]),
        "engine": (lambda slide: _engine(by_number(rows, slide), batches), [*SLIDES]),
        "WID": (
            lambda slide: _engine(by_window_id(rows, slide), batches),
            [slide for slide in SLIDES if slide >= 40],
        ),
    }
    for name, (run, slides) in cases.items():
        for slide in slides:
            seconds: list[float] = []
            answers = 0
            for _ in range(ROUNDS):
                begin = time.process_time()
                answers = run(slide)
                seconds.append(time.process_time() - begin)
                if seconds[-1] > LONG:
                    break
            yield point(
                "6-10",
                name,
                RANGE / slide,
                "execution time",
                median(seconds),
                "s",
                slide=slide,
                rows=len(data),
                answers=answers,
            )


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="RANGE / SLIDE", log_x=True, log_y=True)

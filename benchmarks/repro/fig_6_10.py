"""Execution time of a sliding maximum over rows: buffering grows with RANGE/SLIDE, window ids do
not.

The maximum of the last 4000 rows, every 1 to 4000 rows, over ordered data. `engine` is the whole
in-process engine with windows over row numbers; `WID, window by window` keeps a partial result for
each window of each row, as the first implementation did, and is only run where that is bearable;
`scan` is the engine passing the rows through. Processor time, median of the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median

import pyarrow as pa

import thalweg as tw
from benchmarks.baselines.buffering import BufferedRows
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
    buffer = BufferedRows(tw.max_("value"), batches[0].schema, RANGE, slide)
    return sum(len(answers) for batch in batches for answers in buffer.process(batch.payload))


def series(scale: float) -> Iterator[Line]:
    data = in_order(
        max(int(30_000 * scale), 2 * RANGE), rate=SECOND
    )  # the time of a row is its number
    batches = batches_of(data)
    rows = tw.source("rows", {"value": "int64"}, insert_only=True)

    def numbered(slide: int) -> int:
        return _engine(
            rows.sliding(RANGE, slide, over=tw.rows()).aggregate(most=tw.max_("value")), batches
        )

    def one_by_one(slide: int) -> int:
        return _engine(
            rows.sliding(RANGE, slide).using("wid").aggregate(most=tw.max_("value")), batches
        )

    cases: dict[str, tuple[Callable[[int], int], list[int]]] = {
        "scan": (lambda _: _engine(rows, batches), [*SLIDES]),
        "buffering": (lambda slide: _buffering(batches, slide), [*SLIDES]),
        "engine": (numbered, [*SLIDES]),
        "WID, window by window": (one_by_one, [slide for slide in SLIDES if slide >= 100]),
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

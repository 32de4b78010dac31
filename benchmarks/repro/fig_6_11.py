"""Latency and accuracy under band disorder: punctuation beside slack, consistent and generous.

The average over 64 s, every 6.4 s; tuples come up to 3.2 s after their time. Slack of 0 to 3.2 s.
The error is the distance from the true average as a percentage of it, averaged over all extents.
The latency of an answer runs from the arrival of the punctuation that covers its extent to the
answer: the time of the stream that passes until then, none if it came before, and the time that
computing it took.

Changed: the tuples are synthetic, with the disorder of the thesis; buffering with slack is
vectorised (`baselines.slack`) and stands outside of the engine, as in 6-10.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

import thalweg as tw
from benchmarks.baselines.slack import buffering_with_slack, extents_of
from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.streams import MS, SECOND, Arrivals, Numbers, band_disorder

TITLE = "Average over 64 s by 6.4 s, band disorder up to 3.2 s: error by latency"
RANGE, SLIDE = 64 * SECOND, 6_400 * MS
SLACKS = (0, 320, 640, 1_280, 2_560, 3_200)
"""In milliseconds; the last one is the largest disorder there is."""


def truth(data: Arrivals, range_: int, slide: int) -> tuple[Numbers, Numbers]:
    """Count and sum of each extent, over all that ever came."""
    ends = extents_of(data, range_, slide)
    order = np.argsort(data.ts, kind="stable")
    ts, upto = data.ts[order], np.concatenate([np.zeros(1, np.int64), np.cumsum(data.value[order])])
    lo, hi = np.searchsorted(ts, ends - range_), np.searchsorted(ts, ends)
    return hi - lo, upto[hi] - upto[lo]


def covered_at(data: Arrivals, slide: int, ends: Numbers) -> Numbers:
    """The clock when the punctuation arrives that covers each extent."""
    at, promise = data.punctuation(slide)
    which = np.minimum(np.searchsorted(promise, ends, side="left"), len(at) - 1)
    return data.clock[at[which]]


def with_punctuation(
    data: Arrivals, range_: int, slide: int
) -> tuple[dict[int, tuple[int, int]], list[float]]:
    """Answers of the engine by the end of their extent, and the seconds from a punctuation to its
    answers."""
    stream = tw.source("s", {"value": "int64"}, insert_only=True)
    query = stream.sliding(range_, slide).aggregate(n=tw.count(), total=tw.sum_("value"))
    engine = tw.Engine(query, consistency="final")
    found: dict[int, tuple[int, int]] = {}
    seconds = []
    for batch in data.batches(slide):
        rows, promise = (
            batch.with_progress(tw.Progress()),
            tw.Batch.empty(batch.schema, batch.progress),
        )
        engine.push("s", rows)
        begin = time.perf_counter()
        out = engine.push("s", promise)
        seconds.append(time.perf_counter() - begin)
        for answer in out:
            columns = (
                answer.end.tolist(),
                answer.payload.column("n").to_pylist(),
                answer.payload.column("total").to_pylist(),
            )
            found |= {end: (n, total) for end, n, total in zip(*columns, strict=True)}
    return found, seconds


def series(scale: float) -> Iterator[Line]:
    data = band_disorder(max(int(200_000 * scale), 20_000))
    ends = extents_of(data, RANGE, SLIDE)
    count, total = truth(data, RANGE, SLIDE)
    right = total / count
    covered = covered_at(data, SLIDE, ends)
    found, seconds = with_punctuation(data, RANGE, SLIDE)
    answers = np.array([found[end][1] / found[end][0] for end in ends.tolist()])
    error = float(np.mean(np.abs(answers - right) / right)) * 100
    yield point("6-11", "punctuation", 0, "error", error, "%", slack_ms=0)
    yield point(
        "6-11", "punctuation", 0, "latency", float(np.mean(seconds)) * 1000, "ms", slack_ms=0
    )
    for consistent in (True, False):
        name = "consistent slack" if consistent else "generous slack"
        for slack in SLACKS:
            given = buffering_with_slack(data, RANGE, SLIDE, slack * MS, consistent=consistent)
            average = given.total / np.maximum(given.count, 1)
            error = float(np.mean(np.abs(average - right) / right)) * 100
            clock = data.clock[np.minimum(given.answered, len(data) - 1)]
            waiting = np.maximum(clock - covered, 0)
            latency = float(np.mean(waiting)) / 1000 + float(np.mean(given.seconds)) * 1000
            yield point("6-11", name, slack, "error", error, "%", slack_ms=slack)
            yield point("6-11", name, slack, "latency", latency, "ms", slack_ms=slack)


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="slack (ms)")

"""Streams with adjusts: a count by group over disordered events, as queries make them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import thalweg as tw
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY

__all__ = ["COUNTS", "revised_counts"]

EVENTS = tw.source("events", {"x": "int64"})
WINDOW = 200
COUNTS = EVENTS.group_by("x").tumbling(WINDOW).aggregate(n=tw.count())


def revised_counts(
    count: int, disorder: float, *, stable: float = 0.01, seed: int = 7, form: int = 0
) -> list[Batch]:
    """The answers to one stream of events in the order of arrival of one form of it."""
    random = np.random.default_rng(seed)
    start = np.cumsum(random.integers(0, 3, count))
    key = random.integers(0, 20, count)
    own = np.random.default_rng((seed, form))
    late = np.where(own.random(count) < disorder, own.integers(0, 3 * WINDOW, count), 0)
    order = np.argsort(start + late, kind="stable")
    start, key = start[order], key[order]
    later = np.minimum.accumulate(start[::-1])[::-1]
    engine = tw.Engine(COUNTS)
    size = max(1, round(1 / stable))
    out: list[Batch] = []
    for at in range(0, count, 10):  # answers are early: ten events at a time
        end = min(at + 10, count)
        promise = int(later[end]) if end % size == 0 and end < count else None
        rows = pa.RecordBatch.from_pydict({"x": key[at:end]})
        begins = start[at:end]
        progress = Progress() if promise is None else Progress(promise)
        if end == count:
            progress = Progress(INFINITY)
        out += engine.push("events", Batch(rows, begins, begins + 1, progress=progress))
    return out

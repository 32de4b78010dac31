"""Host: queries that run together, beside queries that run apart.

    together   rows a second of ten queries (filters and windows by key over one source), in one host and as ten queries of their own;
               `ratio` is the first over the second
    shared     the time of a batch of a hundred queries that share a filter, over that of one query
    added      the time to add the hundredth query while the others run

In-process, in processor time, in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np
import pyarrow as pa

import thalweg as tw
from thalweg.cli.bench import Emit
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress

__all__ = ["run"]

COLUMNS = {"key": "int64", "value": "int64"}
SPAN = 1_000
"""Ticks that a batch covers."""
KEYS = 100


def queries(events: tw.Stream, count: int) -> dict[str, tw.Stream]:
    """Counts and sums by key of the same rows, over windows of different lengths."""
    kept = events.where("value > 10")
    return {
        f"q{number}": kept.group_by("key")
        .tumbling(200 + 10 * number)
        .aggregate(n=tw.count(), total=tw.sum_("value"))
        for number in range(count)
    }


def batch_of(number: int, rows: int) -> Batch:
    """One batch, and the promise that all of its time has come."""
    rng = np.random.default_rng(number)
    start = number * SPAN + np.arange(rows) * SPAN // rows
    payload = pa.RecordBatch.from_pydict(
        {"key": rng.integers(0, KEYS, rows), "value": rng.integers(0, 100, rows)}
    )
    return Batch(payload, start, start + 1, progress=Progress((number + 1) * SPAN))


def run(emit: Emit, *, rows: int = 50_000, batches: int = 8) -> None:
    given = [batch_of(number, rows) for number in range(batches)]
    events = tw.source("events", COLUMNS, insert_only=True)
    ten, hundred = queries(events, 10), queries(events, 100)
    engines = [tw.Engine(query) for query in ten.values()]
    together, one, all_ = _host(ten), _host(queries(events, 1)), _host(hundred, but=1)

    def apart(batch: Batch) -> None:
        for engine in engines:
            engine.push("events", batch)

    runs: dict[str, Callable[[Batch], object]] = {
        "apart": apart,
        "together": lambda batch: together.push("events", batch),
        "one": lambda batch: one.push("events", batch),
        "hundred": lambda batch: all_.push("events", batch),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for batch in given:
        for name, push in runs.items():
            begin = time.process_time()
            push(batch)
            seconds[name].append(time.process_time() - begin)
    typical = {name: median(several[1:]) for name, several in seconds.items()}
    together_s, apart_s = typical["together"], typical["apart"]
    emit("together", rows / together_s, "rows/s", queries="ten in a host")
    emit("together", rows / apart_s, "rows/s", queries="ten apart")
    emit("together", apart_s / together_s, "ratio")
    emit("shared", typical["hundred"] / typical["one"], "of the time of one", queries=100)
    begin = time.process_time()
    all_.add("q99", hundred["q99"], partial=True)
    emit("added", 1e3 * (time.process_time() - begin), "ms", queries=100)


def _host(these: Mapping[str, tw.Stream], but: int = 0) -> tw.Host:
    host = tw.Host()
    for name in list(these)[: len(these) - but]:
        host.add(name, these[name], partial=True)
    return host

"""Host: queries that run together, beside queries that run apart.

    together   rows a second of ten queries (filters and windows by key over one source), in one
               host and as ten queries of their own; `ratio` is the first over the second (goal 3 on
               Spark)
    shared     the time of a batch of a hundred queries that share a filter, over that of one query
               (goal 4 on Spark)
    added      the time to add the hundredth query while the others run
    under load with `-o rate=50000`, on Spark: the hundredth query is added and fifty are removed
               while so many rows a second come (see `host_under_load`); each phase is `seconds`
               long. Goals: 2 micro-batches, a gap of 2, all tables

In-process by default, in processor time, in turns. With `-o spark=True` the same on Spark, in one
session on the same cores: the median time of the micro-batches after a warm-up; queries apart run
at the same time, as users start them.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from benchmarks._own_process import call
from thalweg.cli.bench import Emit
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress

__all__ = ["measure_spark", "run"]

COLUMNS = {"key": "int64", "value": "int64"}
SPAN = 1_000
"""Ticks that a batch covers."""
KEYS = 100
UNITS = {
    "rows": "rows",
    "seconds that rows came late": "s",
    "micro-batch": "s",
    "until it counts": "micro-batches",
    "tables that are right": "tables",
    "tables": "tables",
}
"""Of what is measured under load; the others are ratios."""


def queries(events: tw.Stream, count: int) -> dict[str, tw.Stream]:
    """Counts and sums by key of the same rows, over windows of different lengths."""
    kept = events.where("value > 10")
    return {
        f"q{number}": (
            kept.group_by("key")
            .tumbling(200 + 10 * number)
            .aggregate(n=tw.count(), total=tw.sum_("value"))
        )
        for number in range(count)
    }


def rows_of(number: int, rows: int) -> pa.Table:
    """The rows of one batch."""
    rng = np.random.default_rng(number)
    ts = number * SPAN + np.arange(rows) * SPAN // rows
    return pa.table(
        {"ts": ts, "key": rng.integers(0, KEYS, rows), "value": rng.integers(0, 100, rows)}
    )


def run(
    emit: Emit,
    *,
    rows: int = 50_000,
    batches: int = 8,
    spark: bool = False,
    memory: str = "4g",
    rate: int = 0,
    seconds: float = 20.0,
) -> None:
    _in_process(emit, rows, batches)
    if spark:
        found = call("benchmarks.host:measure_spark", rows=rows, batches=batches, memory=memory)
        apart, together = found["apart"], found["together"]
        _report(emit, "spark", rows, apart, together, found["one"], found["hundred"])
    if rate:
        changed = call("benchmarks.host_under_load:measure_changes", rate=rate, seconds=seconds)
        for metric, value in changed.items():
            emit(f"under load: {metric}", value, UNITS.get(metric, "x"), engine="spark", rate=rate)


def _report(
    emit: Emit, engine: str, rows: int, apart: float, together: float, one: float, hundred: float
) -> None:
    emit("together", rows / together, "rows/s", engine=engine, queries="ten in a host")
    emit("together", rows / apart, "rows/s", engine=engine, queries="ten apart")
    emit("together", apart / together, "ratio", engine=engine)
    emit("shared", hundred / one, "of the time of one", engine=engine, queries=100)


# ------------------------------------------------------------------------------------------------
# in-process


def _in_process(emit: Emit, rows: int, count: int) -> None:
    given = []
    for number in range(count):
        table = rows_of(number, rows)
        payload = table.select(["key", "value"]).combine_chunks().to_batches()[0]
        ts = table.column("ts").to_numpy()
        given.append(Batch(payload, ts, ts + 1, progress=Progress((number + 1) * SPAN)))
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
    _report(
        emit, "in-process", rows, *(typical[n] for n in ("apart", "together", "one", "hundred"))
    )
    begin = time.process_time()
    all_.add("q99", hundred["q99"], partial=True)
    emit("added", 1e3 * (time.process_time() - begin), "ms", engine="in-process", queries=100)


def _host(these: Mapping[str, tw.Stream], but: int = 0) -> tw.Host:
    host = tw.Host()
    for name in list(these)[: len(these) - but]:
        host.add(name, these[name], partial=True)
    return host


# ------------------------------------------------------------------------------------------------
# Spark


def measure_spark(*, rows: int, batches: int, memory: str) -> dict[str, float]:
    """Median seconds of a micro-batch: ten queries apart and in a host, one and a hundred in a
    host."""
    from thalweg import spark as ts

    folder = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
    ts.session(spark__driver__memory=memory)
    try:
        return _measure(folder, rows, batches)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(folder: Path, rows: int, batches: int) -> dict[str, float]:
    from thalweg import spark as ts

    (folder / "events").mkdir()
    for number in range(batches):
        pq.write_table(rows_of(number, rows), folder / "events" / f"{number:05}.parquet")
    schema = pa.schema([("ts", pa.int64()), *((name, pa.int64()) for name in COLUMNS)])

    def events() -> tw.Stream:
        return ts.from_files(
            str(folder / "events"),
            time="ts",
            columns=schema,
            disorder=0,
            files_per_batch=1,
            name="events",
        )

    def hosted(count: int) -> list[float]:
        host = ts.host(events(), checkpoint=str(folder / f"host-{count}"))
        host.add_all(queries(events(), count), to="noop", partial=True)
        host.start("available now").wait()
        return _seconds(host.query)

    found = {"one": _typical(hosted(1)), "together": _typical(hosted(10))}
    found["hundred"] = _typical(hosted(100))
    running = [
        ts.start(
            query, to="noop", checkpoint=str(folder / f"apart-{name}"), trigger="available now"
        )
        for name, query in queries(events(), 10).items()
    ]
    for query in running:
        query.wait()
    found["apart"] = median(_typical(_seconds(query.query)) for query in running)
    return found


def _seconds(query: Any) -> list[float]:
    """Of each micro-batch that had input."""
    return [
        entry["durationMs"]["triggerExecution"] / 1_000
        for entry in query.recentProgress
        if entry["numInputRows"]
    ]


def _typical(seconds: list[float]) -> float:
    return median(seconds[2:])

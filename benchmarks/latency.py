"""From a row being there to its answer in the sink, at a steady rate: ours, and Spark's own
aggregate.

A process of its own moves a small Parquet file into a folder every tenth of a second. Both queries
count rows per key and minute, and give the counts of open windows after every micro-batch (ours
`eager`, Spark's in update mode) to a function that writes them to a sink that throws them away. A
file's latency is the time from its rename until the function has written the micro-batch that holds
it. The clock starts when a query has answered, run for `warm_up` seconds and made ten
micro-batches: a JVM compiles what it runs for a hundred micro-batches and longer.

Each engine runs in a process of its own, which stays warm: the two are measured in turns, query by
query. Spark's own has as many partitions as cores and RocksDB with changelog checkpointing.
`micro_batch` is the median of what Spark says of its micro-batches, part by part; `work` the
processor time of one micro-batch, which a busy machine changes less.

`stateless` is a filter and a projection, which needs no state at all. `in-process` is the same
query without Spark, as what a single machine can have: rows are pushed, and their answers taken.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from benchmarks._data import make_events
from benchmarks._own_process import OwnProcess
from benchmarks._process_work import work_by_role
from benchmarks._spark_peer import peer_session
from thalweg import spark as ts
from thalweg.cli.bench import Emit

EVERY = 0.1
PATIENCE_S = 180.0
"""How long a query may take to answer the first time, or to answer what has come."""
WARM_BATCHES = 10
HEARD_S = 10.0
"""While a query warms up, how often it is asked about its micro-batches: it remembers the
newest."""
ENGINES = ("thalweg", "spark")
COLUMNS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("key", pa.int64()), ("value", pa.int64())])


def run(
    emit: Emit,
    *,
    rates: str = "1000,50000",
    queries: str = "count,stateless",
    seconds: float = 10.0,
    warm_up: float = 45.0,
    rounds: int = 1,
) -> None:
    """Each query at each rate, the engines in turns; about eight minutes in all as it is."""
    with OwnProcess() as ours, OwnProcess() as peer:
        engines = dict(zip(ENGINES, (ours, peer), strict=True))
        for query in queries.split(","):
            for rate in map(int, str(rates).split(",")):
                case: dict[str, Any] = {"query": query, "rows_per_s": rate}
                ratios: dict[str, list[float]] = {"p50": [], "p99": [], "work": []}
                for number in range(rounds):
                    found = {
                        engine: engines[engine].call(
                            "benchmarks.latency:measure",
                            engine=engine,
                            query=query,
                            rate=rate,
                            seconds=seconds,
                            warm_up=warm_up,
                        )
                        for engine in ENGINES[:: -1 if number % 2 else 1]
                    }
                    for engine in ENGINES:
                        _emit_engine(emit, engine, found[engine], case)
                    for name, all_rounds in ratios.items():
                        all_rounds.append(found["thalweg"][name] / found["spark"][name])
                for name, all_rounds in ratios.items():
                    emit("ratio_to_spark", median(all_rounds), "x", of=name, **case)
        for engine, process in engines.items():
            emit("error_lines", len(process.error_lines()), "lines", engine=engine)
        for rate in map(int, str(rates).split(",")):
            late = ours.call("benchmarks.latency:measure_in_process", rate=rate, files=200)
            for name, value in zip(("p50", "p99"), np.percentile(late, [50, 99]), strict=True):
                emit(f"latency_{name}", float(value), "s", engine="in-process", rows_per_s=rate)


def _emit_engine(emit: Emit, engine: str, found: dict[str, Any], case: dict[str, Any]) -> None:
    case = {"engine": engine, **case}
    emit("latency_p50", found["p50"], "s", **case)
    emit("latency_p99", found["p99"], "s", **case)
    emit("work", found["work"], "s", **case)
    for role, seconds in found["work_by_role"].items():
        emit("work", seconds, "s", of=role, **case)
    for part, milliseconds in found["parts"].items():
        emit("micro_batch", milliseconds, "ms", of=part, **case)


def measure(engine: str, query: str, rate: int, seconds: float, warm_up: float) -> dict[str, Any]:
    """One query at one rate, of one engine in this process."""
    if engine == "thalweg":
        spark, begin = ts.session(spark__driver__memory="4g"), _ours
    else:
        spark, begin = peer_session("rocksdb", "4g"), _spark
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    with _folder(rate) as place:
        run = _Run(place, max(1, int(rate * EVERY)))
        running = begin(spark, query, place / "events", str(place / "checkpoint"), run.sink)
        try:
            return run.watch(running, seconds, warm_up)
        finally:
            running.stop()


class _Run:
    """A query under way: when its micro-batches were answered, and what they held."""

    def __init__(self, place: Path, rows: int) -> None:
        self._place = place
        self._rows = rows
        self._answered: dict[int, float] = {}
        self._read: dict[int, int] = {}
        self._parts: dict[int, dict[str, int]] = {}

    def sink(self, answer: Any, batch: int) -> None:
        answer.write.format("noop").mode("append").save()
        self._answered[batch] = time.monotonic()

    def watch(self, running: Any, seconds: float, warm_up: float) -> dict[str, Any]:
        self._wait(running, lambda: bool(self._answered))
        warm = time.monotonic() + warm_up
        while time.monotonic() < warm or len(self._answered) < WARM_BATCHES:
            self._wait_until(running, min(warm, time.monotonic() + HEARD_S))
            self._hear(running)
        begin, first, work = time.monotonic(), len(self._answered), work_by_role(os.getpid())
        self._wait_until(running, begin + seconds)
        done = len(self._answered) - first
        work = Counter({role: now - work[role] for role, now in work_by_role(os.getpid()).items()})
        late = None
        while late is None:
            self._wait_for_batch(running, max(self._answered) + 2)
            self._hear(running)
            late = self._latencies(begin, begin + seconds)
        p50, p99 = np.percentile(late, [50, 99])
        by_role = {role: spent / max(done, 1) for role, spent in work.items()}
        return {
            "p50": float(p50),
            "p99": float(p99),
            "work": sum(by_role.values()),
            "work_by_role": by_role,
            "parts": self._median_parts(begin),
        }

    def _wait(self, running: Any, until: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE_S
        query = running.query if isinstance(running, ts.RunningQuery) else running
        while not until():
            if not query.isActive:
                raise RuntimeError(f"the query ended: {query.exception()}")
            if time.monotonic() > limit:
                raise RuntimeError(f"no answer to what came within {PATIENCE_S:.0f} s")
            time.sleep(0.2)

    def _wait_until(self, running: Any, when: float) -> None:
        self._wait(running, lambda: time.monotonic() > when)

    def _wait_for_batch(self, running: Any, number: int) -> None:
        self._wait(running, lambda: max(self._answered) >= number)

    def _hear(self, running: Any) -> None:
        """What has been said of micro-batches so far. Asking takes long: never while measuring."""
        query = running.query if isinstance(running, ts.RunningQuery) else running
        reports = query.recentProgress
        if running is query:
            self._read |= {entry.batchId: entry.numInputRows for entry in reports}
        else:
            figures = running.figures()
            self._read |= {batch: found.read for batch, found in figures.items()}
        self._parts |= {entry.batchId: dict(entry.durationMs) for entry in reports}

    def _latencies(self, begin: float, end: float) -> list[float] | None:
        """Of the files that came between two times; None: some have no answer yet. Micro-batches
        take files in order, and all files have the same number of rows."""
        arrivals = [float(line) for line in (self._place / "arrivals").read_text().split()]
        upto = np.cumsum([self._read[batch] for batch in sorted(self._read)]) // self._rows
        batches = sorted(self._read)
        found = []
        for number, at in enumerate(arrivals):
            if begin <= at < end:
                place = int(np.searchsorted(upto, number, side="right"))
                if place == len(batches) or batches[place] not in self._answered:
                    return None
                found.append(self._answered[batches[place]] - at)
        return found or None

    def _median_parts(self, begin: float) -> dict[str, float]:
        steady = [
            parts
            for batch, parts in self._parts.items()
            if self._answered.get(batch, 0.0) > begin and self._read.get(batch)
        ]
        names = dict.fromkeys(name for parts in steady for name in parts)
        return {name: median(parts.get(name, 0) for parts in steady) for name in names}


def _ours(
    spark: Any, kind: str, folder: Path, checkpoint: str, sink: Callable[[Any, int], None]
) -> Any:
    events = ts.from_files(
        str(folder), time="ts", disorder="1 min", late="drop", columns=COLUMNS, name="events"
    )
    return ts.start(
        _query(events, kind),
        to=sink,
        consistency="eager",
        checkpoint=checkpoint,
        progress=False,
        spark=spark,
    )


def _query(events: tw.Stream, kind: str) -> tw.Stream:
    if kind == "count":
        return events.group_by("key").tumbling("1 min").aggregate(n=tw.count())
    return events.where("value % 2 = 0").select("key", doubled="value * 2")


def _spark(
    spark: Any, kind: str, folder: Path, checkpoint: str, sink: Callable[[Any, int], None]
) -> Any:
    from pyspark.sql import functions as f

    rows = (
        spark.readStream.schema("ts timestamp, key long, value long")
        .parquet(str(folder))
        .withWatermark("ts", "60 seconds")
    )
    if kind == "count":
        answer = rows.groupBy(f.window("ts", "1 minute"), "key").count()
    else:
        answer = rows.where("value % 2 = 0").select("key", f.expr("value * 2 AS doubled"))
    writer = (
        answer.writeStream.foreachBatch(sink)
        .outputMode("update" if kind == "count" else "append")
        .option("checkpointLocation", checkpoint)
    )
    return writer.trigger(processingTime="0 seconds").start()


@contextlib.contextmanager
def _folder(rate: int) -> Iterator[Path]:
    """A folder `events` that files come into, and a file `arrivals` that says when."""
    place = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
    (place / "events").mkdir()
    (place / "arrivals").touch()
    producer = multiprocessing.get_context("spawn").Process(
        target=_produce, args=(place, rate), daemon=True
    )
    producer.start()
    try:
        yield place
    finally:
        producer.terminate()
        producer.join()
        shutil.rmtree(place, ignore_errors=True)


def _produce(place: Path, rate: int) -> None:
    """Move a file into the folder every tenth of a second, until this process is ended."""
    with (place / "arrivals").open("w") as arrivals:
        began = time.monotonic()
        for number, table in enumerate(_tables(rate)):
            pq.write_table(table, place / "next")
            time.sleep(max(0.0, began + number * EVERY - time.monotonic()))
            (place / "next").rename(place / "events" / f"{number:06}.parquet")
            arrivals.write(f"{time.monotonic()}\n")
            arrivals.flush()


def _tables(rate: int) -> Iterator[pa.Table]:
    """The rows of one tenth of a second after the other: a minute of events, again and again, each
    time a minute later."""
    rows = max(1, int(rate * EVERY))
    minute = make_events(rows * round(60 / EVERY), keys=1000, rate=rate).table
    start = minute.column("_start").to_numpy()
    later = 0
    while True:
        for begin in range(0, len(minute), rows):
            part = minute.slice(begin, rows)
            times = pa.array(start[begin : begin + rows] + later, pa.timestamp("us", "UTC"))
            yield pa.Table.from_arrays(
                [times, part.column("key"), part.column("value")], schema=COLUMNS
            )
        later += 60_000_000


def measure_in_process(rate: int, files: int) -> list[float]:
    """The latency of the rows of each file without Spark: from being in memory to their answers."""
    events = tw.source("events", COLUMNS, time="ts", disorder="1 min", late="drop")
    engine = tw.Engine(_query(events, "count"), consistency="eager")
    late = []
    for table in itertools.islice(_tables(rate), files):
        begin = time.monotonic()
        engine.push("events", table)
        late.append(time.monotonic() - begin)
    return late[files // 4 :]

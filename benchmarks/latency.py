"""From a row being there to its answer in the sink, at a steady rate: ours, and Spark's own
aggregate.

A thread moves small Parquet files into a folder, one every tenth of a second. Both queries count
rows per key and minute, and give the counts of open windows after every micro-batch (ours `eager`,
Spark's in update mode) to a function that writes them to a sink that throws them away. A file's
latency is the time from its rename until the function has written the micro-batch that holds it.
The first seconds are left out. Each engine runs in a process of its own; Spark's own has as many
partitions as cores and RocksDB with changelog checkpointing.

`stateless` is a filter and a projection, which needs no state at all.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from benchmarks._data import make_events
from benchmarks._own_process import call
from benchmarks._spark_peer import peer_session
from thalweg import spark as ts
from thalweg.cli.bench import Emit

EVERY = 0.1


def run(
    emit: Emit, *, rates: str = "1000,50000", seconds: float = 40.0, warm_up: float = 15.0
) -> None:
    """Each rate, one engine after the other."""
    for kind in ("count", "stateless"):
        for rate in map(int, str(rates).split(",")):
            found: dict[str, Any] = {}
            for engine in ("thalweg", "spark"):
                late = call(
                    "benchmarks.latency:measure",
                    engine=engine,
                    kind=kind,
                    rate=rate,
                    seconds=seconds,
                    warm_up=warm_up,
                )
                found[engine] = np.percentile(late, [50, 99])
                facts = {"engine": engine, "rows_per_s": rate, "query": kind}
                emit("latency_p50", float(found[engine][0]), "s", **facts)
                emit("latency_p99", float(found[engine][1]), "s", **facts)
            for name, value in zip(("p50", "p99"), found["thalweg"] / found["spark"], strict=True):
                emit(
                    "ratio_to_spark",
                    float(value),
                    "x",
                    rows_per_s=rate,
                    query=kind,
                    percentile=name,
                )


def measure(engine: str, kind: str, rate: int, seconds: float, warm_up: float) -> list[float]:
    """The latency of each file, of one engine in this process."""
    if engine == "thalweg":
        spark, begin = ts.session(spark__driver__memory="4g"), _ours
    else:
        spark, begin = peer_session("rocksdb", "4g"), _spark
    return _latencies(
        lambda folder, checkpoint, sink: begin(spark, kind, folder, checkpoint, sink),
        rate,
        seconds,
        warm_up,
    )


def _ours(
    spark: Any, kind: str, folder: Path, checkpoint: str, sink: Callable[[Any, int], None]
) -> Any:
    columns = pa.schema(
        [("ts", pa.timestamp("us", "UTC")), ("key", pa.int64()), ("value", pa.int64())]
    )
    events = ts.from_files(
        str(folder), time="ts", disorder="1 min", late="drop", columns=columns, name="events"
    )
    query = (
        events.group_by("key").tumbling("1 min").aggregate(n=tw.count())
        if kind == "count"
        else events.where("value % 2 = 0").select("key", doubled="value * 2")
    )
    return ts.start(
        query, to=sink, consistency="eager", checkpoint=checkpoint, progress=False, spark=spark
    )


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


def _latencies(begin: Callable[..., Any], rate: int, seconds: float, warm_up: float) -> list[float]:
    place = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
    folder = place / "events"
    folder.mkdir()
    rows = max(1, int(rate * EVERY))
    there: list[float] = []
    done: dict[int, float] = {}
    stop = threading.Event()
    events = make_events(rows * int((seconds + 60) / EVERY), keys=1000, rate=rate).table

    def produce() -> None:
        started = time.monotonic()
        for number in range(int((seconds + 60) / EVERY)):
            part = events.slice(number * rows, rows)
            times = part.column("_start").cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
            table = pa.table(
                {"ts": times, "key": part.column("key"), "value": part.column("value")}
            )
            pq.write_table(table, place / "next")
            if stop.wait(max(0.0, started + number * EVERY - time.monotonic())):
                return
            (place / "next").rename(folder / f"{number:06}.parquet")
            there.append(time.monotonic())

    def sink(answer: Any, batch: int) -> None:
        answer.write.format("noop").mode("append").save()
        done[batch] = time.monotonic()

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    running = begin(folder, str(place / "checkpoint"), sink)
    query = running.query if isinstance(running, ts.RunningQuery) else running
    try:
        counts: dict[int, int] = {}
        limit = time.monotonic() + seconds + 30
        while time.monotonic() < limit and query.isActive:
            time.sleep(0.5)
            if running is query:
                counts |= {entry.batchId: entry.numInputRows for entry in query.recentProgress}
            else:
                told = running.figures()
                counts |= {batch: figures["read"] or 0 for batch, figures in told.items()}
            if done and there and max(done.values()) - there[0] > seconds:
                break
    finally:
        query.stop()
        stop.set()
        producer.join()
        shutil.rmtree(place, ignore_errors=True)
    return _by_file(there, counts, done, rows, warm_up)


def _by_file(
    there: list[float], counts: dict[int, int], done: dict[int, float], rows: int, warm_up: float
) -> list[float]:
    """The latency of each file: batches take files in order, and all files have the same number of
    rows."""
    found: list[float] = []
    taken = 0
    for batch in sorted(counts):
        files = round(counts[batch] / rows)
        if batch in done:
            found += [
                done[batch] - at for at in there[taken : taken + files] if at - there[0] > warm_up
            ]
        taken += files
    if not found:
        raise RuntimeError("no file was answered after the warm-up; give it more seconds")
    return found

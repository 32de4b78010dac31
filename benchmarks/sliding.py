"""Sliding count and sum per key on Spark: ours, Spark's own windows, and DuckDB in batch, over the
same Parquet files.

All read the same files with the same number of rows in a micro-batch, in one session on the same
cores, and write typed rows to a sink that throws them away. Micro-batches of the warm-up are left
out; the speed is rows over the median time of the others. Ratios are `ratio_to_spark`: our rows a
second over those of the faster of Spark's two state stores.

The whole takes the better part of an hour; `-o keys=100 -o ratios=10 -o batch_rows=10000000` is a
taste of it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from benchmarks._data import LATEST, SECOND, make_events
from thalweg import spark as ts
from thalweg.cli.bench import Emit

RANGE_S = 600
FILE_ROWS, FILES = 2_500_000, 4
"""Rows in a file at most, and files in a micro-batch at least."""
ALIKE, COPIES = 10, 100_000_000
"""Spark's own copies a row for each of its windows. Above this RANGE/SLIDE it gets fewer rows, so
that it makes so many copies in a micro-batch at most; below it both get the same."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULT = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def run(
    emit: Emit,
    *,
    batch_rows: int = 40_000_000,
    batches: int = 13,
    warm_up: int = 3,
    rate: int = 10_000,
    keys: str = "100,10000",
    ratios: str = "1,10,60,600",
    spark_budget_s: float = 90.0,
    variants: str = "final,speculative,foreign",
) -> None:
    """Measure every combination of keys and RANGE/SLIDE; Spark's own gets at most `spark_budget_s`
    for each."""
    spark = ts.session(spark__driver__memory="6g")
    for count in map(int, str(keys).split(",")):
        folder = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
        try:
            _write(folder / "events", count, batch_rows, batches, rate)
            _ours(
                spark, folder, batch_rows, 1, "own", "final", "typed"
            )  # the first query of a process is no measure of any engine
            for ratio in map(int, str(ratios).split(",")):
                fewer = batch_rows if ratio <= ALIKE else min(batch_rows, COPIES // ratio)
                theirs = folder / ("events" if fewer == batch_rows else f"fewer-{ratio}")
                if fewer < batch_rows:
                    _write(theirs, count, fewer, batches, rate)
                _compare(
                    emit,
                    spark,
                    folder,
                    (theirs, fewer),
                    count,
                    ratio,
                    batch_rows,
                    warm_up,
                    spark_budget_s,
                    variants.split(","),
                )
                if fewer < batch_rows:
                    shutil.rmtree(theirs)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _write(folder: Path, keys: int, batch_rows: int, batches: int, rate: int) -> None:
    """Files of equal size, in order of arrival: one micro-batch after the other, each later than
    the one before by its length."""
    folder.mkdir()
    files = _files(batch_rows)
    rows = batch_rows // files
    for batch in range(batches):
        table = make_events(rows * files, keys=keys, rate=rate, seed=batch).table
        start = pa.array(table.column("_start").to_numpy() + batch * (batch_rows * SECOND // rate))
        times = start.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"ts": times, "key": table.column("key"), "value": table.column("value")})
        for part in range(files):
            pq.write_table(
                table.slice(part * rows, rows),
                folder / f"{batch * files + part:05}.parquet",
                row_group_size=rows,
            )


def _files(batch_rows: int) -> int:
    """Files in a micro-batch."""
    return max(-(-batch_rows // FILE_ROWS), FILES)


def _compare(
    emit: Emit,
    spark: Any,
    folder: Path,
    fewer: tuple[Path, int],
    keys: int,
    ratio: int,
    batch_rows: int,
    warm_up: int,
    budget: float,
    variants: list[str],
) -> None:
    shared = {"keys": keys, "range_over_slide": ratio, "rows_per_batch": batch_rows}
    speeds: dict[str, float] = {}
    for name, source, consistency, output in (
        ("final", "own", "final", "typed"),
        ("speculative", "own", "speculative", "typed"),
        ("foreign", "foreign", "final", "typed"),
        ("packed", "own", "final", "packed"),
    ):
        if name not in variants:
            continue
        seconds = _ours(spark, folder, batch_rows, ratio, source, consistency, output)
        speeds[name] = batch_rows / median(seconds[warm_up:])
        emit(
            "rows_per_s",
            speeds[name],
            "1/s",
            engine="thalweg",
            source=source,
            consistency=consistency,
            output=output,
            **shared,
        )
    own = []
    given, their_rows = fewer
    for provider in (ROCKSDB, DEFAULT):
        seconds = _spark(spark, given, their_rows, ratio, provider, budget / 2)
        used = seconds[warm_up:] if len(seconds) > warm_up + 1 else seconds[len(seconds) // 2 :]
        own.append(their_rows / median(used))
        theirs = {**shared, "rows_per_batch": their_rows}
        emit(
            "rows_per_s",
            own[-1],
            "1/s",
            engine="spark",
            provider=provider.rpartition(".")[2],
            batches=len(seconds),
            **theirs,
        )
    batch = _duckdb(folder, 3 * _files(batch_rows), ratio)
    emit("rows_per_s", batch, "1/s", engine="duckdb", **shared)
    for name, source, consistency, output in (
        ("final", "own", "final", "typed"),
        ("speculative", "own", "speculative", "typed"),
        ("foreign", "foreign", "final", "typed"),
        ("packed", "own", "final", "packed"),
    ):
        if name in speeds:
            emit(
                "ratio_to_spark",
                speeds[name] / max(own),
                "x",
                source=source,
                consistency=consistency,
                output=output,
                **shared,
            )
            emit(
                "ratio_to_duckdb",
                speeds[name] / batch,
                "x",
                source=source,
                consistency=consistency,
                output=output,
                **shared,
            )


def _query(events: tw.Stream, ratio: int) -> tw.Stream:
    slide = f"{RANGE_S // ratio} s"
    return (
        events.group_by("key")
        .hopping(f"{RANGE_S} s", slide)
        .aggregate(n=tw.count(), total=tw.sum_("value"))
    )


def _ours(
    spark: Any,
    folder: Path,
    batch_rows: int,
    ratio: int,
    source: str,
    consistency: str,
    output: str,
) -> list[float]:
    facts: dict[str, Any] = {"time": "ts", "disorder": LATEST, "late": "drop", "name": "events"}
    if source == "own":
        events = ts.from_files(str(folder / "events"), files_per_batch=_files(batch_rows), **facts)
    else:
        events = ts.from_spark(_stream(spark, folder / "events", batch_rows), **facts)

    def begin(checkpoint: str) -> Any:
        options: dict[str, Any] = {
            "to": "noop",
            "consistency": consistency,
            "trigger": "available now",
        }
        if output == "packed":
            options["to"], options["output"] = _throw_away, "packed"
        return ts.start(_query(events, ratio), checkpoint=checkpoint, **options).query

    return _durations(begin, None)


def _throw_away(rows: Any, _: int) -> None:
    rows.write.format("noop").mode("append").save()


def _stream(spark: Any, folder: Path, batch_rows: int) -> Any:
    reader = spark.readStream.schema("ts timestamp, key long, value long").option(
        "maxFilesPerTrigger", _files(batch_rows)
    )
    return reader.parquet(str(folder))


def _spark(
    spark: Any, folder: Path, batch_rows: int, ratio: int, provider: str, budget: float
) -> list[float]:
    from pyspark.sql import functions as f

    rows = _stream(spark, folder, batch_rows).withWatermark("ts", "60 seconds")
    slide = RANGE_S // ratio
    window = (
        f.window("ts", f"{RANGE_S} seconds")
        if ratio == 1
        else f.window("ts", f"{RANGE_S} seconds", f"{slide} seconds")
    )
    answer = rows.groupBy(window, "key").agg(f.count("*").alias("n"), f.sum("value").alias("total"))

    def begin(checkpoint: str) -> Any:
        writer = (
            answer.writeStream.format("noop")
            .outputMode("append")
            .option("checkpointLocation", checkpoint)
        )
        return writer.trigger(availableNow=True).start()

    settings = {
        PROVIDER: provider,
        FORMAT: "2" if provider == ROCKSDB else "1",
    }  # the default store has only the first format
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        return _durations(begin, budget)
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def _durations(begin: Callable[[str], Any], budget: float | None) -> list[float]:
    """Seconds of each micro-batch that had input, in order; stopped after the budget."""
    checkpoint = tempfile.mkdtemp(prefix="thalweg-bench-")
    started = time.monotonic()
    query = begin(checkpoint)
    try:
        while query.isActive:
            query.awaitTermination(1)
            if (
                budget is not None
                and time.monotonic() - started > budget
                and len(query.recentProgress) >= 2
            ):
                break
        reports = [entry for entry in query.recentProgress if entry.numInputRows]
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    return [entry.batchDuration / 1000 for entry in reports]


def _duckdb(folder: Path, files: int, ratio: int) -> float:
    """Batch, paned: sums by pane and key, then each window adds its panes by running sums over the
    panes of a key."""
    slide = RANGE_S * 1_000_000 // ratio
    connection = duckdb.connect()
    connection.sql("SET threads=2")
    rows = f"read_parquet({[str(path) for path in sorted((folder / 'events').iterdir())[:files]]})"
    total = connection.sql(f"SELECT count(*) FROM {rows}").fetchall()[0][0]
    panes = f"""
        CREATE OR REPLACE TABLE panes AS
        SELECT epoch_us(ts) // {slide} AS pane, key, count(*) AS n, sum(value) AS total FROM {rows} GROUP BY ALL"""
    naive = f"""
        CREATE OR REPLACE TABLE answer AS
        SELECT pane + w AS k, key, sum(n) AS n, sum(total) AS total FROM panes, range({ratio}) AS r(w) GROUP BY ALL"""
    framed = f"""
        CREATE OR REPLACE TABLE answer AS
        WITH edges AS (
            SELECT pane AS k, key, n, total FROM panes UNION ALL SELECT pane + {ratio}, key, -n, -total FROM panes
        ), steps AS (SELECT k, key, sum(n) AS n, sum(total) AS total FROM edges GROUP BY ALL),
        running AS (
            SELECT key, k, lead(k) OVER w AS upto, sum(n) OVER w AS n, sum(total) OVER w AS total
            FROM steps WINDOW w AS (PARTITION BY key ORDER BY k)
        )
        SELECT key, unnest(range(k, upto)) AS k, n, total FROM running WHERE n > 0"""
    best = float("inf")
    for second in (naive, framed) if ratio <= 60 else (framed,):
        for _ in range(2):
            began = time.monotonic()
            connection.sql(panes)
            connection.sql(second)
            best = min(best, time.monotonic() - began)
    connection.close()
    return float(total / best)

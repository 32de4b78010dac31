"""Band join of two streams on Spark: ours, and Spark's own stream-stream join with watermarks, over
the same Parquet files.

Rows of both streams with equal keys meet when they are less than half of `band_ms` apart. Keys are
mildly skewed and as many as it takes for about as many pairs as rows of a stream; a fifth of the
rows come late, by up to `late_ms`. Both read the same files with the same number of rows in a
micro-batch, in one session on the same cores, and write to a sink that throws rows away.
Micro-batches of the warm-up are left out; the speed is rows over the median time of the others.
`ratio_to_spark` is our rows a second over those of the faster of Spark's two state stores.

`lag` is measured on the left join of a few micro-batches: how many micro-batches after a row came
it first left without a partner, of rows that remain without one. `earlier_than_spark` is the
difference.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from benchmarks.sliding import DEFAULT, FORMAT, PROVIDER, ROCKSDB
from thalweg import spark as ts
from thalweg.cli.bench import Emit

SECOND_US = 1_000_000
SKEW = 0.3
LATE_SHARE = 0.2


def run(
    emit: Emit,
    *,
    rows: int = 2_000_000,
    batches: int = 20,
    warm_up: int = 5,
    band_ms: int = 1_000,
    late_ms: int = 5_000,
    rate: int = 10_000,
    spark_budget_s: float = 300.0,
) -> None:
    """Measure speed, state and lag; Spark's own gets at most `spark_budget_s` for each of its state
    stores."""
    spark = ts.session(spark__driver__memory="6g")
    folder = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
    shared = {"rows": rows, "batches": batches, "band_ms": band_ms, "late_ms": late_ms}
    try:
        keys = keys_for(1.0, rate * band_ms / 1_000)
        for number, side in enumerate(("left", "right")):
            write_stream(folder / side, rows, batches, keys, rate, late_ms * 1_000, seed=number)
        per_batch = 2 * rows // batches
        ours = _ours(folder, band_ms, late_ms, "inner")
        speed = per_batch / median(ours.seconds[warm_up:])
        emit("rows_per_s", speed, "1/s", engine="thalweg", keys=keys, pairs=ours.results, **shared)
        emit(
            "state_bytes",
            max(ours.state_bytes),
            "B",
            engine="thalweg",
            rows_held=max(ours.state_rows),
            **shared,
        )
        own: list[float] = []
        for provider in (ROCKSDB, DEFAULT):
            name = provider.rpartition(".")[2]
            theirs = _sparks(spark, folder, band_ms, late_ms, "inner", provider, spark_budget_s)
            used = theirs.seconds[warm_up:] or theirs.seconds[-1:]
            own.append(per_batch / median(used))
            emit(
                "rows_per_s",
                own[-1],
                "1/s",
                engine="spark",
                provider=name,
                measured=len(theirs.seconds),
                pairs=theirs.results,
                **shared,
            )
            emit(
                "state_bytes",
                max(theirs.state_bytes),
                "B",
                engine="spark",
                provider=name,
                rows_held=max(theirs.state_rows),
                **shared,
            )
        emit("ratio_to_spark", speed / max(own), "x", **shared)
        _compare_lag(emit, spark, folder, band_ms, late_ms, spark_budget_s, shared)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------------------------------------------------------
# input


def shares_of(keys: int) -> Any:
    share = 1 / np.arange(1, keys + 1) ** SKEW
    return share / share.sum()


def keys_for(pairs_per_row: float, rows_in_band: float) -> int:
    """How many keys it takes for a row to meet so many partners."""
    keys = 1
    while rows_in_band * float((shares_of(keys) ** 2).sum()) > pairs_per_row:
        keys = keys * 5 // 4 + 1
    return keys


def write_stream(
    folder: Path, rows: int, files: int, keys: int, rate: int, late_us: int, *, seed: int
) -> None:
    """One file a micro-batch, in order of arrival, at `rate` rows a second."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    sent = np.sort(rng.integers(0, rows * SECOND_US // rate, rows))
    arrival = sent + np.where(rng.random(rows) < LATE_SHARE, rng.integers(0, late_us, rows), 0)
    sent = sent[np.argsort(arrival, kind="stable")]
    key = np.minimum(
        np.searchsorted(np.cumsum(shares_of(keys)), rng.random(rows)), keys - 1
    ).astype(np.int64)
    columns = {
        "ts": pa.array(sent).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        "key": key,
        "value": np.arange(rows),
    }
    table = pa.table(columns)
    per_file = -(-rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * per_file, per_file), folder / f"{number:05}.parquet")


# -----------------------------------------------------------------------------------------------------------
# the engines


class Reports:
    """What each micro-batch that had input took and held."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.state_rows: list[int] = [0]
        self.state_bytes: list[int] = [0]
        self.results = 0


def _query(folder: Path, band_ms: int, late_ms: int, how: str) -> tw.Stream:
    facts: dict[str, Any] = {
        "time": "ts",
        "disorder": late_ms * 1_000,
        "late": "drop",
        "files_per_batch": 1,
    }
    left, right = (
        ts.from_files(str(folder / side), name=side, **facts) for side in ("left", "right")
    )
    near = tw.band(before=band_ms * 500, after=band_ms * 500)
    return left.window_join(right, "key", window=near, how=how)


def _ours(
    folder: Path,
    band_ms: int,
    late_ms: int,
    how: str,
    to: Any = "noop",
    consistency: str = "speculative",
) -> Reports:
    found = Reports()
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as checkpoint:
        options: dict[str, Any] = {"to": to, "consistency": consistency, "trigger": "available now"}
        running = ts.start(_query(folder, band_ms, late_ms, how), checkpoint=checkpoint, **options)
        running.wait()
        for entry in running.query.recentProgress:
            figures = next(iter(entry.observedMetrics.values()), None)
            if entry.numInputRows and figures is not None:
                found.seconds.append(entry.batchDuration / 1000)
                found.state_rows.append(figures["state_rows"] or 0)
                found.state_bytes.append(figures["state_bytes"] or 0)
                found.results += figures["changes"] or 0
        running.stop()
    return found


def _frame(spark: Any, folder: Path, band_ms: int, late_ms: int, how: str) -> Any:
    from pyspark.sql import functions as f

    def stream(side: str, mark: str) -> Any:
        rows = (
            spark.readStream.schema("ts timestamp, key long, value long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / side))
        )
        return rows.withWatermark("ts", f"{late_ms} milliseconds").select(
            *(f.col(c).alias(f"{mark}_{c}") for c in ("ts", "key", "value"))
        )

    half = f.expr(f"INTERVAL {band_ms * 500} MICROSECONDS")
    near = (f.col("r_ts") >= f.col("l_ts") - half) & (f.col("r_ts") < f.col("l_ts") + half)
    joined = stream("left", "l").join(
        stream("right", "r"), (f.col("l_key") == f.col("r_key")) & near, how
    )
    return joined.select("l_key", "l_value", "r_value", "l_ts", "r_ts")


def _sparks(
    spark: Any,
    folder: Path,
    band_ms: int,
    late_ms: int,
    how: str,
    provider: str,
    budget: float,
    sink: Callable[[Any, int], None] | None = None,
) -> Reports:
    import time

    settings = {
        PROVIDER: provider,
        FORMAT: "2" if provider == ROCKSDB else "1",
    }  # the default store has only the first format
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    found = Reports()
    checkpoint = tempfile.mkdtemp(prefix="thalweg-bench-")
    try:
        answer = _frame(spark, folder, band_ms, late_ms, how).observe("results", *_count())
        writer = (
            answer.writeStream.outputMode("append")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
        )
        started = time.monotonic()
        query = (writer.format("noop") if sink is None else writer.foreachBatch(sink)).start()
        try:
            while query.isActive and not (
                time.monotonic() - started > budget and len(query.recentProgress) >= 2
            ):
                query.awaitTermination(1)
            reports = list(query.recentProgress)
        finally:
            query.stop()
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
        for key, value in before.items():
            spark.conf.set(key, value)
    for entry in reports:
        figures = entry.observedMetrics.get("results")
        found.results += figures["n"] if figures is not None else 0
        if entry.numInputRows:
            found.seconds.append(entry.batchDuration / 1000)
            found.state_rows.append(sum(operator.numRowsTotal for operator in entry.stateOperators))
            found.state_bytes.append(
                sum(operator.memoryUsedBytes for operator in entry.stateOperators)
            )
    return found


def _count() -> list[Any]:
    from pyspark.sql import functions as f

    return [f.count(f.lit(1)).alias("n")]


# -----------------------------------------------------------------------------------------------------------------
# lag


def _compare_lag(
    emit: Emit,
    spark: Any,
    folder: Path,
    band_ms: int,
    late_ms: int,
    budget: float,
    shared: dict[str, Any],
) -> None:
    """Of rows that find no partner: in which micro-batch they come out, against the one in which
    they came in."""
    some = min(12, len(list((folder / "left").glob("*.parquet"))))
    part = folder / "lag"
    arrived: dict[int, int] = {}
    for side in ("left", "right"):
        (part / side).mkdir(parents=True)
        for number in range(some):
            name = f"{number:05}.parquet"
            shutil.copy(folder / side / name, part / side / name)
            if side == "left":
                arrived |= dict.fromkeys(
                    pq.read_table(folder / side / name, columns=["value"]).column(0).to_pylist(),
                    number,
                )
    left: dict[str, dict[int, int]] = {"speculative": {}, "final": {}, "spark": {}}
    theirs = left["spark"]

    def our_sink(consistency: str) -> Callable[[Any, int], None]:
        def sink(rows: Any, batch: int) -> None:
            for row in (
                rows.where("_kind = 'insert' and right_time is null").select("value").collect()
            ):
                left[consistency].setdefault(row["value"], batch)

        return sink

    def their_sink(rows: Any, batch: int) -> None:
        theirs.update(
            dict.fromkeys(
                (row["l_value"] for row in rows.where("r_ts is null").select("l_value").collect()),
                batch,
            )
        )

    for consistency in ("speculative", "final"):
        _ours(part, band_ms, late_ms, "left", our_sink(consistency), consistency)
    _sparks(spark, part, band_ms, late_ms, "left", ROCKSDB, budget, their_sink)
    for name, batches in left.items():
        lags = [batch - arrived[value] for value, batch in batches.items() if value in theirs]
        engine = (
            {"engine": "spark"} if name == "spark" else {"engine": "thalweg", "consistency": name}
        )
        emit(
            "lag",
            mean(lags) if lags else float("nan"),
            "batches",
            rows_alone=len(lags),
            **engine,
            **shared,
        )
        if name != "spark":
            earlier = [theirs[value] - batch for value, batch in batches.items() if value in theirs]
            emit(
                "earlier_than_spark",
                mean(earlier) if earlier else float("nan"),
                "batches",
                consistency=name,
                **shared,
            )

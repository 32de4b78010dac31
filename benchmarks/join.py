"""Band join of two streams on Spark: ours, and Spark's own stream-stream join with watermarks, over
the same Parquet files.

Rows of both streams with equal keys meet when they are less than half of `band_ms` apart. Keys are
mildly skewed and as many as it takes for about as many pairs as rows of a stream; a fifth of the
rows come late, by up to `late_ms`. Both read the same files with the same number of rows in a
micro-batch, each in a process of its own on the same cores, and write to the sink of Spark's that
throws rows away; Spark's own has as many partitions as cores. Micro-batches of the warm-up are left
out; the speed is rows over the median time of the others. `ratio_to_spark` is our rows a second
over those of the fastest of Spark's own: by state store, and by how the checkpoint's files are
written. `small_batch_rows` is measured as well: micro-batches so small that fixed costs decide.
Those are measured `rounds` times in turns, by processes that stay warm, after a round that chooses
the fastest and `warm_rounds` more, none of which counts: a JVM compiles what it runs for some
hundred micro-batches.
`micro_batch` is the median of what Spark says of its micro-batches, part by part; `work` is
processor time for one, which a busy machine changes less.

`lag` is measured on the left join of a few micro-batches: how many micro-batches after a row came
it first left without a partner, of rows that remain without one. `earlier_than_spark` is the
difference.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from benchmarks._own_process import OwnProcess, call
from benchmarks._process_work import work_by_role
from benchmarks._spark_peer import PEERS, Store, has_session, peer_session
from benchmarks._turns import OURS, store_of, take_turns
from thalweg import spark as ts
from thalweg.cli.bench import Emit
from thalweg.spark.observed import observed_figures

SECOND_US = 1_000_000
SKEW = 0.3
LATE_SHARE = 0.2


def run(
    emit: Emit,
    *,
    rows: int = 2_000_000,
    batches: int = 20,
    warm_up: int = 5,
    small_batch_rows: int = 20_000,
    small_batches: int = 40,
    band_ms: int = 1_000,
    late_ms: int = 5_000,
    rate: int = 10_000,
    spark_budget_s: float = 120.0,
    rounds: int = 5,
    warm_rounds: int = 5,
    measured: str = "large,small,lag",
) -> None:
    """Measure speed, state and lag; Spark's own gets at most `spark_budget_s` for each of its state
    stores and rounds."""
    folder = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
    plan: dict[str, Any] = {"band_ms": band_ms, "late_ms": late_ms}
    try:
        keys = keys_for(1.0, rate * band_ms / 1_000)
        sizes = {
            "large": (rows, batches, (0, 0)),
            "small": (
                small_batch_rows // 2 * small_batches,
                small_batches,
                (rounds, warm_rounds),
            ),
        }
        for name, (count, files, more) in sizes.items():
            for number, side in enumerate(("left", "right")):
                place = folder / name / side
                write_stream(place, count, files, keys, rate, late_ms * 1_000, seed=number)
            shared = {"rows": count, "batches": files, "keys": keys, **plan}
            if name in measured.split(","):
                case = Case(
                    folder / name, 2 * count // files, warm_up, plan, spark_budget_s, shared
                )
                _compare_speed(emit, case, more)
        if "lag" in measured.split(","):
            _compare_lag(emit, folder / "large", plan, spark_budget_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Case:
    """Files of two streams, and how they are joined."""

    folder: Path
    per_batch: int
    warm_up: int
    plan: dict[str, Any]
    budget_s: float
    shared: dict[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        return {"rows_per_batch": self.per_batch, **self.shared}

    def measure(self, process: OwnProcess, engine: str) -> dict[str, Any]:
        """One run over all files. A process warms up before its first."""
        told: dict[str, Any] = {"folder": str(self.folder), **self.plan}
        if engine == OURS:
            found: dict[str, Any] = process.call("benchmarks.join:measure_ours", **told)
        else:
            found = process.call(
                "benchmarks.join:measure_spark",
                store=store_of(engine),
                budget_s=self.budget_s,
                **told,
            )
        return found

    def seconds(self, found: dict[str, Any]) -> float:
        """Of a micro-batch."""
        return float(median(found["seconds"][self.warm_up :] or found["seconds"][-1:]))


def _compare_speed(emit: Emit, case: Case, more: tuple[int, int]) -> None:
    """`more`: rounds that count and rounds that do not."""
    turns = take_turns(case.measure, case.seconds, more[0], PEERS, more[1])
    for name in (OURS, *(f"spark, {store}" for store in PEERS)):
        _emit_engine(emit, case, name, turns.of(name))
    facts = {"rounds": len(turns.of(OURS)), **case.facts}
    emit("ratio_to_spark", turns.ratio(case.seconds), "x", **facts)
    emit("work_ratio_to_spark", turns.ratio(lambda found: float(found["work"])), "x", **facts)


def _emit_engine(emit: Emit, case: Case, name: str, runs: list[dict[str, Any]]) -> None:
    facts = {"engine": name, **case.facts}
    speed = case.per_batch / median(map(case.seconds, runs))
    counted = len(runs[-1]["seconds"])
    emit("rows_per_s", speed, "1/s", measured=counted, pairs=runs[-1]["results"], **facts)
    emit("work", median(run["work"] for run in runs), "s", **facts)
    held = max(runs[-1]["state_rows"])
    emit("state_bytes", max(runs[-1]["state_bytes"]), "B", rows_held=held, **facts)
    for part, milliseconds in runs[-1]["parts"].items():
        emit("micro_batch", milliseconds, "ms", of=part, **facts)


def measure_ours(folder: str, band_ms: int, late_ms: int) -> dict[str, Any]:
    """The inner join in a process of its own: a short run to warm up, then the one that counts."""
    is_warm = has_session()
    ts.session(spark__driver__memory="6g")
    if not is_warm:
        _ours(_first_files(Path(folder)), band_ms, late_ms, "inner")
    return _with_work(lambda: _ours(Path(folder), band_ms, late_ms, "inner"))


def measure_spark(
    folder: str, band_ms: int, late_ms: int, store: Store, budget_s: float
) -> dict[str, Any]:
    """The same by Spark's own stream-stream join."""
    is_warm = has_session()
    spark = peer_session(store)
    if not is_warm:
        _sparks(spark, _first_files(Path(folder)), band_ms, late_ms, "inner", budget_s)
    return _with_work(lambda: _sparks(spark, Path(folder), band_ms, late_ms, "inner", budget_s))


def _with_work(run: Callable[[], Reports]) -> dict[str, Any]:
    """What a run reports, with the processor seconds of all processes for each micro-batch."""
    before = sum(work_by_role(os.getpid()).values())
    found = run()
    work = sum(work_by_role(os.getpid()).values()) - before
    parts = dict.fromkeys(name for batch in found.parts for name in batch)
    middle = {name: median(batch.get(name, 0) for batch in found.parts) for name in parts}
    return vars(found) | {"work": work / max(len(found.seconds), 1), "parts": middle}


def measure_lag(
    folder: str, band_ms: int, late_ms: int, engine: str, budget_s: float
) -> list[tuple[int, int]]:
    """Of rows that leave without a partner: their number and the micro-batch they leave in."""
    left: dict[int, int] = {}

    def our_sink(rows: Any, batch: int) -> None:
        alone = rows.where("_kind = 'insert' and right_time is null")
        for row in alone.select("value").collect():
            left.setdefault(row["value"], batch)

    def their_sink(rows: Any, batch: int) -> None:
        for row in rows.where("r_ts is null").select("l_value").collect():
            left[row["l_value"]] = batch

    if engine == "spark":
        spark = peer_session("rocksdb")
        _sparks(spark, Path(folder), band_ms, late_ms, "left", budget_s, their_sink)
    else:
        ts.session(spark__driver__memory="6g")
        _ours_into(our_sink, Path(folder), band_ms, late_ms, "left", engine)
    return list(left.items())


def _first_files(folder: Path, count: int = 4) -> Path:
    """A folder with the first files of both streams; files are linked, not copied."""
    part = folder.with_name(f"{folder.name}-first-{count}")
    for side in ("left", "right"):
        (part / side).mkdir(parents=True, exist_ok=True)
        for path in sorted((folder / side).iterdir())[:count]:
            if not (part / side / path.name).exists():
                (part / side / path.name).hardlink_to(path)
    return part


# ------------------------------------------------------------------------------------------------
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


# ------------------------------------------------------------------------------------------------
# the engines


class Reports:
    """What each micro-batch that had input took and held."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.state_rows: list[int] = [0]
        self.state_bytes: list[int] = [0]
        self.results = 0
        self.parts: list[dict[str, int]] = []
        """By micro-batch: what Spark says of its parts, in milliseconds."""


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


def _ours(folder: Path, band_ms: int, late_ms: int, how: str) -> Reports:
    """Into the sink that throws rows away, which Spark's own has too."""
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as checkpoint:
        rows = ts.frame(_query(folder, band_ms, late_ms, how), checkpoint=checkpoint)
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return _reports(query)


def _ours_into(
    sink: Callable[[Any, int], None],
    folder: Path,
    band_ms: int,
    late_ms: int,
    how: str,
    consistency: str,
) -> None:
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as checkpoint:
        query = _query(folder, band_ms, late_ms, how)
        options: dict[str, Any] = {"consistency": consistency, "trigger": "available now"}
        running = ts.start(query, to=sink, checkpoint=checkpoint, progress=False, **options)
        running.wait()
        running.stop()


def _reports(query: Any) -> Reports:
    found = Reports()
    for entry in query.recentProgress:
        figures = observed_figures(entry)
        if entry.numInputRows and figures is not None:
            found.seconds.append(entry.batchDuration / 1000)
            found.parts.append(dict(entry.durationMs))
            found.state_rows.append(figures.state_rows)
            found.state_bytes.append(figures.state_bytes)
            found.results += figures.changes
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
    budget: float,
    sink: Callable[[Any, int], None] | None = None,
) -> Reports:
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
    for entry in reports:
        figures = entry.observedMetrics.get("results")
        found.results += figures["n"] if figures is not None else 0
        if entry.numInputRows:
            found.seconds.append(entry.batchDuration / 1000)
            found.parts.append(dict(entry.durationMs))
            found.state_rows.append(sum(operator.numRowsTotal for operator in entry.stateOperators))
            found.state_bytes.append(
                sum(operator.memoryUsedBytes for operator in entry.stateOperators)
            )
    return found


def _count() -> list[Any]:
    from pyspark.sql import functions as f

    return [f.count(f.lit(1)).alias("n")]


# ------------------------------------------------------------------------------------------------
# lag


def _compare_lag(emit: Emit, folder: Path, plan: dict[str, Any], budget_s: float) -> None:
    """Of rows that find no partner: in which micro-batch they come out, against the one in which
    they came in."""
    part = _first_files(folder, 12)
    arrived: dict[int, int] = {}
    for number, path in enumerate(sorted((part / "left").iterdir())):
        values = pq.read_table(path, columns=["value"]).column(0).to_pylist()
        arrived |= dict.fromkeys(values, number)
    left = {
        engine: dict(
            map(
                tuple,
                call(
                    "benchmarks.join:measure_lag",
                    folder=str(part),
                    engine=engine,
                    budget_s=budget_s,
                    **plan,
                ),
            )
        )
        for engine in ("speculative", "final", "spark")
    }
    theirs = left["spark"]
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
            **plan,
        )
        if name != "spark":
            earlier = [theirs[value] - batch for value, batch in batches.items() if value in theirs]
            emit(
                "earlier_than_spark",
                mean(earlier) if earlier else float("nan"),
                "batches",
                consistency=name,
                **plan,
            )

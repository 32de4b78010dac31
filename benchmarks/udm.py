"""User-defined modules: incremental against not, vectorised against built-in, and against
transformWithStateInPandas on Spark.

`gap` is how many times longer the plain form takes than the incremental one while a window grows;
it must widen. `ratio_to_builtin` is the time of a vectorised module over that of the built-in
average, many groups in a hopping window. `ratio_to_transform_with_state` is our rows a second, for
a plain Python aggregate in which every key occurs once, over those of the same aggregate written by
hand for Spark's own Python state API; both read the same files, each in a process of its own with
as many partitions as cores, and write to a sink that throws rows away. The other one is given fewer
rows (`by_hand_rows`), since its time is a time per key; the ratio comes at equal rows too, where
fixed costs of a micro-batch weigh on both.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from benchmarks._own_process import call
from benchmarks._spark_peer import peer_session
from benchmarks._timing import measure
from thalweg import udm
from thalweg.cli.bench import Emit

SECOND, HOUR = 1_000_000, 3_600_000_000


@udm.aggregate("bench.mean", inputs={"value": "double"}, output="double")
def mean(values: Sequence[float]) -> float:
    """The plain form: a function of the values of a window."""
    return sum(values) / len(values)


@udm.aggregate("bench.mean_in_steps", inputs={"value": "double"}, output="double")
class MeanInSteps:
    """The same, told only what changed."""

    def empty(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, state: tuple[float, int], values: Sequence[float]) -> tuple[float, int]:
        return state[0] + sum(values), state[1] + len(values)

    def remove(self, state: tuple[float, int], values: Sequence[float]) -> tuple[float, int]:
        return state[0] - sum(values), state[1] - len(values)

    def result(self, state: tuple[float, int]) -> float:
        return state[0] / state[1]


def run(
    emit: Emit,
    *,
    windows: str = "1000,10000,100000",
    step: int = 100,
    rows: int = 1_000_000,
    groups: int = 10_000,
    by_hand_rows: int = 10_000,
    rounds: int = 3,
    parts: str = "steps,columns,spark",
) -> None:
    """The parts that are asked for."""
    wanted = parts.split(",")
    if "steps" in wanted:
        _steps(emit, [int(size) for size in str(windows).split(",")], step, rounds)
    if "columns" in wanted:
        _columns(emit, rows, groups, rounds)
    if "spark" in wanted:
        _on_spark(emit, rows, by_hand_rows)


# ------------------------------------------------------------------------------------------------
# steps


def _steps(emit: Emit, sizes: list[int], step: int, rounds: int) -> None:
    """One window grows batch by batch and answers after each of the last few: what does an answer
    cost?"""
    source = tw.source("s", {"value": "double"}, disorder=HOUR)
    for size in sizes:
        took = measure(
            {
                name: partial(_grow, source, f"bench.{name}", size, step)
                for name in ("mean", "mean_in_steps")
            },
            rounds=rounds,
        )
        for name in ("mean", "mean_in_steps"):
            emit(
                "answer_seconds",
                took.median(name) / _ANSWERS,
                "s",
                module=name,
                window_rows=size,
                batch_rows=step,
            )
        emit("gap", took.ratio("mean", "mean_in_steps"), "x", window_rows=size, batch_rows=step)


_ANSWERS = 30


def _grow(source: tw.Stream, name: str, size: int, step: int) -> None:
    engine = tw.Engine(source.tumbling(HOUR).apply(name, "value"), consistency="eager")
    values = np.random.default_rng(7).random(size + _ANSWERS * step)
    starts = np.arange(len(values))
    engine.push("s", _points(starts[:size], {"value": values[:size]}))
    for at in range(size, size + _ANSWERS * step, step):
        engine.push("s", _points(starts[at : at + step], {"value": values[at : at + step]}))


def _points(start: Any, columns: dict[str, Any]) -> pa.Table:
    return pa.table({"_start": start, "_end": start + 1, **columns})


# ------------------------------------------------------------------------------------------------
# columns


def _columns(emit: Emit, rows: int, groups: int, rounds: int) -> None:
    """Ten windows of the hopping kind over all rows, in order."""
    rng = np.random.default_rng(7)
    start = np.sort(rng.integers(0, 100 * SECOND, rows))
    table = _points(
        start, {"key": rng.integers(0, groups, rows), "value": rng.integers(0, 1_000, rows)}
    )
    batches = [table.slice(at, 100_000) for at in range(0, rows, 100_000)]
    source = tw.source("s", {"key": "int64", "value": "int64"}, disorder=0, insert_only=True)
    windowed = source.group_by("key").hopping(100 * SECOND, 10 * SECOND)
    queries = {
        "builtin": windowed.aggregate(mean=tw.avg("value")),
        "module": windowed.apply("average", "value"),
        "plain": windowed.apply("bench.mean", "value"),
    }
    took = measure(
        {name: partial(_play, query, batches) for name, query in queries.items()}, rounds=rounds
    )
    for name in queries:
        emit(
            "rows_per_s",
            rows / took.median(name),
            "1/s",
            form=name,
            rows=rows,
            groups=groups,
            range_over_slide=10,
        )
    emit(
        "ratio_to_builtin",
        took.ratio("module", "builtin"),
        "x",
        rows=rows,
        groups=groups,
        range_over_slide=10,
    )


def _play(query: tw.Stream, batches: list[pa.Table]) -> None:
    engine = tw.Engine(query, consistency="final")
    for batch in batches:
        engine.push("s", batch)
    engine.finish()


# ------------------------------------------------------------------------------------------------
# spark


def _on_spark(emit: Emit, rows: int, by_hand_rows: int) -> None:
    """Each engine in a process of its own, after a short query that warms it up."""
    folder = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
    try:
        sizes = sorted({rows, by_hand_rows})
        for size in (200, *sizes):
            _write(folder / str(size), size)
        place = str(folder)
        seconds = call("benchmarks.udm:measure_ours", folder=place, sizes=sizes)
        ours = {size: size / took for size, took in zip(sizes, seconds, strict=True)}
        for size, speed in ours.items():
            emit("rows_per_s", speed, "1/s", engine="thalweg", rows=size, keys=size)
        (took,) = call("benchmarks.udm:measure_by_hand", folder=place, sizes=[by_hand_rows])
        other = by_hand_rows / took
        facts = {"rows": by_hand_rows, "keys": by_hand_rows}
        emit("rows_per_s", other, "1/s", engine="transformWithStateInPandas", **facts)
        for size, speed in ours.items():
            emit(
                "ratio_to_transform_with_state",
                speed / other,
                "x",
                rows=size,
                by_hand_rows=by_hand_rows,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_ours(folder: str, sizes: list[int]) -> list[float]:
    """Seconds for each number of rows."""
    from thalweg import spark as ts

    ts.session(spark__driver__memory="4g")
    _ours(Path(folder) / "200")
    return [_ours(Path(folder) / str(size)) for size in sizes]


def measure_by_hand(folder: str, sizes: list[int]) -> list[float]:
    """The same for Spark's own Python state API."""
    spark = peer_session("rocksdb", "4g")
    _by_hand(spark, Path(folder) / "200")
    return [_by_hand(spark, Path(folder) / str(size)) for size in sizes]


def _write(folder: Path, rows: int) -> None:
    """Every key once; the last file holds one row that comes much later, and so ends the window."""
    folder.mkdir()
    rng = np.random.default_rng(7)
    at = np.sort(rng.integers(0, 1_000 * SECOND, rows))
    table = pa.table(
        {
            "ts": pa.array(at, pa.timestamp("us", "UTC")),
            "key": rng.permutation(rows),
            "value": rng.random(rows),
        }
    )
    pq.write_table(table, folder / "0.parquet", row_group_size=max(rows // 4, 1))
    late = pa.table(
        {
            "ts": pa.array([2 * HOUR], pa.timestamp("us", "UTC")),
            "key": pa.array([rows]),
            "value": pa.array([0.0]),
        }
    )
    pq.write_table(late, folder / "1.parquet")


def _ours(folder: Path) -> float:
    from thalweg import spark as ts

    events = ts.from_files(
        str(folder), time="ts", disorder=0, late="drop", files_per_batch=1, name="events"
    )
    query = events.group_by("key").tumbling(HOUR).apply("bench.mean", "value")
    return _seconds(
        lambda place: (
            ts.start(
                query, to="noop", consistency="final", checkpoint=place, trigger="available now"
            ).query
        )
    )


def _by_hand(spark: Any, folder: Path) -> float:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Mean(StatefulProcessor):
        """Sum and count of each key in a state variable, the mean after each micro-batch."""

        def init(self, handle: Any) -> None:
            self._sums = handle.getValueState("sums", "total double, n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
            total, n = self._sums.get() if self._sums.exists() else (0.0, 0)
            for frame in rows:
                total, n = total + float(frame["value"].sum()), n + len(frame)
            self._sums.update((total, n))
            yield pd.DataFrame({"key": [key[0]], "mean": [total / n]})

        def close(self) -> None:
            pass

    read = (
        spark.readStream.schema("ts timestamp, key long, value double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
    )
    answer = read.groupBy("key").transformWithStateInPandas(
        Mean(), "key long, mean double", "append", "None"
    )

    def begin(place: str) -> Any:
        return (
            answer.writeStream.format("noop")
            .option("checkpointLocation", place)
            .trigger(availableNow=True)
            .start()
        )

    return _seconds(begin)


def _seconds(begin: Any) -> float:
    """The time of all micro-batches that had input."""
    place = tempfile.mkdtemp(prefix="thalweg-bench-")
    query = begin(place)
    try:
        query.awaitTermination()
        return (
            float(sum(entry.batchDuration for entry in query.recentProgress if entry.numInputRows))
            / 1000
        )
    finally:
        query.stop()
        shutil.rmtree(place, ignore_errors=True)

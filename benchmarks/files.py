"""A folder of very many files: ours, and Spark's own file source.

Both filter the rows of `files` small Parquet files of one folder, `per_batch` files in a
micro-batch, and throw the answers away. Each engine is a process of its own, warm: it has read a
small folder before. Measured are

- `start`: from starting a new query until its first micro-batch is answered;
- `all`: until all files are read, and `checkpoint` what the checkpoint has then, in bytes and
  files;
- `start_again`: from starting the query again, with that checkpoint, until the answer to one file
  that came in the meantime;
- `look`: how long a look into the folder takes that finds nothing (`latestOffset` of Spark's
  reports), the median of those within `idle_s` seconds; `look_work`: processor seconds in that
  time, for a second.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._own_process import OwnProcess
from benchmarks._process_work import work_by_role
from benchmarks._spark_peer import peer_session
from thalweg import spark as ts
from thalweg.cli.bench import Emit
from thalweg.spark.trigger import trigger_arguments

ENGINES = ("spark", "thalweg")
FIGURES = {
    "start": "s",
    "all": "s",
    "checkpoint": "B",
    "checkpoint_files": "files",
    "start_again": "s",
    "look": "s",
    "look_work": "s",
}
SMALL = 200
Trigger = Literal["available now", "at once"]
ALL: Trigger = "available now"
Begin = Callable[[Path, Path, Trigger], Any]
"""Starts a query over a folder with a checkpoint."""
PATIENCE_S = 900.0
COLUMNS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("key", pa.int64()), ("value", pa.int64())])


def run(emit: Emit, *, files: int = 100_000, per_batch: int = 5_000, idle_s: float = 10.0) -> None:
    """One engine after the other, each with a folder of its own."""
    found: dict[str, dict[str, float]] = {}
    for engine in ENGINES:
        place = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
        try:
            _write(place / "small", SMALL)
            _write(place / "events", files)
            with OwnProcess() as process:
                told = {"place": str(place), "per_batch": per_batch, "idle_s": idle_s}
                found[engine] = process.call("benchmarks.files:measure", engine=engine, **told)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        for name, unit in FIGURES.items():
            emit(name, found[engine][name], unit, engine=engine, files=files)
    for name in FIGURES:
        ratio = found["thalweg"][name] / max(found["spark"][name], 1e-9)
        emit("ratio_to_spark", ratio, "x", of=name, files=files)


def _write(folder: Path, files: int) -> None:
    """Files of the same bytes, some seconds old."""
    folder.mkdir()
    pq.write_table(_rows(), folder / "first")
    content = (folder / "first").read_bytes()
    (folder / "first").unlink()
    for number in range(files):
        (folder / f"{number:06}.parquet").write_bytes(content)


def _rows() -> pa.Table:
    return pa.Table.from_pydict(
        {"ts": [1_000_000, 2_000_000], "key": [1, 2], "value": [1, 2]}, schema=COLUMNS
    )


# --------------------------------------------------------------------- in a process of its own


def measure(engine: str, place: str, per_batch: int, idle_s: float) -> dict[str, float]:
    """All figures of one engine."""
    begin = _begin_ours if engine == "thalweg" else _begin_sparks
    begin_on: Begin = begin(per_batch)
    small = Path(place) / "small"
    begin_on(small, Path(place) / "small-checkpoint", ALL).awaitTermination()
    folder, checkpoint = Path(place) / "events", Path(place) / "checkpoint"
    began = time.monotonic()
    query = begin_on(folder, checkpoint, ALL)
    found = {"start": _until(query, began, lambda: bool(query.recentProgress))}
    found["all"] = _until(query, began, lambda: not query.isActive)
    sizes = [file.stat().st_size for file in checkpoint.rglob("*") if file.is_file()]
    found |= {"checkpoint": float(sum(sizes)), "checkpoint_files": float(len(sizes))}
    pq.write_table(_rows(), Path(place) / "next")
    (Path(place) / "next").rename(folder / "a-new-one.parquet")
    began = time.monotonic()
    query = begin_on(folder, checkpoint, "at once")
    found["start_again"] = _until(query, began, lambda: _read(query) > 0)
    seen = len(query.recentProgress)
    work = sum(work_by_role(os.getpid()).values())
    time.sleep(idle_s)
    found["look_work"] = (sum(work_by_role(os.getpid()).values()) - work) / idle_s
    looks = [entry.durationMs.get("latestOffset", 0) for entry in query.recentProgress[seen + 1 :]]
    query.stop()
    if not looks:
        raise RuntimeError(f"no look was reported within {idle_s} s")
    found["look"] = median(looks) / 1000
    return found


def _until(query: Any, began: float, done: Callable[[], bool]) -> float:
    """Seconds since `began` until something is so."""
    while not done():
        if not query.isActive and query.exception() is not None:
            raise RuntimeError(f"the query ended: {query.exception()}")
        if time.monotonic() - began > PATIENCE_S:
            raise RuntimeError(f"nothing came within {PATIENCE_S:.0f} s")
        time.sleep(0.02)
    return time.monotonic() - began


def _read(query: Any) -> int:
    return sum(entry.numInputRows for entry in query.recentProgress)


def _report_looks(spark: Any) -> None:
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")


def _begin_ours(per_batch: int) -> Begin:
    spark = ts.session(spark__driver__memory="4g")
    _report_looks(spark)

    def begin(folder: Path, checkpoint: Path, trigger: Trigger) -> Any:
        events = ts.from_files(
            str(folder),
            time="ts",
            disorder="1 min",
            late="drop",
            columns=COLUMNS,
            files_per_batch=per_batch,
            name="events",
        )
        return ts.start(
            events.where("value > 1"),
            to="noop",
            trigger=trigger,
            checkpoint=str(checkpoint),
            progress=False,
        ).query

    return begin


def _begin_sparks(per_batch: int) -> Begin:
    spark = peer_session("rocksdb", "4g")
    _report_looks(spark)

    def begin(folder: Path, checkpoint: Path, trigger: Trigger) -> Any:
        rows = (
            spark.readStream.schema("ts timestamp, key long, value long")
            .option("maxFilesPerTrigger", per_batch)
            .parquet(str(folder))
        )
        writer = rows.where("value > 1").writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(checkpoint))
        return writer.trigger(**trigger_arguments(trigger)).start()

    return begin

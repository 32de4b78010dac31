"""Staleness on Spark at ten times what it can serve, beside what one would do without a queue.

Updates of a number of keys come at a fixed rate, in real time; each row that reaches the sink costs
a fixed amount of processor time (a key derivation). The contenders, each in a process of its own:

| contender | what Spark gets |
| --- | --- |
| a schedule | cuts of a receiver's queue, which a sender feeds over TCP; the target is two seconds |
| `append` | all rows in order, at most a second's worth of what it can serve in a micro-batch |
| `random shedding` | the same, but only as many rows, by chance, as it can serve |
| `newest per key` | all rows since the last micro-batch; the newest of each key goes on |

The rows of the three baselines are made inside Spark's reader, so they pay for no network and no
disk: that favours them. Staleness is sampled once a second over all keys that have come, during the
last third of the run: the mean over the keys, and their 99th percentile. An update is pending until
the sink has returned for a micro-batch with it or a newer one of its key.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.freshness._arrays import Floats, Ints
from thalweg.freshness.simulation import zipf_shares

__all__ = ["BASELINES", "measure_baseline", "measure_capacity", "measure_queue", "send"]

BASELINES = ("append", "random shedding", "newest per key")
FRESHNESS = "2 s"
KEPT = 0.95
_CHUNK = 1_000
_ITERATIONS = 300
_COLUMNS = "key long, number long"


def row_keys(begin: int, end: int, keys: int, skew: float) -> Ints:
    """The keys of the rows `begin` to `end` of the stream, the same whoever asks."""
    bounds = np.cumsum(zipf_shares(keys, skew))
    first, last = begin // _CHUNK, -(-end // _CHUNK)
    parts = [np.random.default_rng([7, at]).random(_CHUNK) for at in range(first, last)]
    drawn = np.concatenate(parts) if parts else np.empty(0)
    found: Ints = np.searchsorted(bounds, drawn).clip(max=keys - 1)
    return found[begin - first * _CHUNK : end - first * _CHUNK]


def is_kept(begin: int, end: int, share: float) -> Ints:
    """The rows of a random sample."""
    rows = np.arange(begin, end)
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return rows[(mixed >> np.uint64(40)).astype(np.float64) / 2**24 < share]


def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the application does with each row."""
    for batch in batches:
        keys = batch.column(batch.schema.get_field_index("key")).to_pylist()
        for key in keys:
            hashlib.pbkdf2_hmac("sha256", key.to_bytes(8, "little"), b"thalweg", _ITERATIONS)
        yield pa.record_batch([pa.array([len(keys)], pa.int64())], names=["done"])


def _serve(df: Any) -> None:
    df.mapInArrow(work, "done long").write.format("noop").mode("append").save()


# --------------------------------------------------------------------------------------- the queue


def send(folder: str, keys: int, skew: float, rate: float, seconds: float) -> dict[str, float]:
    """Feed a receiver in real time; rows that it took."""
    from thalweg.freshness.receiver_client import ReceiverClient
    from thalweg.freshness.receiver_settings import ReceiverSettings

    settings = ReceiverSettings.read(Path(folder))
    assert settings is not None
    began, sent = time.monotonic(), 0
    with ReceiverClient.of(folder) as receiver:
        while (passed := time.monotonic() - began) < seconds:
            due = int(passed * rate)
            if due - sent < rate * 0.02:
                time.sleep(0.02)
                continue
            numbers = pa.array(np.arange(sent, due))
            columns = [pa.array(row_keys(sent, due, keys, skew)), numbers, numbers]
            receiver.offer(pa.record_batch(columns, schema=settings.schema))
            sent = due
    return {"rows": sent, "rate": sent / (time.monotonic() - began)}


def measure_queue(
    schedule: str, keys: int, skew: float, rate: float, seconds: float
) -> dict[str, Any]:
    """Spark behind a receiver, fed at `rate` rows a second."""
    from thalweg import spark as ts
    from thalweg.freshness.receiver_client import ReceiverClient
    from thalweg.freshness.receiver_process import stop_receiver

    scratch = tempfile.mkdtemp(prefix="thalweg-bench-")
    folder = f"{scratch}/queue"
    schema = {"key": "int64", "number": "int64", "at": "int64"}
    rows = ts.from_receiver(folder, schema, time="at", name="updates")
    query = rows.update_key("key", schedule=schedule, freshness=FRESHNESS).where("number >= 0")
    running = ts.start(query, to=lambda df, _: _serve(df), checkpoint=f"{scratch}/checkpoint")
    arguments = {"folder": folder, "keys": keys, "skew": skew, "rate": rate, "seconds": seconds}
    command = [sys.executable, "-m", "benchmarks._own_process", f"{__name__}:send"]
    sender = subprocess.Popen([*command, json.dumps(arguments)], stdout=subprocess.DEVNULL)
    try:
        samples = []
        with ReceiverClient.of(folder) as receiver:
            began = time.monotonic()
            while sender.poll() is None:
                time.sleep(1)
                status = receiver.status()
                samples.append((time.monotonic() - began, status))
            status = receiver.status()
        progress = [each.batchDuration / 1000 for each in running.query.recentProgress]
    finally:
        sender.kill()
        sender.wait()
        running.stop()
        stop_receiver(folder)
        shutil.rmtree(scratch, ignore_errors=True)
    late = [one for at, one in samples if at > seconds * 2 / 3]
    middle = [one for at, one in samples if seconds / 3 < at <= seconds * 2 / 3]
    return {
        "average": float(np.mean([one["staleness_now"] for one in late])) / 1e6,
        "p99": float(np.mean([one["staleness_p99"] for one in late])) / 1e6,
        "p99 before": float(np.mean([one["staleness_p99"] for one in middle])) / 1e6,
        "rows": status["taken"],
        "arrived": status["arrived"],
        "batch": float(np.median(progress[2:])) if len(progress) > 2 else None,
    }


# --------------------------------------------------------------------------------------- baselines


def measure_capacity(seconds: float = 15.0) -> float:
    """Rows a second that reach the sink when there is always more, in batches of about a second."""
    told = measure_baseline("append", 100_000, 0.0, 1e9, seconds, per_batch=None)
    return float(told["rows"] / told["worked"])


def measure_baseline(
    contender: str,
    keys: int,
    skew: float,
    rate: float,
    seconds: float,
    per_batch: int | None,
    share: float = 1.0,
) -> dict[str, Any]:
    """Spark reading rows that came at `rate`."""
    from benchmarks._spark_peer import peer_session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = peer_session("rocksdb", "2g")
    scratch = tempfile.mkdtemp(prefix="thalweg-bench-")
    log = Path(scratch) / "ends"
    from benchmarks.freshness_reader import register

    began = time.time()
    limit = per_batch if per_batch is not None else 5_000
    register(spark, str(log), began, rate, keys, skew, share, limit, contender)
    stream = spark.readStream.format("thalweg_updates").load()
    done: list[tuple[float, int, float]] = []

    def each(df: Any, _: int) -> None:
        from pyspark.sql.functions import max_by

        start = time.time()
        if contender == "newest per key":
            df = df.groupBy("key").agg(max_by("number", "number").alias("number"))
        _serve(df)
        end = int(log.read_text().split()[-1])
        done.append((time.time(), end, time.time() - start))

    query = stream.writeStream.foreachBatch(each).option(
        "checkpointLocation", f"{scratch}/checkpoint"
    )
    running = query.trigger(processingTime="0 seconds").start()
    running.awaitTermination(int(seconds))
    durations = [each.batchDuration / 1000 for each in running.recentProgress if each.numInputRows]
    running.stop()
    shutil.rmtree(scratch, ignore_errors=True)
    read = sum(each.numInputRows for each in running.recentProgress)
    if per_batch is None and contender == "append":
        warm = done[1:]
        rows = warm[-1][1] - done[0][1]
        return {"rows": rows, "worked": warm[-1][0] - done[0][0]}
    stale = _staleness(done, keys, skew, rate, began, seconds, share)
    return {
        **stale,
        "rows": read,
        "arrived": int(rate * seconds),
        "batch": float(np.median(durations[1:])) if len(durations) > 1 else None,
    }


def _staleness(
    done: list[tuple[float, int, float]],
    keys: int,
    skew: float,
    rate: float,
    began: float,
    seconds: float,
    share: float,
) -> dict[str, float]:
    """From when each micro-batch was done and how far it came."""
    total = int(rate * seconds)
    rows = row_keys(0, total, keys, skew)
    order = np.argsort(rows, kind="stable")
    following = np.full(total, total)
    same = rows[order[:-1]] == rows[order[1:]]
    following[order[:-1][same]] = order[1:][same]
    pending = np.full(keys, total)
    pending[rows[order[::-1]]] = order[::-1]
    at, position = 0, 0
    found: dict[str, list[tuple[float, float]]] = {"late": [], "middle": []}
    for sample in np.arange(seconds / 3, seconds, 1.0):
        while at < len(done) and done[at][0] - began <= sample:
            end = min(done[at][1], total)
            served = np.arange(position, end) if share >= 1 else is_kept(position, end, share)
            pending[rows[served]] = following[served]
            position, at = max(position, end), at + 1
        arrived = pending / rate
        stale: Floats = np.where(arrived <= sample, sample - arrived, 0.0)
        known = stale[np.unique(rows[: int(sample * rate)])]
        third = "late" if sample > seconds * 2 / 3 else "middle"
        found[third].append((float(known.mean()), float(np.percentile(known, 99))))
    late, middle = np.array(found["late"]), np.array(found["middle"])
    return {
        "average": float(late[:, 0].mean()),
        "p99": float(late[:, 1].mean()),
        "p99 before": float(middle[:, 1].mean()),
    }

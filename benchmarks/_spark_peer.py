"""Spark's own engine as its best user would set it up: as many partitions as cores, the RocksDB
store with changelog checkpointing (or the default store, where that is the faster one), and
checkpoint files written the same way as ours, which saves most of the processes that Hadoop starts
for each small file."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any, Literal

__all__ = ["PEERS", "STORES", "Store", "durations", "has_session", "peer_session", "peer_settings"]

Store = Literal["rocksdb", "default", "default, plain files"]
STORES: tuple[Store, ...] = ("rocksdb", "default")
PEERS: tuple[Store, ...] = (*STORES, "default, plain files")
"""The last one writes its checkpoint as Spark does unless it is told otherwise."""

_PROVIDERS = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "default": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}

_FILES = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    "checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}


def peer_settings(store: Store, memory: str = "6g") -> dict[str, str]:
    """What its best user would set."""
    cores = os.cpu_count() or 1
    files = {} if store.endswith("plain files") else _FILES
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": _PROVIDERS[store.partition(",")[0]],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        **files,
    }


def peer_session(store: Store, memory: str = "6g") -> Any:
    """A plain Spark session without anything of ours."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("peer")
    for name, value in peer_settings(store, memory).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def has_session() -> bool:
    """Whether this process has a session of either engine, and has run a query in it."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def durations(begin: Callable[[str], Any], *, batches: int, budget_s: float) -> list[float]:
    """Seconds of each micro-batch that had input, in order, of a query that `begin` starts with a
    checkpoint; at most so many, and none that begins after the budget."""
    checkpoint = tempfile.mkdtemp(prefix="thalweg-bench-")
    started = time.monotonic()
    query = begin(checkpoint)
    try:
        while query.isActive:
            query.awaitTermination(1)
            seen = [entry for entry in query.recentProgress if entry.numInputRows]
            over = time.monotonic() - started > budget_s and len(seen) >= 2
            if over or len(seen) >= batches:
                break
        reports = [entry for entry in query.recentProgress if entry.numInputRows]
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    return [entry.batchDuration / 1000 for entry in reports[:batches]]

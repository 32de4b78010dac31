"""A Spark session with the settings that this system needs from the first run on (most are fixed
for a checkpoint).

Everything stays on loopback; a dead Python worker is tried again; workers run this interpreter.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from thalweg.spark.java import require_java

__all__ = ["SETTINGS", "UNWEIGHED", "applied", "check_session", "session"]

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

SETTINGS: dict[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "512",
    "spark.sql.streaming.stopTimeout": "10s",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Spark keeps one daemon for each environment of its Python workers, and these two are part of
    # it: alike for every kind of worker, so that one daemon, imported once, serves all.
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "thalweg.spark.daemon",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}

UNWEIGHED = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
"""Spark ends a batch of rows for Python by its bytes too, unless the limit is this. It then
computes the size of the whole batch anew for every row, which takes half of the time of handing
rows over. Rows that are packed must be weighed: few of them are many bytes."""

_NEEDED = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.session.timeZone": "UTC",
}


def session(master: str | None = None, *, name: str = "thalweg", **settings: Any) -> SparkSession:
    """The running session, or a new one: on `master`, on that of `spark-submit`, else `local[*]`
    with retries.

    What `spark-submit` was told with `--conf` stays as it is.
    More settings are given with their dots as underscores' doubles: `spark__driver__memory="4g"`.
    """
    if SparkSession.getActiveSession() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        require_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    submitted = _submitted()
    chosen = master or submitted.get("spark.master") or os.environ.get("SPARK_MASTER")
    builder = builder.master(_with_retries(chosen or "local[*]"))
    for key, value in SETTINGS.items():
        builder = builder.config(key, submitted.get(key, value))
    for key, value in settings.items():
        builder = builder.config(key.replace("__", "."), str(value))
    existing = SparkSession.getActiveSession()
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if existing is None:
        Thread(target=_warm_up, args=(spark,), name="thalweg-warm-up", daemon=True).start()
    return spark


def _warm_up(spark: SparkSession) -> None:
    """Do beside the first query's planning what it would otherwise wait for: Python workers, Python
    sources, the state store's library."""
    try:
        spark.range(1).mapInArrow(_same, "id long").collect()
        jvm: Any = spark.sparkContext._jvm
        jvm.org.rocksdb.RocksDB.loadLibrary()
    except (
        Exception
    ) as reason:  # whatever is wrong, the query itself will say where it can be acted upon
        logging.getLogger(__name__).debug("nothing was warmed up: %s", reason)


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def _submitted() -> dict[str, str]:
    """What was given to `spark-submit`, which starts the JVM before the script."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    # before it is connected to the JVM, a configuration knows nothing
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _with_retries(master: str) -> str:
    """Spark gives tasks of a plain local master one attempt: one dead Python worker would end the
    query.

    >>> [_with_retries(master) for master in ("local", "local[2]", "local[*,8]", "spark://host:7077")]
    ['local[1,4]', 'local[2,4]', 'local[*,8]', 'spark://host:7077']
    """
    plain = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{plain[1] or 1},4]" if plain else master


@contextmanager
def applied(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for one query: it takes those that hold when it starts, and the session has its own
    again afterwards."""
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, known in before.items():
            if known is not None:
                spark.conf.set(key, known)


def check_session(spark: SparkSession) -> None:
    """Put right what can still be changed in a session that was made elsewhere."""
    for key, value in _NEEDED.items():
        if spark.conf.get(key, None) != value:
            spark.conf.set(key, value)
    for key, value in SETTINGS.items():
        if key.startswith("spark.sql.streaming.stateStore.rocksdb."):
            spark.conf.set(key, value)

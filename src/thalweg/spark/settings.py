"""The settings of Spark that this system needs: of a session, of a query, of a checkpoint. Most are
fixed for a checkpoint from its first run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

__all__ = [
    "CHECKPOINT_FILES",
    "LOCAL_FILES",
    "SETTINGS",
    "UNWEIGHED",
    "applied",
    "needed_settings",
]

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

SETTINGS: dict[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    # A worker remembers the slices that it wrote, so the store is read at a restart only: a larger
    # cache fills for many minutes (resident memory grows by 17 MB a minute) and is of no use.
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "64",
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
rows over. Packed rows are large, so their batches stay limited by bytes."""

CHECKPOINT_FILES = {
    # Without side files of checksums, which Spark removes again: each of the two files would cost a
    # process of its own that sets its permissions.
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # Another file of checksums for each file of state. The blocks of the store, the entries of its
    # change logs and our slices have their own.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
"""How a query writes its checkpoint: several small files for every micro-batch."""

LOCAL_FILES = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming."
        "checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Hadoop has two interfaces for files. Through the one that Spark prefers, every small file of a
checkpoint on a local disk costs five processes (one `chmod`, four `readlink`), through the other
one: a micro-batch is 60 to 100 ms shorter. What only the first can do, to refuse atomically to
replace a file, is for several drivers over one checkpoint, which a lock keeps apart."""

_NEEDED = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def applied(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for one query: it takes those that hold when it starts, and the session has its own
    again afterwards."""
    before = dict(spark.conf.getAll)
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            if key in before:
                spark.conf.set(key, before[key])
            else:
                spark.conf.unset(key)


def needed_settings(spark: SparkSession) -> dict[str, str]:
    """What a query needs of a session that was made elsewhere; the query takes it with it."""
    rocksdb = {
        key: value
        for key, value in SETTINGS.items()
        if key.startswith("spark.sql.streaming.stateStore.rocksdb.")
    }
    wanted = {**_NEEDED, **rocksdb}
    return {key: value for key, value in wanted.items() if spark.conf.get(key, None) != value}

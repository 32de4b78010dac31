"""A Spark session with the settings that this system needs.

Everything stays on loopback; a dead Python worker is tried again; workers run this interpreter.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from thalweg.errors import PlanError
from thalweg.spark.jvm.local_files import use_local_files
from thalweg.spark.processes.archive_building import build_after_exit
from thalweg.spark.processes.class_archive import OPTIONS, archive_options
from thalweg.spark.processes.java import require_java
from thalweg.spark.processes.quiet import quiet_start
from thalweg.spark.processes.spark_home import home_without_archive
from thalweg.spark.processes.warm_python import python_for_workers, start_template
from thalweg.spark.settings import LOCAL_FILES, SETTINGS

__all__ = [
    "check_session",
    "current_session",
    "is_remote",
    "parallelism",
    "refuse_remote",
    "session",
]

_TRIMMED_MEMORY = "-XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=30000"
"""Twice a minute the JVM gives memory back that the state store has freed: malloc keeps it, thread
by thread, so that resident memory would grow for long while what is in use stays the same. A Java
that cannot do it ignores the option."""


def session(master: str | None = None, *, name: str = "thalweg", **settings: Any) -> SparkSession:
    """The running session, or a new one: on `master`, on that of `spark-submit`, else `local[*]`
    with retries.

    Settings that were given to `spark-submit` with `--conf` stay as they are. More settings are
    keywords with two underscores for each dot: `spark__driver__memory="4g"`.
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
    existing = SparkContext._active_spark_context is not None
    launches = not existing and "PYSPARK_GATEWAY_PORT" not in os.environ
    local = str(chosen or "local").startswith("local")
    given = {key.replace("__", "."): str(value) for key, value in settings.items()}
    java = _java_options() if launches and OPTIONS not in given else {}
    files = LOCAL_FILES if launches and local else {}
    for key, value in {**files, **java, **given}.items():
        builder = builder.config(key, value)
    if launches and local and os.environ["PYSPARK_PYTHON"] == sys.executable:
        start_template()
    with quiet_start(launches=launches), home_without_archive(launches=launches and local):
        spark = builder.getOrCreate()
    if launches and local:
        if spark.sparkContext.pythonExec == sys.executable:
            spark.sparkContext.pythonExec = python_for_workers()
        use_local_files(spark.sparkContext)
        if OPTIONS not in given:
            build_after_exit()
    if not existing:
        spark.sparkContext.setLogLevel("ERROR")
        Thread(target=_warm_up, args=(spark,), name="thalweg-warm-up", daemon=True).start()
    return spark


def _java_options() -> dict[str, str]:
    return {OPTIONS: " ".join([_TRIMMED_MEMORY, *archive_options().values()])}


def current_session() -> SparkSession:
    """The session that is there, as it is; else a new one."""
    return SparkSession.getActiveSession() or session()


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
    # before it is connected to the JVM, a configuration is empty
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _with_retries(master: str) -> str:
    """Spark gives tasks of a plain local master one attempt: one dead Python worker would end the
    query.

    >>> masters = ("local", "local[2]", "local[*,8]", "spark://host:7077")
    >>> [_with_retries(master) for master in masters]
    ['local[1,4]', 'local[2,4]', 'local[*,8]', 'spark://host:7077']
    """
    plain = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{plain[1] or 1},4]" if plain else master


def check_session(spark: SparkSession) -> None:
    """Refuse a session that no query could run in."""
    if not is_remote(spark):
        _check_python(str(spark.sparkContext.pythonExec))


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is a client of a Spark server (Spark Connect)."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def refuse_remote(spark: SparkSession | None) -> None:
    """Refuse to start in a server what has to run in this process."""
    used = spark or SparkSession.getActiveSession()
    if used is not None and is_remote(used):
        raise PlanError(
            "start: through Spark Connect what is done with each micro-batch runs in the server, "
            "out of this process's reach; write frame(query, checkpoint=...) with Spark's own "
            "writeStream instead, or give spark= a session that was made with .master(...)."
        )


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once; a client asks the server how it divides rows."""
    if not is_remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    parts = spark.range(1 << 16).select(spark_partition_id().alias("part")).distinct()
    return max(int(parts.count()), 1)


@cache
def _check_python(executable: str) -> None:
    """Refuse workers that run another Python than this process: what is sent to them could not be
    read there."""
    found = shutil.which(executable)
    if found is None or Path(found).samefile(sys.executable):
        return  # a program that is not here may be on the machines of a cluster
    version = "import sys; print('%d.%d' % sys.version_info[:2])"
    asked = subprocess.run([found, "-c", version], check=False, capture_output=True, text=True)
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if asked.returncode == 0 and asked.stdout.strip() != here:
        raise PlanError(
            f"Spark's workers run Python {asked.stdout.strip()} ({found}), this process runs "
            f"{here}. Set PYSPARK_PYTHON to {sys.executable} before the session is made."
        )

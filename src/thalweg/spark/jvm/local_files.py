"""Files on the local disk, as the JVM of a local session writes them: see `LocalFiles.java`.

A micro-batch with two buckets writes four small files, and Hadoop would start a process for each:
10 to 15 ms of a micro-batch, and as much processor time.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

from thalweg.spark.jvm.run_time_classes import driver_class

__all__ = ["use_local_files"]

_CHOICE = "fs.file.impl"


def use_local_files(context: SparkContext) -> None:
    """From here on whoever asks Hadoop for the local file system gets ours. One that the user has
    chosen stays."""
    jvm: Any = context._jvm
    jsc: Any = context._jsc
    hadoop, place = jsc.hadoopConfiguration(), jvm.java.net.URI("file:///")
    if hadoop.get(_CHOICE) is not None:
        return
    plain = jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop)
    try:
        ours = driver_class(context, "LocalFiles")
    except Py4JError as reason:  # no compiler
        logging.getLogger(__name__).debug("files are written by processes: %s", reason)
        plain.setWriteChecksum(False)
        return
    knows_ours = jvm.org.apache.hadoop.conf.Configuration(hadoop)
    knows_ours.setClassLoader(ours.getClassLoader())
    knows_ours.set(_CHOICE, ours.getName())
    plain.close()  # Hadoop keeps one for all; the next that it makes takes the place
    jvm.org.apache.hadoop.fs.FileSystem.get(place, knows_ours)

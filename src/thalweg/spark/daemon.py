"""The daemon that Spark forks its Python workers from, with everything a worker needs already
imported.

`spark.python.daemon.module` names it. A fork inherits the modules, so that a new worker works at
once. Spark collects garbage in a worker after every task: what was imported is frozen, so that it
is not searched again each time, which took longer than the task itself.
"""

from __future__ import annotations

import gc

import pyspark.sql.streaming.proto.StateMessage_pb2
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import thalweg.shards.egress
import thalweg.spark.processor  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()

"""The daemon that Spark forks its Python workers from, with everything a worker needs already
imported.

`spark.python.daemon.module` names it. A fork inherits the modules, so that a new worker works at
once.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import thalweg.shards.egress
import thalweg.spark.processor  # noqa: F401

if __name__ == "__main__":
    manager()

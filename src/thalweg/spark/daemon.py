"""The daemon that Spark forks its Python workers from, with everything a worker needs already
imported.

`spark.python.daemon.module` names it, also in settings of users, so that it keeps its place. A fork
inherits the modules, so that a new worker works at once. Spark collects garbage in a worker after
every task: what was imported is frozen, so that it is not searched again each time, which took
longer than the task itself.
"""

from __future__ import annotations

import gc
import os

from pyspark.daemon import manager

import thalweg.spark.processes.imported_by_workers  # noqa: F401
from thalweg.spark.processes.holders import share_holders

if __name__ == "__main__":
    os.setpgid(0, 0)  # Spark's signals to a daemon's group reach what is forked here
    gc.collect()
    gc.freeze()
    share_holders()
    manager()

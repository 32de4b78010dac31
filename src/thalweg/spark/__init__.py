"""Queries on Spark Structured Streaming: the only package that imports pyspark.

>>> from thalweg import spark                                                       # doctest: +SKIP
>>> packets = spark.from_files("packets", time="ts", disorder="1 min", late="drop") # doctest: +SKIP
>>> running = spark.start(packets.group_by("src").tumbling("1 min").aggregate(n=tw.count()))  # doctest: +SKIP
"""

from thalweg.errors import require_package

require_package("pyspark", "spark", "thalweg.spark")

from thalweg.spark.element_feed import from_elements  # noqa: E402 - after the package is known to be there
from thalweg.spark.generator import from_generator  # noqa: E402 - after the package is known to be there
from thalweg.spark.host import HostedStatus, SparkHost, host  # noqa: E402 - after the package is known to be there
from thalweg.spark.merge_feed import merge_logs  # noqa: E402 - after the package is known to be there
from thalweg.spark.receiver_feed import receiver_of  # noqa: E402 - after the package is known to be there
from thalweg.spark.running import QueryStatus, RunningQuery, explain, frame, start  # noqa: E402 - after the package is known to be there
from thalweg.spark.session import session  # noqa: E402 - after the package is known to be there
from thalweg.spark.streams import from_files, from_receiver, from_spark  # noqa: E402 - after the package is known to be there

__all__ = [
    "HostedStatus",
    "QueryStatus",
    "RunningQuery",
    "SparkHost",
    "explain",
    "frame",
    "from_elements",
    "from_files",
    "from_generator",
    "from_receiver",
    "from_spark",
    "host",
    "merge_logs",
    "receiver_of",
    "session",
    "start",
]

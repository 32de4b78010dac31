"""Queries on Spark Structured Streaming: the only package that imports pyspark.

    starting, preparing, running   a query from its plan to its end
    host                           queries that come and go while one Spark query runs
    session, settings              the Spark session
    sources/                       readers, and DataFrames
    stages/                        what runs in Spark's tasks
    sinks/                         where the answers of a micro-batch go
    processes/                     the JVM and the Python processes that Spark runs
    jvm/                           Java classes of ours

>>> from thalweg import spark                                                       # doctest: +SKIP
>>> packets = spark.from_files("packets", time="ts", disorder="1 min", late="drop") # doctest: +SKIP
>>> windows = packets.group_by("src").tumbling("1 min")                             # doctest: +SKIP
>>> running = spark.start(windows.aggregate(n=tw.count()))                          # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from thalweg._on_demand import names_on_demand
from thalweg.errors import require_package

require_package("pyspark", "spark", "thalweg.spark")

if TYPE_CHECKING:
    from thalweg.shards.host.figures import HostedStatus
    from thalweg.shards.reports.query_figures import QueryStatus
    from thalweg.spark.host import SparkHost, host
    from thalweg.spark.running import RunningQuery
    from thalweg.spark.session import session
    from thalweg.spark.sources.element_feed import from_elements
    from thalweg.spark.sources.generator_feed import from_generator
    from thalweg.spark.sources.merge_feed import merge_logs
    from thalweg.spark.sources.receiver_feed import receiver_of
    from thalweg.spark.sources.streams import from_files, from_receiver, from_spark
    from thalweg.spark.starting import explain, frame, start

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

_find = names_on_demand(__name__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _find(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Feeds: where the rows of a source come from on Spark, and how they become chunks of the exchange.

Rows of a DataFrame come by `frame_feed`; files are read by our own reader with ingest fused in
(`file_feed`).
"""

from __future__ import annotations

import uuid
from typing import Any, Protocol, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from thalweg.errors import PlanError
from thalweg.plan.nodes import Node, Source, walk
from thalweg.shards.exchange.chunk import EXCHANGE_COLUMNS
from thalweg.shards.host.host_ingest import AnyIngest, HostIngest
from thalweg.shards.sources.source_feed import SourceFeed
from thalweg.spark.sources.versioned import VersionedReader

__all__ = ["Feed", "feeds_of", "load_reader"]


def load_reader(
    spark: SparkSession, reader: DataSourceStreamReader, ingest: AnyIngest
) -> DataFrame:
    """A stream of exchange rows from a reader, which is sent to the workers as it is. In a host it
    reads for one version of the queries after the other.

    Spark calls for its name, schema and reader in separate processes. They get a reader that is
    still packed, so that none of them imports what only reading needs. A reader may have `offsets`,
    the only part that is unpacked where Spark plans what to read.
    """
    offsets = getattr(reader, "offsets", reader)
    if isinstance(ingest, HostIngest):
        reader = offsets = VersionedReader(reader, ingest, ingest.registry)
    name = f"thalweg_{uuid.uuid4().hex}"
    packed, packed_offsets = (cast(Any, cloudpickle).dumps(part) for part in (reader, offsets))
    spark.dataSource.register(_data_source(name, _packed_reader(packed, packed_offsets)))
    return spark.readStream.format(name).load()


def _packed_reader(packed: bytes, packed_offsets: bytes) -> type[DataSourceStreamReader]:
    """A reader that unpacks its parts when they are called."""

    class Packed(DataSourceStreamReader, SupportsTriggerAvailableNow):
        def __init__(self) -> None:
            self._offsets: Any = None

        def _unpacked_offsets(self) -> Any:
            if self._offsets is None:
                import thalweg.spark.processes.unpacking

                self._offsets = thalweg.spark.processes.unpacking.unpacked(packed_offsets)
            return self._offsets

        def initialOffset(self) -> Any:
            return self._unpacked_offsets().initialOffset()

        def getDefaultReadLimit(self) -> Any:
            return self._unpacked_offsets().getDefaultReadLimit()

        def prepareForTriggerAvailableNow(self) -> None:
            self._unpacked_offsets().prepareForTriggerAvailableNow()

        def latestOffset(self, start: Any, limit: Any) -> Any:
            return self._unpacked_offsets().latestOffset(start, limit)

        def partitions(self, start: Any, end: Any) -> Any:
            return self._unpacked_offsets().partitions(start, end)

        def read(self, partition: Any) -> Any:
            import thalweg.spark.processes.unpacking

            return thalweg.spark.processes.unpacking.unpacked(packed).read(partition)

    Packed.__module__ = "__main__"  # pickled by value, with the reader
    return Packed


def _data_source(name: str, reader: type[DataSourceStreamReader]) -> type[DataSource]:
    columns = EXCHANGE_COLUMNS  # a local: Spark's processes need not import this module for it

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return reader()

    Source.__module__ = "__main__"  # pickled by value, with the reader
    return Source


def feeds_of(root: Node) -> dict[str, Feed]:
    """Where the rows of each source come from, where its stream says so."""
    feeds = {
        node.name: node.feed
        for node in walk(root)
        if isinstance(node, Source) and node.feed is not None
    }
    for name, feed in feeds.items():
        if not hasattr(feed, "exchange"):
            raise PlanError(
                f"source {name!r} is a frame in this process, which Spark does not read. Give its "
                "rows to spark.from_spark as a DataFrame, or run the query in-process."
            )
    return feeds


class Feed(SourceFeed, Protocol):
    """Where the rows of a source come from on Spark."""

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        """The rows of the source `name` as chunks of the exchange. `log` is a file in the
        checkpoint that the feed may keep."""

"""Rows of a Spark DataFrame, streaming or static, as the source of a query.

Rows are converted to Arrow and become chunks of the exchange in Python, inside `mapInArrow`. What
is only summed up by keys and pane is summed in the JVM first (`jvm.pane_sums`), and the sums are
converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY
from thalweg.shards.exchange.chunk import EXCHANGE_COLUMNS, UNORDERED
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import Ingest, exchange_rows
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.shards.sources.row_chunks import chunks_of_rows, chunks_of_sums
from thalweg.spark.jvm.pane_sums import Summing, summing_of

__all__ = ["Frame"]


@dataclass(frozen=True)
class Frame:
    """Rows of a Spark DataFrame."""

    df: DataFrame
    times: EventColumns
    named: bool = True

    path: ClassVar[None] = None
    fits_host: ClassVar[bool] = False

    @property
    def ends(self) -> bool:
        return not self.df.isStreaming

    @property
    def makes_promises(self) -> bool:
        return self.times.punctuation is not None

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        where = f"source {name!r}"
        summing = summing_of(spark, self.df, ingest, self.times)
        if isinstance(summing, Summing):
            assert isinstance(ingest, Ingest)
            cells = summing.over(spark, self.df)
            kind = to_arrow_schema(self.df.schema, timezone="UTC").field(self.times.start).type
            rows = cells.mapInArrow(
                chunks_of_sums(ingest, summing.cells.panes, self.times, kind, where),
                EXCHANGE_COLUMNS,
            )
        else:
            wanted = ingest.columns
            read = (f"`{name}`" for name in self.times.columns(schema, wanted))
            rows = self.df.select(*read).mapInArrow(
                chunks_of_rows(ingest, self.times, schema, where), EXCHANGE_COLUMNS
            )
        if self.df.isStreaming:
            return rows

        def end(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            header = Header(progress=Progress(INFINITY))
            yield exchange_rows(ingest.rows(Batch.empty(schema), header, UNORDERED))

        return rows.union(
            spark.range(0, 1, 1, 1).mapInArrow(end, EXCHANGE_COLUMNS)
        )  # a static DataFrame ends

"""An element log as a feed on Spark: each batch of the log is a chunk with the promises after
it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.errors import PlanError, SchemaChangeError
from thalweg.io.element_log import ElementLogReader, form_of_log
from thalweg.model.batch import Batch
from thalweg.model.clocks import Clock
from thalweg.plan.nodes import Source
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import exchange_rows
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.spark.sources.feed import load_reader
from thalweg.spark.sources.offsets import Offset, Part, TypedOffsets
from thalweg.stream import Stream, source

__all__ = ["Elements", "LogFeed", "checked_batch", "from_elements"]


def from_elements(
    folder: str,
    *,
    columns: pa.Schema | None = None,
    clock: Clock = None,
    batches_per_batch: int | None = None,
    name: str | None = None,
    **facts: Any,
) -> Stream:
    """A log of elements as a stream, with its adjusts and its promises: what a query with
    `to="elements"` or `thalweg.io.element_log` writes, new batches as they come, each read once.

    The columns and the clock are those of the log's first batch; `columns` and `clock` say them
    where the log is not there yet. `batches_per_batch` limits what a micro-batch takes. A gap in
    the numbers, another run and a file that was changed are refused.
    """
    if batches_per_batch is not None and batches_per_batch < 1:
        raise PlanError(
            f"from_elements: batches_per_batch must be 1 or more, not {batches_per_batch}."
        )
    place = Path(folder).absolute()
    if columns is None:
        found = form_of_log(place)
        columns, clock = found.schema, found.clock
    node = source(name or place.name, columns, **facts).node
    assert isinstance(node, Source)
    feed = Elements(str(place), batches_per_batch, named=name is not None)
    return Stream(Source(node.name, node.columns, node.ingress, node.declared, feed, clock=clock))


class LogFeed:
    """A feed that reads element logs: promises come among the elements, and more may always
    come."""

    path: ClassVar[None] = None
    fits_host: ClassVar[bool] = False
    times: ClassVar[None] = None
    makes_promises: ClassVar[bool] = True
    ends: ClassVar[bool] = False


@dataclass(frozen=True)
class Elements(LogFeed):
    """The log in a folder."""

    folder: str
    batches_per_batch: int | None = None
    named: bool = True

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        reader = _LogReader(self, ingest, schema, f"source {name!r}")
        return load_reader(spark, reader, ingest)


def checked_batch(batch: Batch, schema: pa.Schema, where: str) -> Batch:
    """A batch of a log, refused where it has other columns than the source."""
    if batch.schema.names == schema.names and batch.schema.types == schema.types:
        return batch
    raise SchemaChangeError(
        f"{where}: the log has the columns {batch.schema.names} of {batch.schema.types}, the source"
        f" declared {schema.names} of {schema.types}."
    )


@dataclass
class _Batches(Part):
    """Batches of the log from one number up to another."""

    begin: int
    end: int
    run: str


@dataclass(frozen=True)
class _LogOffset(Offset):
    batch: int
    """The number of the next batch."""
    run: str
    """The run that wrote those before."""


class _LogReader(TypedOffsets[_LogOffset], DataSourceStreamReader, SupportsTriggerAvailableNow):
    offset_type = _LogOffset

    def __init__(self, feed: Elements, ingest: AnyIngest, schema: pa.Schema, where: str) -> None:
        self._feed, self._ingest, self._schema, self._where = feed, ingest, schema, where
        self._target: int | None = None

    def _reader(self, position: int, run: str) -> ElementLogReader:
        return ElementLogReader(Path(self._feed.folder), position, run or None)

    def initial(self) -> _LogOffset:
        return _LogOffset(0, "")

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._reader(0, "").available()

    def latest(self, start: _LogOffset, limit: ReadLimit) -> _LogOffset:
        reader = self._reader(start.batch, start.run)
        end = start.batch + reader.available()
        if self._target is not None:
            end = max(start.batch, min(end, self._target))
        if self._feed.batches_per_batch is not None:
            end = min(end, start.batch + self._feed.batches_per_batch)
        run = start.run
        if not run and end:
            reader.take()
            run = reader.run or ""
        return _LogOffset(end, run)

    def parts(self, start: _LogOffset, end: _LogOffset) -> list[InputPartition]:
        if end.batch == start.batch:
            return []
        return [_Batches(start.batch, end.batch, end.run)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Batches)
        reader = self._reader(partition.begin, partition.run)
        for number in range(partition.begin, partition.end):
            batch = checked_batch(reader.take(), self._schema, self._where)
            header = Header.of_batch(batch, begin=number, end=number + 1)
            yield exchange_rows(self._ingest.rows(batch, header, number))

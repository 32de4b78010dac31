"""Feeds: where the rows of a source come from on Spark, and how they become chunks of the exchange.

Rows of a DataFrame come by `frame_feed`; files are read by our own reader with ingest fused in
(`file_feed`).
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from thalweg.errors import SchemaChangeError, TimeRangeError
from thalweg.expr import Expr, Frame
from thalweg.io.events import batches_from, events
from thalweg.io.records import DeadLetters, rows_with_times
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.punctuation import ANY, Punctuation, Range
from thalweg.model.time import time_us
from thalweg.shards.exchange import EXCHANGE_COLUMNS, Header
from thalweg.shards.host_ingest import AnyIngest, HostIngest
from thalweg.spark.versioned import VersionedReader

__all__ = ["Feed", "Times", "load_reader"]


@dataclass(frozen=True)
class Times:
    """The columns that hold the times of rows; without `end`, rows last `duration` ticks.

    Rows for which `punctuation` is true are no events: each promises that nothing before its time
    will come any more, of its own values of the columns `per` if there are any.
    """

    start: str
    end: str | None = None
    duration: int = 1
    punctuation: Expr | None = None
    per: tuple[str, ...] = ()
    ranges: tuple[tuple[str, str, str], ...] = ()
    """Of a row of punctuation: a column of the events, or their time, and the two columns that hold
    the range of its values, [low, high); null: without a limit."""

    def columns(self, schema: pa.Schema, used: Container[str] | None = None) -> list[str]:
        """The columns to read: those of times and punctuation, and the payload, or only its `used`
        columns."""
        needed = [
            self.start,
            *([self.end] if self.end else []),
            *(sorted(self.punctuation.columns()) if self.punctuation is not None else []),
            *self.per,
            *(name for span in self.ranges for name in span),
        ]
        payload = (name for name in schema.names if used is None or name in used)
        return list(dict.fromkeys([*needed, *payload]))

    def chunk(
        self,
        table: pa.Table,
        schema: pa.Schema,
        where: str,
        dead_letters: DeadLetters | None = None,
    ) -> tuple[Batch, Header]:
        """Rows as a batch of inserts, and a header with their progress. With `dead_letters`, rows
        without valid times go there."""
        if dead_letters is not None:
            table = rows_with_times(table, self.start, self.end, self.duration, dead_letters, where)
        promise, patterns = NO_PROGRESS, []
        if self.punctuation is not None and len(table):
            rows = table.combine_chunks().to_batches()[0]
            is_punctuation = (
                self.punctuation.evaluate(Frame.of(rows)).cast(pa.bool_()).fill_null(False)
            )
            marks = table.filter(is_punctuation)
            if self.ranges:
                patterns = [pattern.to_text() for pattern in self._patterns(marks)]
            else:
                promise = self._promise(marks, schema)
            table = table.filter(pc.invert(is_punctuation))
        batch = self.batch(table, schema, where)
        newest = int(batch.start.max()) if len(batch) else None
        header = Header.of_progress(promise, newest=newest, rows=len(batch))
        return batch, replace(header, patterns=patterns) if patterns else header

    def _patterns(self, marks: pa.Table) -> Iterator[Punctuation]:
        """Rows of punctuation about ranges, one by one: they are few. Their own time has no
        meaning."""
        for row in marks.to_pylist():
            time = Range()
            patterns: dict[str, Any] = {name: row[name] for name in self.per}
            for name, low, high in self.ranges:
                if row[low] is None and row[high] is None:
                    continue
                if name == self.start:
                    time = Range(
                        *(None if row[n] is None else time_us(row[n]) for n in (low, high))
                    )
                else:
                    patterns[name] = Range(row[low], row[high])
            if patterns or time != ANY:
                yield Punctuation(time, patterns)

    def _promise(self, marks: pa.Table, schema: pa.Schema) -> Progress:
        """What rows of punctuation promise together."""
        if not len(marks):
            return NO_PROGRESS
        times = events(marks.select([self.start]), self.start, keep_times=True).column("_start")
        if not self.per:
            return Progress(int(times.to_numpy().max()))
        values = [marks.column(name).cast(schema.field(name).type) for name in self.per]
        latest = (
            pa.table([*values, times], names=[*self.per, "_promise"])
            .group_by(list(self.per))
            .aggregate([("_promise", "max")])
        )
        groups = zip(*(latest.column(name).to_pylist() for name in self.per), strict=True)
        return Progress(
            NO_PROGRESS.cti,
            self.per,
            dict(zip(groups, latest.column("_promise_max").to_pylist(), strict=True)),
        )

    def batch(self, table: pa.Table, schema: pa.Schema, where: str) -> Batch:
        """Rows as a batch of inserts."""
        needed = [name for name in (self.start, self.end) if name is not None]
        names = [*needed, *(name for name in schema.names if name not in needed)]
        missing = [name for name in names if name not in table.schema.names]
        if missing:
            raise SchemaChangeError(
                f"{where}: there is no column {missing[0]!r}; the columns are "
                f"{', '.join(table.schema.names)}."
            )
        try:
            timed = events(
                table.select(names), self.start, self.end, duration=self.duration, keep_times=True
            )
        except TimeRangeError as reason:
            raise TimeRangeError(f"{where}: {reason}") from reason
        kept = timed.select(["_start", "_end", *schema.names])
        casts = [kept.column(name) for name in ("_start", "_end")]
        casts += [_as_declared(kept.column(entry.name), entry, where) for entry in schema]
        (batch,) = batches_from(
            pa.Table.from_arrays(casts, names=["_start", "_end", *schema.names]), schema, where
        )
        return batch


def _as_declared(column: pa.ChunkedArray, declared: pa.Field, where: str) -> pa.ChunkedArray:
    """A column with the type of the source, if it only takes another form for the same values."""
    if column.type == declared.type:
        return column
    try:
        if _is_text(column.type) != _is_text(declared.type) and not pa.types.is_null(column.type):
            raise pa.ArrowInvalid("text and what is no text do not mix")
        return column.cast(declared.type)
    except pa.ArrowException as reason:
        raise SchemaChangeError(
            f"{where}: the column {declared.name!r} is {column.type}, the source declared "
            f"{declared.type}: {str(reason).rstrip('.')}."
        ) from reason


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


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
                import thalweg.spark.unpacking

                self._offsets = thalweg.spark.unpacking.unpacked(packed_offsets)
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
            import thalweg.spark.unpacking

            return thalweg.spark.unpacking.unpacked(packed).read(partition)

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


class Feed(Protocol):
    """Where the rows of a source come from. An attribute `makes_promises` that is false means that
    no row of it is a promise."""

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        """The rows of the source `name` as chunks of the exchange. `log` is a file in the
        checkpoint that the feed may keep."""

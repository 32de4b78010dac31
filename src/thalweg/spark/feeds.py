"""Feeds: where the rows of a source come from on Spark, and how they become chunks of the exchange.

Files(...)     files in a folder, read by our own reader with ingest fused in
Frame(df)      any Spark DataFrame, streaming or static; its rows pass through `mapInArrow`
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from thalweg.errors import PlanError, SchemaChangeError, StateError, TimeRangeError
from thalweg.expr import Expr
from thalweg.expr import Frame as Frame_
from thalweg.io.events import batches_from, events
from thalweg.io.files import FORMATS, FileLog, read_file
from thalweg.io.records import DeadLetters, timed_events
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.time import INFINITY
from thalweg.shards.exchange import EXCHANGE_COLUMNS, UNORDERED, Header
from thalweg.shards.ingest import Ingest, exchange_rows

__all__ = ["Feed", "Files", "Frame", "Times", "load_reader"]

_FILE = 1_000_000
"""Positions are file number times this plus the chunk's number in its file."""


@dataclass(frozen=True)
class Times:
    """Which columns of the rows say when: `end` None makes them points that last `duration` ticks.

    Rows for which `punctuation` is true are no events: each promises that nothing before its time
    will come any more, of its own values of the columns `per` if there are any.
    """

    start: str
    end: str | None = None
    duration: int = 1
    punctuation: Expr | None = None
    per: tuple[str, ...] = ()

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns that are read from the rows."""
        needed = [
            self.start,
            *([self.end] if self.end else []),
            *(sorted(self.punctuation.columns()) if self.punctuation is not None else []),
        ]
        return list(dict.fromkeys([*needed, *schema.names]))

    def chunk(
        self, table: pa.Table, schema: pa.Schema, where: str, letters: DeadLetters | None = None
    ) -> tuple[Batch, Header]:
        """Rows as a batch of inserts, and what they say about progress. With `letters`, rows whose
        times are no times are noted there."""
        if letters is not None:
            needed = [name for name in (self.start, self.end) if name is not None]
            kept = timed_events(table, lambda rows: self._with_times(rows, needed), letters, where)
            table = pa.concat_tables([table.slice(0, 0), *kept])
        promise = NO_PROGRESS
        if self.punctuation is not None and len(table):
            rows = table.combine_chunks().to_batches()[0]
            said = self.punctuation.evaluate(Frame_.of(rows)).cast(pa.bool_()).fill_null(False)
            promise = self._promise(table.filter(said), schema)
            table = table.filter(pc.invert(said))
        batch = self.batch(table, schema, where)
        newest = int(batch.start.max()) if len(batch) else None
        return batch, Header.of_progress(promise, newest=newest, rows=len(batch))

    def _promise(self, marks: pa.Table, schema: pa.Schema) -> Progress:
        """What rows of punctuation say together."""
        if not len(marks):
            return NO_PROGRESS
        said = events(marks.select([self.start]), self.start, keep_times=True).column("_start")
        if not self.per:
            return Progress(int(said.to_numpy().max()))
        values = [marks.column(name).cast(schema.field(name).type) for name in self.per]
        latest = (
            pa.table([*values, said], names=[*self.per, "_said"])
            .group_by(list(self.per))
            .aggregate([("_said", "max")])
        )
        groups = zip(*(latest.column(name).to_pylist() for name in self.per), strict=True)
        return Progress(
            NO_PROGRESS.cti,
            self.per,
            dict(zip(groups, latest.column("_said_max").to_pylist(), strict=True)),
        )

    def _with_times(self, table: pa.Table, needed: list[str]) -> pa.Table:
        """The rows, if all of their times are times."""
        if all(
            name in table.schema.names for name in needed
        ):  # a column that is not there is told of by `batch`
            events(table.select(needed), self.start, self.end, duration=self.duration)
        return table

    def batch(self, table: pa.Table, schema: pa.Schema, where: str) -> Batch:
        """Rows as a batch of inserts."""
        needed = [name for name in (self.start, self.end) if name is not None]
        wanted = [*needed, *(name for name in schema.names if name not in needed)]
        missing = [name for name in wanted if name not in table.schema.names]
        if missing:
            raise SchemaChangeError(
                f"{where}: there is no column {missing[0]!r}; the columns are {', '.join(table.schema.names)}."
            )
        try:
            timed = events(
                table.select(wanted), self.start, self.end, duration=self.duration, keep_times=True
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
            f"{where}: the column {declared.name!r} is {column.type}, the source declared {declared.type}: {str(reason).rstrip('.')}."
        ) from reason


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


@dataclass(frozen=True)
class Frame:
    """Rows of a Spark DataFrame."""

    df: DataFrame
    times: Times

    def exchange(
        self, spark: SparkSession, ingest: Ingest, schema: pa.Schema, where: str, log: str
    ) -> DataFrame:
        times = self.times

        def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            held: list[pa.RecordBatch] = []
            for rows in batches:
                held.append(rows)
                if sum(part.num_rows for part in held) >= _FILE:
                    yield _packed(pa.Table.from_batches(held), times, schema, where, ingest)
                    held = []
            if held:
                yield _packed(pa.Table.from_batches(held), times, schema, where, ingest)

        rows = self.df.select(*(f"`{name}`" for name in times.columns(schema))).mapInArrow(
            pack, EXCHANGE_COLUMNS
        )
        if self.df.isStreaming:
            return rows

        def end(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield exchange_rows(ingest.rows(Batch.empty(schema), Header(cti=INFINITY), UNORDERED))

        return rows.union(
            spark.range(0, 1, 1, 1).mapInArrow(end, EXCHANGE_COLUMNS)
        )  # what is all there has an end


def _packed(
    table: pa.Table, times: Times, schema: pa.Schema, where: str, ingest: Ingest
) -> pa.RecordBatch:
    batch, header = times.chunk(table, schema, where)
    return exchange_rows(ingest.rows(batch, header, UNORDERED))


@dataclass(frozen=True)
class Files:
    """Files in a folder. `finish` says that what is there when the query starts is all there is
    (with `availableNow`)."""

    folder: str
    format: str
    times: Times | None
    files_per_batch: int | None = None
    tasks: int = 2
    finish: bool = False
    columns: pa.Schema | None = field(default=None, repr=False)
    bad: str = "fail"
    """What becomes of a record that cannot be read: `fail`, or `skip`, which makes a dead letter of
    it."""

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise PlanError(f"the format must be one of {', '.join(FORMATS)}; got {self.format!r}.")

    def exchange(
        self, spark: SparkSession, ingest: Ingest, schema: pa.Schema, where: str, log: str
    ) -> DataFrame:
        FileLog.open(
            Path(self.folder), self.format, Path(log)
        )  # one that is damaged is refused before a process is started for it
        name = Path(log).stem
        return load_reader(spark, _FileReader(_FileJob(self, ingest, schema, where, log, name)))


def load_reader(spark: SparkSession, reader: DataSourceStreamReader) -> DataFrame:
    """A stream of exchange rows from a reader, which travels to the workers as it is."""
    name = f"thalweg_{uuid.uuid4().hex}"
    columns = EXCHANGE_COLUMNS
    packed = cast(Any, cloudpickle).dumps(
        reader
    )  # processes that only ask for name and schema need not import what the reader needs

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            import pickle

            unpacked: DataSourceStreamReader = pickle.loads(packed)  # noqa: S301 - our own, on its way to our own workers
            return unpacked

    Source.__module__ = "__main__"  # pickled by value, with the reader
    spark.dataSource.register(Source)
    return spark.readStream.format(name).load()


class Feed(Protocol):
    """Where the rows of a source come from."""

    def exchange(
        self, spark: SparkSession, ingest: Ingest, schema: pa.Schema, where: str, log: str
    ) -> DataFrame:
        """The rows as chunks of the exchange. `log` is a file in the checkpoint that the feed may
        keep."""


@dataclass(frozen=True)
class _FileJob:
    files: Files
    ingest: Ingest
    schema: pa.Schema
    where: str
    log: str
    name: str = ""


@dataclass
class _Part(InputPartition):
    entries: list[tuple[int, str]]
    end: bool = False

    def __post_init__(self) -> None:
        super().__init__(None)


class _FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"n": files handed out, "ended": 0 or 1}."""

    def __init__(self, job: _FileJob) -> None:
        self._job = job
        self._log: FileLog | None = None
        self._vouched = 0
        self._target: int | None = None

    def _files(self) -> FileLog:
        if self._log is None:
            files = self._job.files
            self._log = FileLog.open(Path(files.folder), files.format, Path(self._job.log))
            self._vouched = len(self._log.names)
        return self._log

    def _refuse_unknown(self, start: int, end: int) -> None:
        """Offsets are of files that were in the log when it was opened, or were handed out since.
        Others found now may stand elsewhere."""
        if not start <= end <= self._vouched:
            raise StateError(
                f"{self._job.where}: the checkpoint asks for files {start} to {end}, the log knew {self._vouched}. "
                "The checkpoint's offsets were changed or do not belong to it; restore the whole checkpoint."
            )

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0, "ended": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._job.files.files_per_batch
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._files().look()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        log = self._files()
        self._refuse_unknown(start["n"], start["n"])
        known = log.look(most, since=start["n"])
        if self._target is not None:
            known = min(known, self._target)
        known = max(known, start["n"])
        self._vouched = max(self._vouched, known)
        ends = self._job.files.finish and self._target is not None and known >= self._target
        return {"n": known, "ended": 1 if ends or start["ended"] else 0}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        log = self._files()
        self._refuse_unknown(start["n"], end["n"])
        entries = list(enumerate(log.names))[start["n"] : end["n"]]
        tasks = max(1, min(self._job.files.tasks, len(entries)))
        parts: list[InputPartition] = [
            _Part(entries[i::tasks]) for i in range(tasks) if entries[i::tasks]
        ]
        if end["ended"] > start["ended"]:
            parts.append(_Part([(end["n"], "")], end=True))
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        job = self._job
        if partition.end:
            header = Header(cti=INFINITY)
            yield exchange_rows(
                job.ingest.rows(Batch.empty(job.schema), header, partition.entries[0][0] * _FILE)
            )
            return
        for number, name in partition.entries:
            yield from self._read_file(number, name)

    def _read_file(self, number: int, name: str) -> Iterator[pa.RecordBatch]:
        job = self._job
        letters = DeadLetters() if job.files.bad == "skip" else None
        pieces = read_file(
            Path(job.files.folder) / name, job.files.format, None, job.files.columns, letters
        )
        position, last = number * _FILE, (number + 1) * _FILE
        piece = next(pieces, None)
        if (
            piece is None
        ):  # set aside: it is passed over, not left out, so that the next one still follows
            yield exchange_rows(
                job.ingest.rows(Batch.empty(job.schema), Header(begin=position, end=last), position)
            )
        while piece is not None:
            following = next(pieces, None)
            end = last if following is None else position + 1
            yield exchange_rows(self._chunk(piece, name, position, end, letters))
            piece, position = following, end
        if letters is not None and letters.count:
            dead = letters.take().combine_chunks().to_batches()[0]
            yield exchange_rows(iter([job.ingest.dead(job.name, dead)]))

    def _chunk(
        self, piece: pa.Table, name: str, begin: int, end: int, letters: DeadLetters | None
    ) -> Iterator[Any]:
        job = self._job
        where = f"{job.where}, file {name}"
        if job.files.times is None:  # a file of elements: its promise is in its metadata
            batch = Batch.from_table(piece)
            header = Header.from_json((piece.schema.metadata or {}).get(b"thalweg", b"{}").decode())
            progress = header.progress
            header = Header.of_progress(progress, begin=begin, end=end, rows=len(batch))
            return job.ingest.rows(batch, header, begin)
        batch, header = job.files.times.chunk(piece, job.schema, where, letters)
        return job.ingest.rows(batch, replace(header, begin=begin, end=end), begin)

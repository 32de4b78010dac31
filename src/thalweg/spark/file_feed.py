"""Files as a feed on Spark: a Python source that numbers them, and reads them with ingest fused
in."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.io.dead_letters import DeadLetters
from thalweg.io.file_log import FileLog, note_repair
from thalweg.io.files import FileForm, read_file
from thalweg.io.formats import END_MARKS, require_format
from thalweg.io.listing import FilePlace, Found
from thalweg.io.partitions import Partitions
from thalweg.io.text import NULLS
from thalweg.io.unwanted import Unwanted
from thalweg.model.batch import Batch
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Node, Source
from thalweg.plan.nodes.traversal import replace as replace_nodes
from thalweg.plan.reach import reach_of_sources
from thalweg.shards.exchange import Header
from thalweg.shards.host_ingest import AnyIngest
from thalweg.shards.ingest import exchange_rows
from thalweg.spark.feeds import Times, load_reader
from thalweg.spark.file_offsets import FileOffsets, FilePart
from thalweg.stream import Stream

__all__ = ["Files", "can_skip", "files_being_read", "skips_unwanted"]

_FILE = 1_000_000
"""Positions are file number times this plus the chunk's number in its file."""


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
    settle_us: int = 1_000_000
    """How long a file of text must not have changed to be read."""
    nulls: tuple[str, ...] = NULLS
    partitions: Partitions = Partitions()
    named: bool = True
    """Whether the user gave the source its name."""
    unwanted: Unwanted | None = None
    """Where it is written which rows are not wanted any more."""

    def __post_init__(self) -> None:
        require_format(self.format, "files")

    @property
    def makes_promises(self) -> bool:
        return self.times is None or self.times.punctuation is not None

    @property
    def form(self) -> FileForm:
        return FileForm(self.format, self.columns, self.nulls, self.partitions)

    def log(self, file: str) -> FileLog:
        return FileLog(FilePlace(self.folder), self.format, Path(file), self.settle_us)

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        self.log(log)  # one that is damaged is refused before a process is started for it
        shutil.rmtree(_reading(log), ignore_errors=True)
        return load_reader(spark, _FileReader(_FileJob(self, ingest, schema, name, log)), ingest)


@dataclass(frozen=True)
class _FileJob:
    files: Files
    ingest: AnyIngest
    schema: pa.Schema
    source: str
    log: str

    @property
    def where(self) -> str:
        return f"source {self.source!r}"

    def offsets(self) -> FileOffsets:
        files, times = self.files, self.files.times
        return FileOffsets(
            self.where,
            files.folder,
            files.format,
            self.log,
            files.settle_us,
            files.files_per_batch,
            files.tasks,
            files.finish,
            files.unwanted,
            None if times is None else times.start,
            1 if times is None else times.duration,
        )


class _FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that `offsets` hands out."""

    def __init__(self, job: _FileJob) -> None:
        self._job = job
        self.offsets = job.offsets()

    def initialOffset(self) -> dict[str, int]:
        return self.offsets.initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return self.offsets.getDefaultReadLimit()

    def prepareForTriggerAvailableNow(self) -> None:
        self.offsets.prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return self.offsets.latestOffset(start, limit)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return self.offsets.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilePart)
        job = self._job
        if partition.end:
            header = Header(cti=INFINITY)
            position = partition.entries[0][0] * _FILE
            yield exchange_rows(job.ingest.rows(Batch.empty(job.schema), header, position))
            return
        for number, found in partition.entries:
            with _noted(_reading(job.log), number, self._place.shown(found.name)):
                newest = self.offsets.newest_unwanted(found, partition.unwanted)
                if newest is None:
                    yield from self._read_file(number, found, partition.unwanted)
                else:
                    yield self._left_out(number, newest)

    @cached_property
    def _place(self) -> FilePlace:
        return FilePlace(self._job.files.folder)

    def _left_out(self, number: int, newest: tuple[int, int]) -> pa.RecordBatch:
        """The chunk of a file that is not read, with its promise."""
        job = self._job
        header = Header(
            newest=newest[0],
            rows=newest[1],
            unwanted=newest[1],
            begin=number * _FILE,
            end=(number + 1) * _FILE,
        )
        return exchange_rows(job.ingest.rows(Batch.empty(job.schema), header, number * _FILE))

    def _read_file(self, number: int, found: Found, unwanted: int) -> Iterator[pa.RecordBatch]:
        job = self._job
        if job.files.format in END_MARKS:
            note_repair(Path(job.log), number, found, self._place)
        dead_letters = DeadLetters() if job.files.bad == "skip" else None
        times = job.files.times
        columns = None if times is None else times.columns(job.schema)
        pieces = read_file(
            self._place, found.name, job.files.form, columns, found=found, letters=dead_letters
        )
        position, last = number * _FILE, (number + 1) * _FILE
        piece = next(pieces, None)
        if piece is None:  # set aside: it is passed over, so that the next one still follows
            yield exchange_rows(
                job.ingest.rows(Batch.empty(job.schema), Header(begin=position, end=last), position)
            )
        while piece is not None:
            following = next(pieces, None)
            end = last if following is None else position + 1
            chunk = self._chunk(piece, found.name, (position, end), dead_letters, unwanted)
            yield exchange_rows(chunk)
            piece, position = following, end
        if dead_letters is not None and dead_letters.count:
            dead = dead_letters.take().combine_chunks().to_batches()[0]
            yield exchange_rows(iter([job.ingest.dead(job.source, dead)]))

    def _chunk(
        self,
        piece: pa.Table,
        name: str,
        position: tuple[int, int],
        dead_letters: DeadLetters | None,
        unwanted: int,
    ) -> Iterator[Any]:
        job, (begin, end) = self._job, position
        where = f"{job.where}, file {self._place.shown(name)}"
        if job.files.times is None:  # a file of elements: its promise is in its metadata
            batch = Batch.from_table(piece)
            header = Header.from_json((piece.schema.metadata or {}).get(b"thalweg", b"{}").decode())
            progress = header.progress
            header = Header.of_progress(progress, begin=begin, end=end, rows=len(batch))
            return job.ingest.rows(batch, header, begin)
        batch, header = job.files.times.chunk(piece, job.schema, where, dead_letters)
        header = replace(header, begin=begin, end=end)
        if unwanted > MIN_TIME:
            kept = batch.end >= unwanted
            header = replace(header, unwanted=len(batch) - int(kept.sum()))
            batch = batch if kept.all() else batch.filter(kept)
        return job.ingest.rows(batch, header, begin)


def skips_unwanted(query: Stream, path: Path) -> Stream:
    """The query with sources that leave out rows that no answer needs, by the time in the file."""
    changes: dict[Node, Node] = {}
    for source, reach in reach_of_sources(query.node).items():
        if can_skip(source):
            feed = replace(source.feed, unwanted=Unwanted(str(path), reach))
            changes[source] = replace(source, feed=feed)
    return Stream(replace_nodes(query.node, changes)) if changes else query


def can_skip(source: Source) -> bool:
    """Whether rows of a source may be left out: files of events of one length, whose promises
    follow from their newest times alone. Then no row changes what is late of rows that end
    later."""
    feed, rules = source.feed, source.ingress
    if not isinstance(feed, Files) or feed.times is None or feed.times.end is not None:
        return False
    by_rows = rules.partition or rules.quarantine or rules.observed or rules.patterns
    by_other_columns = rules.columns or source.conflation or feed.times.punctuation is not None
    return not by_rows and not by_other_columns


def _reading(log: str) -> Path:
    return Path(log).with_suffix(".reading")


@contextlib.contextmanager
def _noted(folder: Path, number: int, name: str) -> Iterator[None]:
    """Note the file that is being read, so that a file that crashes the process can be named."""
    note = folder / str(number)
    with contextlib.suppress(OSError):  # a worker on another machine may not see the checkpoint
        folder.mkdir(parents=True, exist_ok=True)
        note.write_text(name, encoding="utf-8")
    yield
    with contextlib.suppress(OSError):
        note.unlink()


def files_being_read(checkpoint: Path) -> list[str]:
    """The files that workers were reading when they ended."""
    found: list[str] = []
    for note in sorted(checkpoint.glob("thalweg/*.reading/*")):
        with contextlib.suppress(OSError):
            found.append(note.read_text(encoding="utf-8"))
    return found

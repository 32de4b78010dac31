"""Files of events as a source: how they are described, and how they become chunks of the exchange.

`EventFiles` describes the files of a source, `FileChunks` reads them for the inputs of a query. A
chunk has a position, the number of its file in the log and its own number in that file, so that a
gap between two chunks is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from thalweg.io.dead_letters import DeadLetters
from thalweg.io.file_log import FileLog
from thalweg.io.file_notes import note_repair, noted_while_read
from thalweg.io.files import FileForm, read_file
from thalweg.io.formats import END_MARKS, require_format
from thalweg.io.listing import FilePlace, Found
from thalweg.io.partitions import Partitions
from thalweg.io.text import NULLS
from thalweg.io.unwanted import FileTimes, Unwanted
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Node, Source
from thalweg.plan.nodes.traversal import replace as replace_nodes
from thalweg.plan.usefulness import reach_of_sources
from thalweg.shards.exchange.chunk import ExchangeRow
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import exchange_rows
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.stream import Stream

__all__ = ["EventFiles", "FileChunks", "can_skip", "skips_unwanted"]

_FILE = 1_000_000
"""Positions are file number times this plus the chunk's number in its file."""


@dataclass(frozen=True)
class EventFiles:
    """Files in a folder. `finish` says that what is there when the query starts is all there is
    (with `availableNow`)."""

    folder: str
    format: str
    times: EventColumns | None
    files_per_batch: int | None = None
    tasks: int = 2
    finish: bool = False
    columns: pa.Schema | None = field(default=None, repr=False)
    bad: str = "fail"
    """The handling of a record that cannot be read: `fail`, or `skip`, which makes it a dead
    letter."""
    settle_us: int = 1_000_000
    """How long a file of text must not have changed to be read."""
    nulls: tuple[str, ...] = NULLS
    partitions: Partitions = Partitions()
    named: bool = True
    unwanted: Unwanted | None = None
    """Where it is written which rows are not wanted any more."""

    def __post_init__(self) -> None:
        require_format(self.format, "files")

    @property
    def path(self) -> str:
        return self.folder

    @property
    def ends(self) -> bool:
        return self.finish

    @property
    def makes_promises(self) -> bool:
        return self.times is None or self.times.punctuation is not None

    @property
    def form(self) -> FileForm:
        return FileForm(self.format, self.columns, self.nulls, self.partitions)

    @property
    def file_times(self) -> FileTimes:
        """Where the statistics of a file show its times."""
        times = self.times
        return FileTimes(
            self.format,
            None if times is None else times.start,
            1 if times is None else times.duration,
        )

    def log(self, file: str) -> FileLog:
        return FileLog(FilePlace(self.folder), self.format, Path(file), self.settle_us)


@dataclass(frozen=True)
class FileChunks:
    """The chunks of one source of files, for all inputs that read it. `log` is the log of the files
    in the checkpoint."""

    files: EventFiles
    ingest: AnyIngest
    schema: pa.Schema
    source: str
    log: str

    @property
    def where(self) -> str:
        """The source, for messages."""
        return f"source {self.source!r}"

    @cached_property
    def _place(self) -> FilePlace:
        return FilePlace(self.files.folder)

    def end(self, number: int) -> pa.RecordBatch:
        """The chunk after the last file: no row will come any more."""
        return self._without_rows(Header(progress=Progress(INFINITY)), number * _FILE)

    def read(self, entries: Iterable[tuple[int, Found]], unwanted: int) -> Iterator[pa.RecordBatch]:
        """The chunks of files, each given with its number. Rows that end before `unwanted` are left
        out; a file that has only such rows by its statistics is not read."""
        for number, found in entries:
            with noted_while_read(Path(self.log), number, self._place.shown(found.name)):
                newest = self.files.file_times.newest_if_unwanted(self._place, found.name, unwanted)
                if newest is None:
                    yield from self._read_file(number, found, unwanted)
                else:
                    yield self._left_out(number, newest)

    def _left_out(self, number: int, newest: tuple[int, int]) -> pa.RecordBatch:
        """The chunk of a file that is not read, with its promise."""
        begin, end = number * _FILE, (number + 1) * _FILE
        time, rows = newest
        header = Header(newest=time, rows=rows, unwanted=rows, begin=begin, end=end)
        return self._without_rows(header, begin)

    def _without_rows(self, header: Header, position: int) -> pa.RecordBatch:
        return exchange_rows(self.ingest.rows(Batch.empty(self.schema), header, position))

    def _read_file(self, number: int, found: Found, unwanted: int) -> Iterator[pa.RecordBatch]:
        if self.files.format in END_MARKS:
            note_repair(Path(self.log), number, found, self._place)
        dead_letters = DeadLetters() if self.files.bad == "skip" else None
        times = self.files.times
        columns = None if times is None else times.columns(self.schema)
        pieces = read_file(
            self._place, found.name, self.files.form, columns, found=found, letters=dead_letters
        )
        position, last = number * _FILE, (number + 1) * _FILE
        piece = next(pieces, None)
        if piece is None:  # set aside: it is passed over, so that the next one still follows
            yield self._without_rows(Header(begin=position, end=last), position)
        while piece is not None:
            following = next(pieces, None)
            end = last if following is None else position + 1
            chunk = self._chunk(piece, found.name, (position, end), dead_letters, unwanted)
            yield exchange_rows(chunk)
            piece, position = following, end
        if dead_letters is not None and dead_letters.count:
            dead = dead_letters.take().combine_chunks().to_batches()[0]
            yield exchange_rows(iter([self.ingest.dead(self.source, dead)]))

    def _chunk(
        self,
        piece: pa.Table,
        name: str,
        position: tuple[int, int],
        dead_letters: DeadLetters | None,
        unwanted: int,
    ) -> Iterator[ExchangeRow]:
        begin, end = position
        where = f"{self.where}, file {self._place.shown(name)}"
        if self.files.times is None:  # a file of elements: its promise is in its metadata
            batch = Batch.from_table(piece)
            header = Header.from_json((piece.schema.metadata or {}).get(b"thalweg", b"{}").decode())
            progress = header.progress
            header = Header(progress=progress, begin=begin, end=end, rows=len(batch))
            return self.ingest.rows(batch, header, begin)
        batch, header = self.files.times.chunk(piece, self.schema, where, dead_letters)
        header = replace(header, begin=begin, end=end)
        if unwanted > MIN_TIME:
            kept = batch.end >= unwanted
            header = replace(header, unwanted=len(batch) - int(kept.sum()))
            batch = batch if kept.all() else batch.filter(kept)
        return self.ingest.rows(batch, header, begin)


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
    if not isinstance(feed, EventFiles) or feed.times is None or feed.times.end is not None:
        return False
    by_rows = rules.partition or rules.quarantine or rules.observed or rules.patterns
    by_other_columns = rules.columns or source.conflation or feed.times.punctuation is not None
    return not by_rows and not by_other_columns

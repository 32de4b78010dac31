"""A receiver as a feed on Spark: each micro-batch reads one cut of its queue.

`latestOffset` asks the receiver for the next cut, of at most as many rows as a micro-batch can
digest within the freshness target; the number of the cut is the offset. A cut is a file that stays
until Spark has committed, so a micro-batch that runs again reads the same rows, and one that Spark
planned without writing it down is offered again first. While the receiver does not answer there is
nothing new; cuts that were made are read without it.

Spark 4.3 was not seen to call `commit` of a Python source. It asks what follows an offset only when
the micro-batch that ends there is in its commit log, so asking is the commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.errors import PlanError, ReceiverError, StateError
from thalweg.freshness.cuts import Cut
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_links import ReceiverLink
from thalweg.freshness.receiver_process import ensure_receiver
from thalweg.freshness.receiver_settings import ReceiverSettings
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.plan.nodes import Node, Source, walk
from thalweg.progress.conflation import Conflation
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import exchange_rows
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.spark.sources.feed import Feed, load_reader
from thalweg.spark.sources.offsets import Offset, Part, TypedOffsets
from thalweg.stream import Stream

__all__ = ["Received", "bind_queues", "receiver_of"]


@dataclass(frozen=True)
class Received:
    """Rows that a receiver holds in a folder. `columns` are all of theirs, times included."""

    folder: str
    columns: pa.Schema
    times: EventColumns
    conflation: Conflation | None = None
    named: bool = True
    path: ClassVar[None] = None
    fits_host: ClassVar[bool] = False
    makes_promises: ClassVar[bool] = True
    ends: ClassVar[bool] = False

    @property
    def settings(self) -> ReceiverSettings:
        queue = self.conflation
        assert queue is not None
        return ReceiverSettings(
            self.columns,
            queue.key,
            queue.schedule,
            self.times.start,
            queue.disorder,
            queue.freshness if queue.schedule == "deadline" or queue.adaptive else None,
            queue.capacity,
            queue.adaptive,
        )

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        address = ensure_receiver(Path(self.folder), self.settings)
        return load_reader(
            spark, _CutReader(_CutJob(self, ingest, schema, name, address.queue)), ingest
        )


def bind_queues(root: Node, feeds: Mapping[str, Feed]) -> dict[str, Feed]:
    """The feeds, those of receivers with what their sources say about the queue."""
    bound = dict(feeds)
    for node in walk(root):
        if not isinstance(node, Source):
            continue
        feed = feeds.get(node.name)
        if node.conflation is not None and node.conflation.window is not None:
            raise PlanError(
                f"source {node.name!r}: newest_window is served in-process "
                "(thalweg.freshness.FreshRunner); a receiver holds rows, not windows."
            )
        if node.conflation is not None and (node.conflation.targets or node.conflation.inputs):
            raise PlanError(
                f"source {node.name!r}: a receiver has one target for all keys and one input; leave"
                " targets= and inputs= out."
            )
        if isinstance(feed, Received):
            if node.conflation is None:
                raise PlanError(
                    f"source {node.name!r}: a receiver keeps the newest row of each key; say which "
                    "by update_key."
                )
            bound[node.name] = replace(feed, conflation=node.conflation)
        elif node.conflation is not None:
            raise PlanError(
                f"source {node.name!r} has an update key, and on Spark only a receiver holds an "
                "update queue: make the source with spark.from_receiver, or leave update_key out "
                "and read all rows."
            )
    return bound


def receiver_of(query: Stream | Node, source: str | None = None) -> ReceiverClient:
    """A connection to the receiver of a query's source, for sending rows to it; the receiver is
    started if none runs. `source` is needed where several have one."""
    root = query.node if isinstance(query, Stream) else query
    feeds = {
        node.name: node.feed
        for node in walk(root)
        if isinstance(node, Source) and isinstance(node.feed, Received)
    }
    if len(feeds) != 1 and source not in feeds:
        raise PlanError(
            f"receiver_of: give source=; those with a receiver are: {', '.join(feeds) or 'none'}."
        )
    name = source if source is not None else next(iter(feeds))
    feed = bind_queues(root, feeds)[name]
    assert isinstance(feed, Received)
    ensure_receiver(Path(feed.folder), feed.settings)
    return ReceiverClient.of(feed.folder)


@dataclass(frozen=True)
class _CutJob:
    feed: Received
    ingest: AnyIngest
    schema: pa.Schema
    source: str
    queue: str
    """The identity of the queue: offsets belong to it."""

    @property
    def where(self) -> str:
        return f"source {self.source!r}"


@dataclass
class _CutPart(Part):
    first: int
    last: int


@dataclass(frozen=True)
class _CutOffset(Offset):
    cut: int
    """The number of the last cut."""
    queue: str
    """The identity of the queue."""


class _CutReader(TypedOffsets[_CutOffset], DataSourceStreamReader, SupportsTriggerAvailableNow):
    offset_type = _CutOffset

    def __init__(self, job: _CutJob) -> None:
        self._job = job
        self._link: ReceiverLink | None = None
        self._committed = 0
        self._left: int | None = None
        """With the trigger `available now`: rows that waited when the query began."""

    def __getstate__(self) -> dict[str, object]:
        return {"_job": self._job, "_link": None, "_committed": 0, "_left": None}

    def _receiver(self) -> ReceiverClient:
        if self._link is None:
            self._link = ReceiverLink(self._job.feed.folder)
        return self._link.client()

    def initial(self) -> _CutOffset:
        return self._offset(self._receiver().status()["committed"])

    def prepareForTriggerAvailableNow(self) -> None:
        status = self._receiver().status()
        self._left = status["waiting"] + sum(cut.rows for cut in self._receiver().open_cuts())

    def latest(self, start: _CutOffset, limit: ReadLimit) -> _CutOffset:
        after = self._number(start)
        if self._left is not None and self._left <= 0:
            return self._offset(after)
        queue = self._job.feed.conflation
        assert queue is not None
        try:
            self._commit(after)
            cut = self._receiver().next_cut(after, queue.freshness)
        except ReceiverError:
            return self._offset(after)
        if cut is None:
            return self._offset(after)
        if self._left is not None:
            self._left -= cut.rows
        return self._offset(cut.number)

    def parts(self, start: _CutOffset, end: _CutOffset) -> list[InputPartition]:
        first, last = self._number(start) + 1, self._number(end)
        with contextlib.suppress(ReceiverError):
            self._receiver().begin(last)
        return [_CutPart(first, last)] if first <= last else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _CutPart)
        job = self._job
        for number in range(partition.first, partition.last + 1):
            path = Cut.path_of(Path(job.feed.folder), number)
            try:
                rows = Cut(number, path, 0).read()
            except FileNotFoundError:
                raise StateError(
                    f"{job.where}: cut {number} is not in {path.parent.name} any more: the "
                    "checkpoint is older than what was committed to the receiver. Restore both, "
                    "or neither."
                ) from None
            batch, header = job.feed.times.chunk(rows, job.schema, job.where)
            promise = Cut.promise_of(rows)
            cut_header = Header(
                progress=NO_PROGRESS if promise is None else Progress(promise),
                newest=header.newest,
                begin=number - 1,
                end=number,
                rows=len(batch),
            )
            yield exchange_rows(job.ingest.rows(batch, cut_header, number))

    def commit(self, end: dict[str, Any]) -> None:
        with contextlib.suppress(ReceiverError):  # it comes again with the next one
            self._commit(self._number(_CutOffset.of_log(end)))

    def _commit(self, number: int) -> None:
        if number > self._committed:
            self._receiver().commit(number)
            self._committed = number

    def stop(self) -> None:
        if self._link is not None:
            self._link.close()

    def _offset(self, number: int) -> _CutOffset:
        return _CutOffset(number, self._job.queue)

    def _number(self, offset: _CutOffset) -> int:
        if offset.queue != self._job.queue:
            raise StateError(
                f"{self._job.where}: the checkpoint was made with another queue than the one in "
                f"{self._job.feed.folder}. Give the folder it was started with, or a new "
                "checkpoint."
            )
        return offset.cut

"""A source of generated events (`io.generated_events`) as a feed on Spark: a micro-batch that is
read again is the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.errors import PlanError
from thalweg.io.generated_events import EVENT_COLUMNS, TICK_US, GeneratedEvents
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY, Duration, duration_us
from thalweg.plan.nodes import Source
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import exchange_rows
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.spark.sources.feed import load_reader
from thalweg.spark.sources.offsets import Offset, Part, TypedOffsets
from thalweg.stream import Stream, source

__all__ = ["Generator", "from_generator"]


@dataclass(frozen=True)
class Generator:
    """Generated events, and how many ticks of them are read."""

    events: GeneratedEvents
    ticks: int | None
    """How many there are; None: without end."""
    ticks_per_batch: int | None
    named: bool = True
    path: ClassVar[None] = None
    fits_host: ClassVar[bool] = True
    times: ClassVar[None] = None
    makes_promises: ClassVar[bool] = False

    @property
    def ends(self) -> bool:
        return self.ticks is not None

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        return load_reader(spark, _GeneratorReader(self, ingest), ingest)


def from_generator(
    *,
    rate: int = 1_000,
    keys: int = 100,
    skew: float = 1.0,
    late_share: float = 0.2,
    latest: Duration = "1 min",
    lull_every: int = 0,
    lull_ticks: int = 0,
    partitions: int = 1,
    seed: int = 7,
    ticks: int | None = None,
    ticks_per_batch: int | None = None,
    name: str | None = None,
    late: str = "drop",
) -> Stream:
    """Generated events with the columns `partition`, `key` and `value`.

    `rate` is in events a second and partition; the n-th key has a share in proportion to n **
    -skew; `late_share` of the events come up to `latest` late. Every `lull_every` ticks a partition
    is silent for `lull_ticks`. The stream ends after `ticks`. With `ticks_per_batch` a micro-batch
    has that many ticks; otherwise ticks follow the clock.
    """
    if min(rate, keys, partitions) < 1 or not 0 <= late_share <= 1:
        raise PlanError(
            "from_generator: rate, keys and partitions must be at least 1, late_share between 0 "
            "and 1."
        )
    spread = duration_us(latest)
    events = GeneratedEvents(
        rate, keys, skew, late_share, spread, lull_every, lull_ticks, partitions, seed
    )
    feed = Generator(events, ticks, ticks_per_batch, named=name is not None)
    node = source(
        name or "events", EVENT_COLUMNS, disorder=spread + TICK_US, late=late, insert_only=True
    ).node
    assert isinstance(node, Source)
    return Stream(Source(node.name, node.columns, node.ingress, node.declared, feed))


@dataclass
class _Ticks(Part):
    partition: int
    begin: int
    end: int
    ends: bool


@dataclass(frozen=True)
class _TickOffset(Offset):
    tick: int
    """The next tick."""
    since: int
    """When the query first started, in milliseconds."""
    ended: int
    """1 where no tick follows, else 0."""


class _GeneratorReader(
    TypedOffsets[_TickOffset], DataSourceStreamReader, SupportsTriggerAvailableNow
):
    offset_type = _TickOffset

    def __init__(self, feed: Generator, ingest: AnyIngest) -> None:
        self._feed = feed
        self._ingest = ingest

    def initial(self) -> _TickOffset:
        return _TickOffset(0, int(time.time() * 1000), 0)

    def prepareForTriggerAvailableNow(self) -> None:
        if self._feed.ticks is None:
            raise PlanError("from_generator: without ticks= there is no end to what is available.")

    def latest(self, start: _TickOffset, limit: ReadLimit) -> _TickOffset:
        feed = self._feed
        if feed.ticks_per_batch is not None:
            tick = start.tick + feed.ticks_per_batch
        else:
            tick = max(start.tick, (int(time.time() * 1000) - start.since) * 1000 // TICK_US)
        tick = tick if feed.ticks is None else min(tick, feed.ticks)
        ended = int(feed.ticks is not None and tick >= feed.ticks)
        return _TickOffset(tick, start.since, ended)

    def parts(self, start: _TickOffset, end: _TickOffset) -> list[InputPartition]:
        if end.tick == start.tick and end.ended == start.ended:
            return []
        return [
            _Ticks(partition, start.tick, end.tick, ends=end.ended > start.ended)
            for partition in range(self._feed.events.partitions)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Ticks)
        ticks = range(partition.begin, partition.end)
        batches = [self._feed.events.tick(partition.partition, tick) for tick in ticks]
        batch = Batch.concat(batches, EVENT_COLUMNS)
        header = Header.of_batch(
            batch.with_progress(Progress(INFINITY)) if partition.ends else batch,
            partition=str(partition.partition),
            begin=partition.begin,
            end=partition.end,
        )
        yield exchange_rows(self._ingest.rows(batch, header, partition.begin))

"""A source of generated events, which depend on the seed alone.

Time goes in ticks of a tenth of a second. In each tick every partition makes `rate / 10` events;
their keys are skewed, a share of them is late, and a partition can fall silent now and then. The
events of a tick depend on the seed, the partition and the tick alone, so a micro-batch that is read
again is the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from thalweg.errors import PlanError
from thalweg.model.batch import Batch
from thalweg.model.time import INFINITY, Duration, duration_us
from thalweg.plan.nodes import Source
from thalweg.shards.exchange import Header
from thalweg.shards.host_ingest import AnyIngest
from thalweg.shards.ingest import exchange_rows
from thalweg.spark.feeds import load_reader
from thalweg.stream import Stream, source

__all__ = ["Generator", "from_generator", "make_tick"]

SCHEMA = pa.schema([("partition", pa.int64()), ("key", pa.int64()), ("value", pa.int64())])
TICK_US = 100_000


@dataclass(frozen=True)
class Generator:
    """The parameters of the events: see `from_generator`."""

    rate: int
    keys: int
    skew: float
    late_share: float
    latest_us: int
    lull_every: int
    lull_ticks: int
    partitions: int
    seed: int
    ticks: int | None
    ticks_per_batch: int | None
    named: bool = True
    """Whether the user gave the source its name."""
    makes_promises: ClassVar[bool] = False

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        return load_reader(spark, _GeneratorReader(self, ingest), ingest)

    def silent(self, partition: int, tick: int) -> bool:
        """Partitions take turns at being silent."""
        return (
            bool(self.lull_every)
            and (tick + partition * self.lull_every // max(self.partitions, 1)) % self.lull_every
            < self.lull_ticks
        )


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
    feed = Generator(
        rate,
        keys,
        skew,
        late_share,
        spread,
        lull_every,
        lull_ticks,
        partitions,
        seed,
        ticks,
        ticks_per_batch,
        named=name is not None,
    )
    node = source(
        name or "events", SCHEMA, disorder=spread + TICK_US, late=late, insert_only=True
    ).node
    assert isinstance(node, Source)
    return Stream(Source(node.name, node.columns, node.ingress, node.declared, feed))


def make_tick(what: Generator, partition: int, tick: int) -> Batch:
    """The events of one partition in one tick.

    >>> what = Generator(100, 10, 1.0, 0.2, 1_000_000, 0, 0, 1, 7, None, None)
    >>> tick = make_tick(what, 0, 5)
    >>> len(tick), tick.payload.equals(make_tick(what, 0, 5).payload)
    (10, True)
    """
    size = 0 if what.silent(partition, tick) else max(1, what.rate * TICK_US // 1_000_000)
    rng = np.random.default_rng([what.seed, partition, tick])
    start = tick * TICK_US + np.sort(rng.integers(0, TICK_US, size))
    start = start - np.where(
        rng.random(size) < what.late_share, rng.integers(0, max(what.latest_us, 1), size), 0
    )
    share = np.arange(1, what.keys + 1) ** -what.skew
    key = np.searchsorted(np.cumsum(share / share.sum()), rng.random(size)).clip(max=what.keys - 1)
    columns = [np.full(size, partition), key, rng.integers(0, 1_000, size)]
    payload = pa.RecordBatch.from_arrays(
        [pa.array(column.astype(np.int64)) for column in columns], schema=SCHEMA
    )
    return Batch(payload, start.astype(np.int64), start.astype(np.int64) + 1)


@dataclass
class _Ticks(InputPartition):
    partition: int
    begin: int
    end: int
    ends: bool

    def __post_init__(self) -> None:
        super().__init__(None)


class _GeneratorReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"tick": next tick, "since": when the query first started, in milliseconds,
    "ended": 0 or 1}."""

    def __init__(self, what: Generator, ingest: AnyIngest) -> None:
        self._what = what
        self._ingest = ingest

    def initialOffset(self) -> dict[str, int]:
        return {"tick": 0, "since": int(time.time() * 1000), "ended": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        if self._what.ticks is None:
            raise PlanError("from_generator: without ticks= there is no end to what is available.")

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        what = self._what
        if what.ticks_per_batch is not None:
            tick = start["tick"] + what.ticks_per_batch
        else:
            tick = max(start["tick"], (int(time.time() * 1000) - start["since"]) * 1000 // TICK_US)
        tick = tick if what.ticks is None else min(tick, what.ticks)
        ended = int(what.ticks is not None and tick >= what.ticks)
        return {"tick": tick, "since": start["since"], "ended": ended}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        if end["tick"] == start["tick"] and end["ended"] == start["ended"]:
            return []
        ends = end["ended"] > start["ended"]
        return [
            _Ticks(partition, start["tick"], end["tick"], ends)
            for partition in range(self._what.partitions)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Ticks)
        name = str(partition.partition)
        batches = [
            make_tick(self._what, partition.partition, tick)
            for tick in range(partition.begin, partition.end)
        ]
        batch = Batch.concat(batches, SCHEMA)
        newest = int(batch.start.max()) if len(batch) else None
        header = Header(
            partition=name, newest=newest, begin=partition.begin, end=partition.end, rows=len(batch)
        )
        if partition.ends:
            header = Header(
                partition=name,
                newest=newest,
                cti=INFINITY,
                begin=partition.begin,
                end=partition.end,
                rows=len(batch),
            )
        yield exchange_rows(self._ingest.rows(batch, header, partition.begin))

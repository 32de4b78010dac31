"""A ticker: what tells the fragments the time, for sources whose promises follow a clock during
lulls.

A stream of its own beside the rows of such a source: one chunk without rows for each micro-batch in
which the clock has passed another multiple of the timer's period. What was told is in Spark's
offset log, so that a micro-batch that runs again reads the same clock. While every source is
silent, these are the micro-batches in which results still become final.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

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
from thalweg.plan.nodes import Ingress, Source
from thalweg.shards.exchange import UNORDERED, Header
from thalweg.shards.host_ingest import AnyIngest
from thalweg.shards.ingest import exchange_rows
from thalweg.spark.feeds import load_reader

__all__ = ["period_of", "with_ticker"]

_ASKED_US = 200_000
"""How often the clock is told to a source that answers on demand: about once a micro-batch."""

_JUDGED_US = 1_000_000
"""How often it is told to a source whose rows are held against it."""


def period_of(policy: Ingress) -> int | None:
    """How often a source must be told the time; None: never."""
    periods = [policy.timer.every] if policy.timer is not None else []
    periods += [_ASKED_US] if policy.on_demand is not None else []
    periods += (
        [_JUDGED_US] if policy.quarantine is not None and policy.quarantine.key is None else []
    )
    return min(periods, default=None)


def with_ticker(
    spark: SparkSession,
    rows: DataFrame,
    ingest: AnyIngest,
    source: Source,
    stamps: int | None,
) -> DataFrame:
    """The chunks of a source and those of its ticker, if its policies follow a clock or its rows
    are stamped on arrival, every `stamps`."""
    periods = [period_of(source.ingress), stamps]
    period = min((one for one in periods if one is not None), default=None)
    if stamps is not None and not rows.isStreaming:
        raise PlanError(
            f"source {source.name!r}: the rows of a frame that does not stream are all there at once, so that they have no time of "
            "arrival; go by a time that they hold."
        )
    if period is None or not rows.isStreaming:
        return rows
    return rows.union(load_reader(spark, _Ticker(ingest, source.columns, period), ingest))


@dataclass
class _Tick(InputPartition):
    tick: int

    def __post_init__(self) -> None:
        super().__init__(None)


class _Ticker(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"tick": how many periods the clock has passed}."""

    def __init__(self, ingest: AnyIngest, schema: pa.Schema, period_us: int) -> None:
        self._ingest = ingest
        self._schema = schema
        self._period = period_us
        self._target: int | None = None

    def _now(self) -> int:
        return time.time_ns() // 1_000 // self._period

    def initialOffset(self) -> dict[str, int]:
        """Before every tick, whenever it is asked: the first micro-batch tells the time, and tells
        the same if it runs again."""
        return {"tick": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._now()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"tick": max(start["tick"], self._now() if self._target is None else self._target)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Tick(end["tick"])] if end["tick"] > start["tick"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Tick)
        header = Header(clock=partition.tick * self._period)
        yield exchange_rows(self._ingest.rows(Batch.empty(self._schema), header, UNORDERED))

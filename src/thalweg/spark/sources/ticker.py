"""A ticker: sends the time to the fragments, for sources whose promises follow a clock while no
rows come.

A stream of its own beside the rows of such a source: one chunk without rows for each micro-batch in
which the clock has passed another multiple of the timer's period. The time is in Spark's offset
log, so that a micro-batch that runs again reads the same clock. While every source is silent, these
are the micro-batches in which results still become final.

The ticker of a source that only promises on demand makes a micro-batch when the last one waits for
the source, and the clock has come so far that its promise releases something (see
`shards.reports.asks`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.errors import PlanError
from thalweg.model.batch import Batch
from thalweg.plan.nodes import Ingress, Source
from thalweg.shards.exchange.chunk import UNORDERED
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import exchange_rows
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.shards.reports.asks import ask_time, asks_file
from thalweg.spark.sources.feed import load_reader
from thalweg.spark.sources.offsets import Offset, Part, TypedOffsets

__all__ = ["period_of", "with_ticker"]

_ASKED_US = 200_000
"""The period of the ticks for a source that promises on demand."""

_JUDGED_US = 1_000_000
"""The period of the ticks for a source whose rows are compared with the clock."""


def period_of(policy: Ingress) -> int | None:
    """The period of the ticks that a source needs; None: it needs none."""
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
    checkpoint: Path | None = None,
) -> DataFrame:
    """The chunks of a source and those of its ticker, if its policies follow a clock or its rows
    are stamped on arrival, every `stamps`. With a `checkpoint` it is asked when something waits."""
    periods = [period_of(source.ingress), stamps]
    period = min((ticks for ticks in periods if ticks is not None), default=None)
    if stamps is not None and not rows.isStreaming:
        raise PlanError(
            f"source {source.name!r}: the rows of a frame that does not stream are all there at "
            "once, so that they have no time of arrival; go by a time that they hold."
        )
    if period is None or not rows.isStreaming:
        return rows
    policy = source.ingress
    only_asked = policy.timer is None and policy.quarantine is None and stamps is None
    asks = asks_file(checkpoint) if checkpoint is not None and only_asked else None
    ticker = _Ticker(ingest, source, period, asks)
    return rows.union(load_reader(spark, ticker, ingest))


@dataclass
class _Tick(Part):
    tick: int
    asked: bool


@dataclass(frozen=True)
class _ClockOffset(Offset):
    tick: int
    """How many periods the clock has passed."""
    asked: int = 0
    """1 where the last tick asks for a promise, else 0."""


class _Ticker(TypedOffsets[_ClockOffset], DataSourceStreamReader, SupportsTriggerAvailableNow):
    offset_type = _ClockOffset

    def __init__(
        self, ingest: AnyIngest, source: Source, period_us: int, asks: Path | None
    ) -> None:
        self._ingest = ingest
        self._source = source
        self._period = period_us
        self._asks = asks
        self._target: int | None = None

    def _now(self) -> int:
        return time.time_ns() // 1_000 // self._period

    def initial(self) -> _ClockOffset:
        """Before every tick, whenever Spark calls it: the first micro-batch has the time, and the
        same time if it runs again."""
        return _ClockOffset(0)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._now()

    def latest(self, start: _ClockOffset, limit: ReadLimit) -> _ClockOffset:
        if self._asks is not None and self._target is None:
            now = time.time_ns() // 1_000
            when = ask_time(self._asks, self._source.name)
            return start if when is None or now < when else _ClockOffset(self._now(), 1)
        now = self._now() if self._target is None else self._target
        return _ClockOffset(max(start.tick, now))

    def parts(self, start: _ClockOffset, end: _ClockOffset) -> list[InputPartition]:
        return [_Tick(end.tick, bool(end.asked))] if end.tick > start.tick else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Tick)
        header = Header(clock=partition.tick * self._period, asked=partition.asked or None)
        nothing = Batch.empty(self._source.columns)
        yield exchange_rows(self._ingest.rows(nothing, header, UNORDERED))

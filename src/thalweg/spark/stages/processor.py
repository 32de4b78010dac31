"""The stateful stage: one `transformWithState` per fragment, one call per bucket and micro-batch.

What a call does is in `shards.worker.fragment_bucket`; here are the rows, the state variable and
the clock that Spark gives it. What a worker keeps of a bucket stays in its process between
micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from thalweg.shards.exchange.chunk import Chunk, ExchangeRow
from thalweg.shards.output.rows import OutputRow
from thalweg.shards.worker.fragment_bucket import FragmentBucket, FragmentSpec
from thalweg.shards.worker.newest import Newest
from thalweg.spark.stages.sent_state import sent

__all__ = [
    "STATE",
    "FragmentProcessor",
    "StageProcessor",
    "chunk_of",
    "exchange_row",
    "micro_batch_time",
]

exchange_row = cast(Any, Row(*ExchangeRow._fields))
"""A row of the exchange as Spark takes it."""
_output_row = cast(Any, Row(*OutputRow._fields))

STATE = (
    "state",
    StructType([StructField("name", StringType())]),
    StructType([StructField("blob", BinaryType())]),
)
"""The one state variable of a fragment: its name, and the types of its keys and values. As text, a
worker would ask the JVM four times in each task what they mean."""

_BUCKETS: Newest[tuple[str, int, int], FragmentBucket] = Newest(64)
"""The newest buckets of this worker; when a query has ended, others take their places."""


def micro_batch_time(handle: Any) -> float:
    """When Spark planned the micro-batch, in seconds. It is in the offset log, so that a
    micro-batch that runs again has the same time."""
    milliseconds: int = handle._statefulProcessorApiClient._get_batch_timestamp()
    return milliseconds / 1000


def chunk_of(row: Any) -> Chunk:
    """A row of the exchange as a chunk."""
    return Chunk.of(row["origin"], row["seq"], row["header"], row["blob"])


class StageProcessor(StatefulProcessor):
    """A processor whose only state is the variable `STATE`."""

    def init(self, handle: Any) -> None:
        self.use(handle.getMapState(*STATE), handle)

    def use(self, state: Any, handle: Any) -> None:
        """The state variable to work with, and the handle with the time."""
        self._state, self._handle = sent(state), handle

    def close(self) -> None:
        pass


class FragmentProcessor(StageProcessor):
    def __init__(self, spec: FragmentSpec) -> None:
        self._spec = spec

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        spec, bucket = self._spec, int(key[0])
        place = (spec.run, spec.fragment.number, bucket)
        stage = _BUCKETS[place] = _BUCKETS.get(place) or FragmentBucket(spec, bucket)
        form = exchange_row if spec.targets else _output_row
        now = micro_batch_time(self._handle)
        for row in stage.rows(map(chunk_of, rows), now, self._state):
            yield form(*row)

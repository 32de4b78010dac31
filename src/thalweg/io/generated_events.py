"""Generated events, which depend on the seed alone.

Time goes in ticks of a tenth of a second. In each tick every partition makes `rate / 10` events;
their keys are skewed, a share of them is late, and a partition can fall silent now and then. The
events of a tick depend on the seed, the partition and the tick alone, so a tick that is made again
is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch

__all__ = ["EVENT_COLUMNS", "TICK_US", "GeneratedEvents"]

EVENT_COLUMNS = pa.schema([("partition", pa.int64()), ("key", pa.int64()), ("value", pa.int64())])
TICK_US = 100_000


@dataclass(frozen=True)
class GeneratedEvents:
    """The parameters of the events: see `thalweg.spark.from_generator`.

    >>> events = GeneratedEvents(100, 10, 1.0, 0.2, 1_000_000, 0, 0, 1, 7)
    >>> len(events.tick(0, 5)), events.tick(0, 5).payload.equals(events.tick(0, 5).payload)
    (10, True)
    """

    rate: int
    """Events a second and partition."""
    keys: int
    skew: float
    late_share: float
    latest_us: int
    lull_every: int
    """Every so many ticks a partition is silent, for `lull_ticks`."""
    lull_ticks: int
    partitions: int
    seed: int

    def is_silent(self, partition: int, tick: int) -> bool:
        """Partitions take turns at being silent."""
        if not self.lull_every:
            return False
        shift = partition * self.lull_every // max(self.partitions, 1)
        return (tick + shift) % self.lull_every < self.lull_ticks

    def tick(self, partition: int, tick: int) -> Batch:
        """The events of one partition in one tick."""
        size = 0 if self.is_silent(partition, tick) else max(1, self.rate * TICK_US // 1_000_000)
        random = np.random.default_rng([self.seed, partition, tick])
        start = tick * TICK_US + np.sort(random.integers(0, TICK_US, size))
        is_late = random.random(size) < self.late_share
        start = start - np.where(is_late, random.integers(0, max(self.latest_us, 1), size), 0)
        share = np.arange(1, self.keys + 1) ** -self.skew
        key = np.searchsorted(np.cumsum(share / share.sum()), random.random(size))
        value = random.integers(0, 1_000, size)
        columns = [np.full(size, partition), key.clip(max=self.keys - 1), value]
        payload = pa.RecordBatch.from_arrays(
            [pa.array(column.astype(np.int64)) for column in columns], schema=EVENT_COLUMNS
        )
        return Batch(payload, start.astype(np.int64), start.astype(np.int64) + 1)

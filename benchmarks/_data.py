"""Made-up events for benchmarks: skewed keys, a fifth of the events late, the same for the same
seed.

Times are microseconds from zero. Events are sent evenly at `rate` a second, so more events make a
longer stream, not a denser one. The table is in order of arrival; no event comes later than
`LATEST`, so a source with that much disorder never has to drop one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["LATEST", "MINUTE", "SECOND", "Events", "make_events"]

SECOND, MINUTE = 1_000_000, 60_000_000
LATEST = MINUTE
LATE_SHARE = 0.2

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Events:
    """Events in order of arrival: a table `_start, _end, key, value`, and when each row arrives."""

    table: pa.Table
    arrival: Numbers

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def first(self, count: int) -> Events:
        """The events that arrive first."""
        return Events(self.table.slice(0, count), self.arrival[:count])

    def batches(self, size: int) -> list[pa.RecordBatch]:
        """Cut into batches of at most `size` rows, without copying."""
        return list(self.table.to_batches(max_chunksize=size))

    def chunked(self, size: int) -> pa.Table:
        """The same batches as one table."""
        return pa.Table.from_batches(self.batches(size), self.table.schema)


def make_events(
    count: int,
    *,
    keys: int = 10_000,
    rate: int = 1_000,
    longest: int = 1,
    seed: int = 7,
    value: str = "value",
) -> Events:
    """Events of `keys` keys, each last between one tick and `longest`.

    The n-th most frequent key has a share in proportion to 1 / n, and is the same key for every
    seed. Of the events 20% are up to a minute late, the others arrive when they are sent.

    >>> make_events(3, keys=2).table.schema.names
    ['_start', '_end', 'key', 'value']
    """
    rng = np.random.default_rng(seed)
    sent = np.sort(rng.integers(0, max(count * SECOND // rate, 1), count))
    arrival = sent + np.where(rng.random(count) < LATE_SHARE, rng.integers(0, LATEST, count), 0)
    order = np.argsort(arrival, kind="stable")
    start = sent[order]
    columns = {
        "_start": start,
        "_end": start + rng.integers(1, longest, count, endpoint=True),
        "key": _zipf(rng, count, keys),
        value: rng.integers(0, 1_000, count),
    }
    return Events(pa.table(columns), arrival[order])


def _zipf(rng: np.random.Generator, count: int, keys: int) -> Numbers:
    share = 1 / np.arange(1, keys + 1)
    upto = np.cumsum(share / share.sum())
    rank = np.minimum(np.searchsorted(upto, rng.random(count)), keys - 1)
    return np.random.default_rng(keys).permutation(keys)[rank].astype(np.int64)

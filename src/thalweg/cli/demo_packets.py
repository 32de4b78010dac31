"""The packets of the demo, and the query over them.

They are made up but the trouble is real: they arrive out of order, a fifth of them up to a minute
late, and a few so late that the source had already promised they would not come. The query counts
packets and bytes per source over the last ten minutes, every minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import thalweg as tw

__all__ = ["MINUTE", "SECOND", "SOURCES", "SPAN", "Packets", "make_packets", "packets_by_source"]

SECOND, MINUTE = 1_000_000, 60_000_000
SOURCES = 64
SPAN = 40 * MINUTE


@dataclass(frozen=True)
class Packets:
    """Packets in order of arrival."""

    table: pa.Table
    arrival: npt.NDArray[np.int64]
    since: int = 0
    """The time of the first."""

    def cut(self, every: int, *, first: int | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Batches of what arrived in each span of `every`, with the time at which the span ends;
        `first` is how long the first span is."""
        begin = self.since + (every if first is None else first)
        ends = np.arange(begin, int(self.arrival[-1]) + every + 1, every)
        edges = np.searchsorted(self.arrival, [self.since, *ends])
        for at, begin, end in zip(ends, edges[:-1], edges[1:], strict=True):
            if end > begin:
                yield int(at), self.table.slice(begin, end - begin)


def make_packets(count: int, *, seed: int = 7, span: int = SPAN, since: int = 0) -> Packets:
    """Packets of forty minutes by default, from `since` on: 80% on time, 20% up to a minute late,
    one in two thousand minutes late."""
    rng = np.random.default_rng(seed)
    sent = since + np.sort(rng.integers(0, span, count))
    delay = rng.integers(0, 50_000, count)
    delay = np.where(rng.random(count) < 0.2, rng.integers(0, MINUTE, count), delay)
    delay = np.where(rng.random(count) < 0.0005, rng.integers(2 * MINUTE, 5 * MINUTE, count), delay)
    order = np.argsort(sent + delay, kind="stable")
    share = 1 / np.arange(1, SOURCES + 1)
    names = np.array([f"10.0.0.{number}" for number in range(1, SOURCES + 1)])
    columns = {
        "time": sent[order],
        "src": names[rng.choice(SOURCES, count, p=share / share.sum())],
        "len": rng.choice([40, 576, 1500], count),
    }
    return Packets(tw.events(pa.table(columns), start="time"), (sent + delay)[order], since)


def packets_by_source() -> tw.Stream:
    """The query: packets and bytes per source over ten minutes, every minute."""
    packets = tw.source(
        "packets",
        {"src": "string", "len": "int64"},
        disorder="1 min",
        late="drop",
        insert_only=True,
    )
    return (
        packets.group_by("src")
        .hopping("10 min", "1 min")
        .aggregate(packets=tw.count(), bytes=tw.sum_("len"))
    )

"""Made-up packets of several links, as they come in: every link in order, links apart by a skew.

A link is sent in steps of arrival time; each step is a batch, and a promise that the link has come
as far as it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import thalweg as tw
from benchmarks.repro.streams import SECOND
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.operators.base import StateSize

__all__ = ["COLUMNS", "Link", "Peak", "arrivals", "engine_size", "sources"]

COLUMNS = {"key": "int64", "value": "int64"}


@dataclass(frozen=True)
class Link:
    """Packets at an even rate, `skew` ticks behind the clock."""

    name: str
    rate: int
    keys: int
    skew: int = 0

    def step(self, begin: int, end: int) -> Batch:
        """What arrives while the clock goes from `begin` to `end`."""
        since, until = max(begin - self.skew, 0), max(end - self.skew, 0)
        gap = SECOND // self.rate if self.rate <= SECOND else 1
        ts = np.arange(-(-since // gap), -(-until // gap)) * gap
        rng = np.random.default_rng([begin, sum(map(ord, self.name))])
        payload = pa.RecordBatch.from_arrays(
            [
                pa.array(rng.integers(0, self.keys, len(ts))),
                pa.array(rng.integers(0, 1_500, len(ts))),
            ],
            names=list(COLUMNS),
        )
        return Batch(payload, ts, ts + 1, progress=Progress(until))


def arrivals(links: list[Link], *, length: int, step: int) -> Iterator[tuple[str, Batch]]:
    """All links, step by step."""
    for begin in range(0, length, step):
        for link in links:
            yield link.name, link.step(begin, begin + step)


def sources(*names: str) -> list[tw.Stream]:
    return [tw.source(name, COLUMNS, insert_only=True) for name in names]


def engine_size(engine: tw.Engine) -> StateSize:
    return sum(engine.state_size().values(), StateSize())


class Peak:
    """The largest size that was seen."""

    def __init__(self, size: Callable[[], StateSize]) -> None:
        self._size = size
        self.rows = 0
        self.bytes = 0

    def look(self) -> None:
        now = self._size()
        self.rows, self.bytes = max(self.rows, now.rows), max(self.bytes, now.bytes)

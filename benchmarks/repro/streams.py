"""Made-up streams with the disorder that was observed in network traffic, and the punctuation that
belongs to it.

    band          tuples come up to `most` after their time, most of them soon: ten sequences of
                  such delays, strung together at random
    block-sorted  tuples come in blocks of time, in any order within a block: a router that empties
    its cache now and then

Punctuation is put in where the low watermark, the smallest time that is still to come, has passed
the next multiple of a slide (Eq. 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress

__all__ = ["MS", "SECOND", "Arrivals", "Numbers", "band_disorder", "block_disorder", "in_order"]

MS, SECOND = 1_000, 1_000_000
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Arrivals:
    """Tuples in the order in which they arrive: their time, a value, and the clock when they
    arrive."""

    ts: Numbers
    value: Numbers
    clock: Numbers

    def __len__(self) -> int:
        return len(self.ts)

    def low_watermark(self) -> Numbers:
        """After each tuple, the smallest time that is still to come."""
        later = np.minimum.accumulate(self.ts[::-1])[::-1]
        return np.append(later[1:], np.iinfo(np.int64).max)

    def punctuation(self, slide: int) -> tuple[Numbers, Numbers]:
        """Positions after which a punctuation stands, and its time: a multiple of the slide."""
        reached = np.minimum(self.low_watermark(), int(self.ts.max()) + slide) // slide * slide
        before = np.append(self.ts.min() // slide * slide, reached[:-1])
        at = np.flatnonzero(reached > before)
        return at, reached[at]

    def batches(self, slide: int, *, columns: dict[str, Numbers] | None = None) -> Iterator[Batch]:
        """Cut where punctuation stands."""
        at, time = self.punctuation(slide)
        begin = 0
        payload = pa.RecordBatch.from_pydict({"value": self.value, **(columns or {})})
        for end, promise in zip(at.tolist(), time.tolist(), strict=True):
            rows = slice(begin, end + 1)
            yield Batch(
                payload.slice(begin, end + 1 - begin),
                self.ts[rows],
                self.ts[rows] + 1,
                progress=Progress(promise),
            )
            begin = end + 1
        if begin < len(self):
            yield Batch(
                payload.slice(begin), self.ts[begin:], self.ts[begin:] + 1, progress=NO_PROGRESS
            )


def in_order(count: int, *, rate: int = 1_000, seed: int = 1) -> Arrivals:
    """Tuples at even distances."""
    rng = np.random.default_rng(seed)
    ts = np.arange(count) * SECOND // rate
    return Arrivals(ts, rng.integers(0, 1_000_000, count), ts)


def band_disorder(
    count: int, *, rate: int = 100, most: int = 3_200 * MS, seed: int = 1
) -> Arrivals:
    rng = np.random.default_rng(seed)
    plain = in_order(count, rate=rate, seed=seed)
    length = 500
    # Ten recorded shapes: a burst of retransmissions here, a slow path there.
    shapes = [
        rng.beta(1, shape, length) * (rng.random(length) < 0.25) for shape in rng.uniform(2, 12, 10)
    ]
    delay = np.concatenate([shapes[i] for i in rng.integers(0, 10, count // length + 1)])[:count]
    clock = plain.ts + (delay / max(delay.max(), 1e-9) * most).astype(np.int64)
    order = np.argsort(clock, kind="stable")
    drift = (500_000 + 400_000 * np.sin(plain.ts / (20 * SECOND))).astype(
        np.int64
    )  # so that a lost tuple is missed
    return Arrivals(plain.ts[order], (plain.value // 2 + drift)[order], clock[order])


def block_disorder(
    count: int, *, rate: int = 20, block: int = 490 * SECOND, seed: int = 1
) -> Arrivals:
    rng = np.random.default_rng(seed)
    plain = in_order(count, rate=rate, seed=seed)
    number = plain.ts // block
    order = np.lexsort((rng.random(count), number))
    clock = (number[order] + 1) * block + np.arange(
        count
    ) % 1_000  # a block is sent when it is full
    return Arrivals(plain.ts[order], plain.value[order], np.maximum.accumulate(clock))

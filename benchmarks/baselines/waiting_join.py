"""The window join of the literature, which waits for order: a row meets the rows of the other input
that are in its window, and leaves with its own time.

It waits as the ordered union does (`ordered_union`): a row is taken when no input can still bring
an earlier one. Rows meet when the first decimal of their values is the same.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from benchmarks.baselines.ordered_union import OrderedUnion
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS

__all__ = ["WindowJoin"]


class WindowJoin(OrderedUnion):
    """Joins rows less than `window` apart."""

    def __init__(self, schema: pa.Schema, window: int) -> None:
        super().__init__(schema, 2)
        self._window = window
        self._held: tuple[deque[tuple[int, int]], ...] = (deque(), deque())

    def process(self, port: int, batch: Batch) -> Batch:
        passed = super().process(port, batch)
        if not len(batch):
            return passed
        other, own = self._held[1 - port], self._held[port]
        pairs: list[int] = []
        values = batch.payload.column(0).to_pylist()
        for at, (time, value) in enumerate(zip(batch.start.tolist(), values, strict=True)):
            while other and other[0][0] <= time - self._window:
                other.popleft()
            decimal = int(10 * value)
            pairs += [at] * sum(decimal == known for _, known in other)
            own.append((time, decimal))
        return batch.take(np.array(pairs, np.int64)).with_progress(NO_PROGRESS)

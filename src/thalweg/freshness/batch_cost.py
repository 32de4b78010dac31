"""The measured cost of micro-batches, and the number of rows of one that ends in time.

A micro-batch of n rows takes about `overhead + n * row_cost`. Both are fitted to past batches by
least squares with decay: a batch has `_FORGET` times the weight of the next. While all batches have
about the same size the two costs cannot be separated: the row cost keeps its last value, and before
there is one, each batch has twice as many rows as the one before. (Counting all time as row cost
would keep batches small for ever where a small batch takes half of the target.)

A row that arrives just after a batch was cut waits for that batch and is served with the next one:
to be fresh within a target, a batch may take half of it. Where the overhead alone is more than
that, a batch gets rows that cost as much as the overhead: smaller batches would be no fresher, and
serve fewer keys. Batches at most double, so that a wrong guess costs one batch.
"""

from __future__ import annotations

import numpy as np

__all__ = ["BatchCost"]

_FORGET = 0.85
_FIRST_ROWS = 1_000
_SAME_SIZE = 0.01
"""Relative variance of sizes below which overhead and cost of a row cannot be told apart."""


class BatchCost:
    """Times in ticks.

    >>> cost = BatchCost()
    >>> cost.rows_within(2_000_000)
    1000
    >>> for rows in (1_000, 2_000, 4_000):
    ...     cost.observe(rows, 400_000 + 50 * rows)
    >>> round(cost.overhead), round(cost.row_cost), cost.rows_within(2_000_000)
    (400000, 50, 8000)
    >>> cost.observe(8_000, 800_000)
    >>> cost.rows_within(2_000_000)
    12000
    """

    def __init__(self) -> None:
        self._sums = np.zeros(5)
        """With decay: batches, rows, time, rows squared, rows times time."""
        self._largest = 0.0
        self._slope: float | None = None
        """The cost of a row when sizes last differed."""

    def observe(self, rows: int, duration: int) -> None:
        """Add a measurement: a batch of `rows` rows took `duration` from its cut to its sink."""
        self._sums *= _FORGET
        self._sums += (1.0, rows, duration, float(rows) ** 2, float(rows) * duration)
        self._largest = max(_FORGET * self._largest, float(rows))
        batches, all_rows, time, squares, products = self._sums.tolist()
        mean = all_rows / batches
        variance = squares / batches - mean**2
        if all_rows and variance > _SAME_SIZE * mean**2:
            covariance = products / batches - mean * time / batches
            self._slope = max(covariance / variance, time / all_rows / 1_000)

    @property
    def row_cost(self) -> float:
        """The time that one more row takes; while all batches have one size, a row's share."""
        _, rows, time, *_ = self._sums.tolist()
        if not rows:
            return 0.0
        share: float = time / rows
        return share if self._slope is None else min(self._slope, share)

    @property
    def overhead(self) -> float:
        """The time that a batch takes whatever its size."""
        batches, rows, time, *_ = self._sums.tolist()
        return max((time - self.row_cost * rows) / batches, 0.0) if batches else 0.0

    def rows_within(self, target: int) -> int:
        """How many rows the next batch may have."""
        if not self._largest:
            return _FIRST_ROWS
        if self._slope is None:
            return max(2 * int(self._largest), _FIRST_ROWS)
        cost, overhead = max(self.row_cost, 1e-9), self.overhead
        room = max(target / 2 - overhead, overhead) / cost
        return max(1, int(min(room, max(2 * self._largest, _FIRST_ROWS))))

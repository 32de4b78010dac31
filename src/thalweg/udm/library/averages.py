"""Averages: of values, and of values weighted by how long they lasted.

Both keep exact sums, so that a value that is taken back leaves nothing behind, NaN and infinities
included, and the order of rows does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.aggregates.limbs import LIMBS, Limbs
from thalweg.udm.decorators import aggregate
from thalweg.udm.events import Event, Window
from thalweg.udm.segments import segment_sums

__all__ = ["Average", "TimeWeightedAverage"]


@dataclass(frozen=True, slots=True)
class Exact:
    """A sum of floats without rounding; NaN and infinities are counted beside it."""

    total: Fraction = Fraction(0)
    nan: int = 0
    plus: int = 0
    minus: int = 0

    def add(self, value: float, times: int = 1) -> Exact:
        """The sum and `times` the value."""
        if math.isfinite(value):
            return Exact(self.total + Fraction(value) * times, self.nan, self.plus, self.minus)
        step = 1 if times > 0 else -1
        return Exact(
            self.total,
            self.nan + step * math.isnan(value),
            self.plus + step * (value == math.inf),
            self.minus + step * (value == -math.inf),
        )

    def merge(self, other: Exact) -> Exact:
        return Exact(
            self.total + other.total,
            self.nan + other.nan,
            self.plus + other.plus,
            self.minus + other.minus,
        )

    def rounded(self) -> float:
        if self.nan or (self.plus and self.minus):
            return math.nan
        if self.plus or self.minus:
            return math.inf if self.plus else -math.inf
        try:
            return float(self.total)
        except OverflowError:
            return math.inf if self.total > 0 else -math.inf


_SMALL = 2**31
"""Whole numbers below this add up exactly in 64 bits, 2^32 of them; other values need digits."""


def _lists(total: Limbs, some: npt.NDArray[np.int64]) -> pa.Array:
    """Sums in Arrow; null where there is nothing to add: all groups but `some`."""
    empty = np.ones(len(total), np.bool_)
    empty[some] = False
    lists = total.to_lists()
    return lists.take(pa.array(np.arange(len(total)), mask=empty)) if empty.any() else lists


@aggregate("std.average", inputs={"value": "double"}, output="double", nulls="skip", any_order=True)
class Average:
    """The mean of a column. It is incremental, differential and mergeable, in plain Python and in
    columns: there a sum is that of small whole numbers, in 64 bits, and of all others, in
    digits."""

    def empty(self) -> tuple[Exact, int]:
        return Exact(), 0

    def add(self, state: tuple[Exact, int], values: Sequence[float]) -> tuple[Exact, int]:
        return self._changed(state, values, 1)

    def remove(self, state: tuple[Exact, int], values: Sequence[float]) -> tuple[Exact, int]:
        return self._changed(state, values, -1)

    def _changed(
        self, state: tuple[Exact, int], values: Sequence[float], times: int
    ) -> tuple[Exact, int]:
        total, count = state
        for value in values:
            total = total.add(value, times)
        return total, count + times * len(values)

    def merge(self, state: tuple[Exact, int], other: tuple[Exact, int]) -> tuple[Exact, int]:
        return state[0].merge(other[0]), state[1] + other[1]

    def result(self, state: tuple[Exact, int]) -> float:
        return state[0].rounded() / state[1]

    def compute_groups(
        self, rows: pa.RecordBatch, offsets: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        return _means(*_sums(rows, offsets), offsets[1:] - offsets[:-1])

    def partials(self, rows: pa.RecordBatch, offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
        whole, total = _sums(rows, offsets)
        if total is None:
            total = pa.nulls(len(whole), LIMBS)
        return pa.RecordBatch.from_pydict(
            {"whole": whole, "total": total, "count": np.diff(offsets)}
        )

    def merge_groups(
        self, states: pa.RecordBatch, offsets: npt.NDArray[np.int64]
    ) -> pa.RecordBatch:
        many = np.diff(offsets)
        total = states.column("total").slice(int(offsets[0]), int(many.sum()))
        merged = pa.nulls(len(many), LIMBS)
        if total.null_count < len(total):
            code = np.repeat(np.arange(len(many)), many)
            there = total.is_valid().to_numpy(zero_copy_only=False)
            merged = _lists(Limbs.of_lists(total, code, len(many)), code[there])
        whole, count = (
            segment_sums(states.column(name).to_numpy(), offsets) for name in ("whole", "count")
        )
        return pa.RecordBatch.from_pydict({"whole": whole, "total": merged, "count": count})

    def results(self, states: pa.RecordBatch) -> npt.NDArray[np.float64]:
        whole, total, count = states.columns
        return _means(whole.to_numpy(), total, count.to_numpy())


def _sums(
    rows: pa.RecordBatch, offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], pa.Array | None]:
    """For each group the sum of its small whole numbers, and that of its other values; None where
    there are no others."""
    values = rows.column(0).to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    whole, total = (np.abs(values) < _SMALL) & (values == np.trunc(values)), None
    if np.count_nonzero(whole) < len(whole):
        size = len(offsets) - 1
        code = np.repeat(np.arange(size), np.diff(offsets))[~whole]
        total = _lists(Limbs.of_floats(values[~whole], code, size), code)
        values = np.where(whole, values, 0.0)
    return segment_sums(values.astype(np.int64), offsets - offsets[0]), total


def _means(
    whole: npt.NDArray[np.int64], other: pa.Array | None, count: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    total = whole.astype(np.float64)
    if other is not None and other.null_count < len(other):
        every = np.arange(len(whole))
        wholes = Limbs.of_integers(whole, every, len(every))
        total = Limbs.of_lists(other, every, len(every)).plus(wholes).to_floats()
    # A window without a value is null, whatever stands here.
    means: npt.NDArray[np.float64] = total / np.maximum(count, 1)
    return means


@aggregate(
    "std.time_weighted_average",
    inputs={"value": "double"},
    output="double",
    time_sensitive=True,
    clip="full",
    nulls="skip",
)
class TimeWeightedAverage:
    """Each value weighted by the part of the window that it lasts: sum(value * duration) / duration
    of the window.

    What is clipped does not count, so that samples of a signal (edge events) give its mean over the
    window.
    """

    def empty(self) -> Exact:
        return Exact()

    def add(self, state: Exact, events: Sequence[Event]) -> Exact:
        for event in events:
            state = state.add(float(event.payload), event.duration)
        return state

    def remove(self, state: Exact, events: Sequence[Event]) -> Exact:
        for event in events:
            state = state.add(float(event.payload), -event.duration)
        return state

    def result(self, state: Exact, window: Window) -> float:
        return state.rounded() / window.duration

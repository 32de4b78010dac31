"""Averages: of values, and of values weighted by how long they lasted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.udm.decorators import aggregate
from thalweg.udm.events import Event, Window
from thalweg.udm.segments import segment_sums

__all__ = ["Average", "TimeWeightedAverage"]


@aggregate("std.average", inputs={"value": "double"}, output="double", nulls="skip", any_order=True)
class Average:
    """The mean of a column. It is incremental, differential and mergeable, in plain Python and in
    columns."""

    def empty(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, state: tuple[float, int], values: Sequence[float]) -> tuple[float, int]:
        return state[0] + sum(values), state[1] + len(values)

    def remove(self, state: tuple[float, int], values: Sequence[float]) -> tuple[float, int]:
        return state[0] - sum(values), state[1] - len(values)

    def merge(self, one: tuple[float, int], two: tuple[float, int]) -> tuple[float, int]:
        return one[0] + two[0], one[1] + two[1]

    def result(self, state: tuple[float, int]) -> float:
        return state[0] / state[1]

    def partials(self, rows: pa.RecordBatch, offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
        sums = segment_sums(rows.column("value").to_numpy(zero_copy_only=False), offsets)
        return pa.RecordBatch.from_pydict({"total": sums, "count": np.diff(offsets)})

    def merge_groups(
        self, states: pa.RecordBatch, offsets: npt.NDArray[np.int64]
    ) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {
                name: segment_sums(states.column(name).to_numpy(), offsets)
                for name in ("total", "count")
            }
        )

    def results(self, states: pa.RecordBatch) -> npt.NDArray[np.float64]:
        with np.errstate(
            invalid="ignore"
        ):  # a window without a value is null, whatever stands here
            means: npt.NDArray[np.float64] = (
                states.column("total").to_numpy() / states.column("count").to_numpy()
            )
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

    def empty(self) -> float:
        return 0.0

    def add(self, state: float, events: Sequence[Event]) -> float:
        return state + sum(float(event.payload) * event.duration for event in events)

    def remove(self, state: float, events: Sequence[Event]) -> float:
        return state - sum(float(event.payload) * event.duration for event in events)

    def result(self, state: float, window: Window) -> float:
        return state / window.duration

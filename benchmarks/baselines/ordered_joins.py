"""Sliding-window joins that keep order: results leave by the time of the left tuple.

Output-buffered: joined as in OA-Join, but results wait in a buffer until no earlier one can come,
and are sorted. Input-buffered: a left tuple waits until all it can meet is there, and is joined
then; so results come in order, and later.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import thalweg as tw
from benchmarks.baselines.ordering import Merge, size_of
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.rows import encode_together
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import StateSize
from thalweg.state.overlaps import overlapping_pairs

__all__ = ["InputBufferedJoin", "OutputBufferedJoin", "band_query"]


def band_query(left: tw.Stream, right: tw.Stream, window: int) -> tw.Stream:
    """Tuples of equal keys less than a window apart, at the left time."""
    return left.window_join(right, "key", window=tw.ranges(left=window, right=window), at="left")


class OutputBufferedJoin:
    """OPOB-Join: `left` and `right` are the sources of the join."""

    def __init__(self, left: tw.Stream, right: tw.Stream, window: int) -> None:
        self._join = tw.Engine(band_query(left, right, window))
        self._output = Merge(1)

    def process(self, source: str, batch: Batch) -> list[Batch]:
        return [self._output.process(0, answer) for answer in self._join.push(source, batch)]

    def state_size(self) -> StateSize:
        return sum(self._join.state_size().values(), StateSize()) + self._output.state_size()

    @property
    def schema(self) -> pa.Schema:
        return self._join.schema


class InputBufferedJoin:
    """OPIB-Join."""

    def __init__(self, left: tw.Stream, right: tw.Stream, window: int) -> None:
        self._window = window
        self._held: dict[str, list[Batch]] = {"a": [], "b": []}
        self._reached = {"a": MIN_TIME, "b": MIN_TIME}
        self.schema = band_query(left, right, window).schema

    def process(self, source: str, batch: Batch) -> list[Batch]:
        if len(batch):
            self._held[source].append(batch)
        self._reached[source] = max(self._reached[source], batch.progress.cti)
        until = max(min(self._reached["a"], self._reached["b"] - self._window), MIN_TIME)
        ready = [part.filter(part.start < until) for part in self._held["a"]]
        self._held["a"] = [
            rest for part in self._held["a"] if len(rest := part.filter(part.start >= until))
        ]
        joined = self._joined([part for part in ready if len(part)])
        self._held["b"] = [
            rest
            for part in self._held["b"]
            if len(rest := part.filter(part.start > until - self._window))
        ]
        return [joined.with_progress(Progress(until))]

    def _joined(self, ready: list[Batch]) -> Batch:
        if not ready or not self._held["b"]:
            return Batch.empty(self.schema)
        left, right = (Batch.concat(parts, parts[0].schema) for parts in (ready, self._held["b"]))
        left = left.take(np.argsort(left.start, kind="stable"))
        one, two, _ = encode_together(
            [left.payload.column("key")], [right.payload.column("key")], (len(left), len(right))
        )
        at = overlapping_pairs(
            one, left.start, left.start + self._window, two, right.start, right.start + self._window
        )
        order = np.argsort(at[0], kind="stable")
        first, second = at[0][order], at[1][order]
        columns = {
            "key": left.payload.column("key").take(pa.array(first)),
            "value": left.payload.column("value").take(pa.array(first)),
            "value_right": right.payload.column("value").take(pa.array(second)),
            "left_time": pa.array(left.start[first]),
            "right_time": pa.array(right.start[second]),
        }
        payload = pa.RecordBatch.from_arrays(
            [columns[name] for name in self.schema.names], schema=self.schema
        )
        return Batch(payload, left.start[first], left.start[first] + 1)

    def state_size(self) -> StateSize:
        return size_of([*self._held["a"], *self._held["b"]])

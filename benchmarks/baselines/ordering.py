"""Operators that keep order, as in-order systems need them: Merge for unions, and Sort with slack
for streams that are not quite in order.

Both hold tuples back until nothing earlier can come: Merge until every input has gone past them,
Sort until one has come that is `slack` later. What they let go is in order, so that the last time
in it is a promise.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import StateSize

__all__ = ["Merge", "SlackSort", "size_of", "sorted_by_time"]


def sorted_by_time(batch: Batch) -> Batch:
    return batch.take(np.argsort(batch.start, kind="stable"))


def size_of(batches: list[Batch]) -> StateSize:
    """What buffered tuples take: their columns and their times."""
    return StateSize(
        sum(map(len, batches)),
        sum(int(b.payload.nbytes) + b.start.nbytes + b.end.nbytes for b in batches),
    )


class _Buffer:
    """Tuples held back, and those that may leave taken out in order."""

    def __init__(self) -> None:
        self.parts: list[Batch] = []

    def add(self, batch: Batch) -> None:
        if len(batch):
            self.parts.append(batch)

    def take(self, before: int) -> list[Batch]:
        ready = [part.filter(part.start < before) for part in self.parts]
        self.parts = [rest for part in self.parts if len(rest := part.filter(part.start >= before))]
        return [part for part in ready if len(part)]


class Merge:
    """The union of ordered inputs, in order: a tuple waits until every other input has shown a time
    that is not earlier.

    `process` is told how far its input has come: the promise of its batch.
    """

    def __init__(self, inputs: int) -> None:
        self._buffers = [_Buffer() for _ in range(inputs)]
        self._reached = [MIN_TIME] * inputs

    def process(self, port: int, batch: Batch) -> Batch:
        self._buffers[port].add(batch)
        self._reached[port] = max(self._reached[port], batch.progress.cti)
        until = min(self._reached)
        ready = [part for buffer in self._buffers for part in buffer.take(until)]
        return sorted_by_time(Batch.concat(ready, batch.schema)).with_progress(Progress(until))

    def state_size(self) -> StateSize:
        return size_of([part for buffer in self._buffers for part in buffer.parts])


class SlackSort:
    """Puts tuples in order that are at most `slack` late; later ones are lost, and counted."""

    def __init__(self, slack: int) -> None:
        self._slack = slack
        self._buffer = _Buffer()
        self._newest = MIN_TIME
        self._gone = MIN_TIME
        self.lost = 0

    def process(self, batch: Batch) -> Batch:
        late = batch.start < self._gone
        self.lost += int(late.sum())
        self._buffer.add(batch.filter(~late) if late.any() else batch)
        if len(batch):
            self._newest = max(self._newest, int(batch.start.max()))
        if batch.progress.cti == INFINITY:
            self._gone = INFINITY
        elif self._newest > MIN_TIME:
            self._gone = max(self._gone, self._newest - self._slack)
        ready = self._buffer.take(self._gone)
        return sorted_by_time(Batch.concat(ready, batch.schema)).with_progress(Progress(self._gone))

    def state_size(self) -> StateSize:
        return size_of(self._buffer.parts)

"""The operators of the literature that wait for order, as operators of our own executor.

`OrderedUnion` merges its inputs by time: a row leaves when no input can still bring an earlier one.
Each input has a time-stamp register: the time of the row at its front, or, when it is empty, the
last time that came by a row or by a promise. A row at or below the smallest register may leave;
until then it waits in its input buffer.

`SlideAggregate` counts rows by windows of length and hop `slide`, and answers a window when a later
row, or a promise, shows that it is over.

Both pass a promise on when there are no rows to work on: the smallest register.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.graph.graph_operator import GraphOperator
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Operator

__all__ = ["OrderedUnion", "SlideAggregate", "SlideByRows", "WaitingOperator"]


class OrderedUnion(Operator):
    """Passes rows on as they are given; the operator gives them in order."""

    def __init__(self, schema: pa.Schema, ports: int) -> None:
        self.schema, self.ports = schema, ports
        self.registers = [MIN_TIME] * ports

    def process(self, port: int, batch: Batch) -> Batch:
        if len(batch):
            self.registers[port] = max(self.registers[port], int(batch.start[-1]))
            return batch.with_progress(Progress(MIN_TIME))
        self.registers[port] = max(self.registers[port], batch.progress.cti)
        return Batch.empty(self.schema, Progress(min(self.registers)))


class WaitingOperator(GraphOperator):
    """The operator of an ordered union: `port` is the relaxed condition for more work."""

    __slots__ = ()
    waits_for_order = True

    def _fronts(self) -> list[int | None]:
        """The time of the row at the front of each input."""
        return [
            int(arc.peek().start[0]) if arc.size() and len(arc.peek().start) else None
            for arc in self.inputs
        ]

    def port(self) -> int:
        union = self.union
        for port, arc in enumerate(self.inputs):
            if arc.size() and not len(arc.peek().start):
                return port  # a promise
        fronts = self._fronts()
        registers = [
            known if front is None else front
            for front, known in zip(fronts, union.registers, strict=True)
        ]
        least = min(registers)
        for port, front in enumerate(fronts):
            if front is not None and front <= least:
                return port
        return -1

    @property
    def union(self) -> OrderedUnion:
        kernel = getattr(self.kernel, "inner", self.kernel)
        assert isinstance(kernel, OrderedUnion)
        return kernel

    def blocked_by(self) -> dict[int, int]:
        """The empty inputs that rows wait for, with the time that would release the first of
        them."""
        times = [front for front in self._fronts() if front is not None]
        if not times or self.port() >= 0:
            return {}
        return {
            port: min(times)
            for port, arc in enumerate(self.inputs)
            if not arc.size() and self.union.registers[port] < min(times)
        }


class SlideAggregate(Operator):
    """Counts rows by windows [n slide, (n + 1) slide); a window leaves when it is over."""

    def __init__(self, slide: int) -> None:
        self.schema = pa.schema([("n", pa.int64())])
        self._slide = slide
        self._counts: dict[int, int] = {}

    def process(self, port: int, batch: Batch) -> Batch:
        for window in (batch.start // self._slide).tolist():
            self._counts[window] = self._counts.get(window, 0) + 1
        now = max([batch.progress.cti, *batch.start.tolist()])
        over = sorted(w for w in self._counts if (w + 1) * self._slide <= now)
        counts = [self._counts.pop(window) for window in over]
        start = np.array(over, np.int64) * self._slide
        progress = Progress(now // self._slide * self._slide if now > MIN_TIME else MIN_TIME)
        if not over:
            return Batch.empty(self.schema, progress)
        payload = pa.RecordBatch.from_arrays([pa.array(counts, pa.int64())], schema=self.schema)
        return Batch(payload, start, start + self._slide, progress=progress)


class SlideByRows(Operator):
    """A result every `slide` rows, at the time of the last of them. Of time it says nothing else,
    but for the promises that are sent through it."""

    def __init__(self, schema: pa.Schema, slide: int) -> None:
        self.schema = schema
        self._slide = slide
        self._rows = 0

    def process(self, port: int, batch: Batch) -> Batch:
        if not len(batch):
            return Batch.empty(self.schema, batch.progress)
        ends = np.arange(self._rows + 1, self._rows + len(batch) + 1) % self._slide == 0
        self._rows += len(batch)
        return batch.filter(ends).with_progress(NO_PROGRESS)

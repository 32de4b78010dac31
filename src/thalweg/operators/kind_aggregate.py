"""Aggregates over a user's kind of window: the WID implementation as it is written down, a bucket
step and an aggregation.

Meaning: per window w of the kind, and group with rows in it, the aggregates of the rows t with w in
wids(t), over time_range(w).

The bucket step asks the kind for the windows of the rows; the aggregation groups by group and
window; the CTI closes windows. The kind is asked about whole columns, with the rows' times and the
payload columns it reads. Nulls in keys are a group; what nulls in the columns that the kind reads
mean is up to it. A window must contain the times of its rows: that is how it is known to be closed.

State: rows for as long as a window that has them may be open, `longest` (see `window_rows`). The promise lags behind the CTI by the kind's
`longest` window.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import EvaluationError
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows, encode
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.due import Due
from thalweg.operators.groups import units
from thalweg.operators.regroup import only_starts
from thalweg.operators.window_rows import WindowRows
from thalweg.plan.nodes import WidAggregate
from thalweg.windows import Tuples

__all__ = ["KindAggregateKernel"]


class KindAggregateKernel(Operator):
    """
    >>> import thalweg as tw
    >>> from thalweg.windows import SlidingTime
    >>> query = tw.source("s", {"v": "int64"}).windows(SlidingTime(10, 5)).aggregate(n=tw.count())
    >>> tw.table(query, {"s": [tw.point({"v": 1}, 2), tw.point({"v": 3}, 7)]})
    [(-5, 5, {'n': 1}), (0, 10, {'n': 2}), (5, 15, {'n': 1})]
    """

    def __init__(self, node: WidAggregate, consistency: Consistency) -> None:
        self.schema = node.schema
        self._node, self._kind = node, node.kind
        self._arguments = ArgumentProjection(node.aggregates, node.columns, node.input.schema)
        read = [
            pa.field(internal(f"read{i}"), node.input.schema.field(name).type)
            for i, name in enumerate(node.kind.reads)
        ]
        self._held = WindowRows(
            pa.schema([*self._arguments.schema, *read]), node.columns, "KindAggregate"
        )
        self._due = Due(consistency)

    def process(self, port: int, batch: Batch) -> Batch:
        changes = []
        if len(batch):
            changes.append(self._apply(self._project(batch)))
        due = self._due.after(batch)
        if due > self._due.out:
            reach = (self._due.out - self._kind.longest, due)
            changes.append(self._evaluate(*self._held.between(*reach), self._due.out, due))
            self._due.out = due
        return Delta.concat(changes, self.schema).to_batch(Progress(self._forget()))

    def _project(self, batch: Batch) -> Delta:
        delta = Delta.of_batch(batch)
        rows = self._arguments.project(delta.payload, delta.start)
        columns = [*rows.columns, *(delta.payload.column(name) for name in self._kind.reads)]
        starts = only_starts(
            Delta(
                pa.RecordBatch.from_arrays(columns, schema=self._held.schema),
                delta.start,
                delta.end,
                delta.weight,
            )
        )
        # A row is held as long as a window that has it may be open.
        return Delta(starts.payload, starts.start, starts.start + self._kind.longest, starts.weight)

    def _apply(self, delta: Delta) -> Delta:
        if not len(delta):
            return Delta.empty(self.schema)
        low, out = int(delta.start.min()), self._due.out
        if out <= low:  # windows end after the rows they contain
            self._held.apply(delta)
            return Delta.empty(self.schema)
        touched = self._held.groups_of(delta)
        reach = (low - self._kind.longest, out)
        before = self._held.of_groups(touched, *reach)
        self._held.apply(delta)
        after = self._held.of_groups(touched, *reach)
        return Delta.concat(
            [self._evaluate(*after, low, out), self._evaluate(*before, low, out).negate()],
            self.schema,
        )

    def _bucket(self, rows: Delta) -> tuple[Codes, Codes, Times, Times]:
        """Row and window, and the lifetime of the window, for every membership."""
        columns = {
            name: rows.payload.column(internal(f"read{i}"))
            for i, name in enumerate(self._kind.reads)
        }
        tuples = Tuples(
            rows.start, np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64), columns
        )
        found = self._kind.wids(tuples)
        start, end = self._kind.time_range(found.window)
        wrong = np.flatnonzero(
            (rows.start[found.member] < start)
            | (rows.start[found.member] >= end)
            | (end - start > self._kind.longest)
        )
        if len(wrong):
            at = int(wrong[0])
            raise EvaluationError(
                f"{self._kind}: window {found.window[at]} lasts from {start[at]} to {end[at]}, but must contain the time "
                f"{rows.start[found.member[at]]} of its tuple and be no longer than longest = {self._kind.longest}."
            )
        return found.member, found.window, start, end

    def _evaluate(self, rows: Delta, group: Codes, low: int, high: int) -> Delta:
        if not len(rows):
            return Delta.empty(self.schema)
        if not (rows.weight == 1).all():
            group, rows = np.repeat(group, rows.weight), units(rows)
        member, window, start, end = self._bucket(rows)
        due = (end > low) & (end <= high)
        member, window, start, end = member[due], window[due], start[due], end[due]
        if not len(member):
            return Delta.empty(self.schema)
        cell, cells = encode([group[member], window], len(member))
        someone = np.empty(cells, np.int64)
        someone[cell] = np.arange(len(member))
        keys = rows.payload.take(pa.array(member[someone]))
        columns = [keys.column(name) for name in self._node.columns]
        columns += [] if self._node.wid is None else [pa.array(window[someone])]
        columns += self._arguments.reduce(
            rows.payload, rows.start, member, cell, cells, self.schema
        )
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Delta(payload, start[someone], end[someone], np.ones(cells, np.int64))

    def needs(self, time: int) -> tuple[int, ...]:
        return (time if time <= MIN_TIME or time == INFINITY else time + self._kind.longest - 1,)

    def _forget(self) -> int:
        if self._due.cti in (INFINITY, MIN_TIME):
            if self._due.cti == INFINITY:
                self._held.clear()
            return self._due.cti
        self._held.purge(self._due.cti)
        return max(self._due.cti - self._kind.longest + 1, MIN_TIME)

    def snapshot(self) -> Slices:
        return {**self._held.snapshot(), "marks": self._due.to_rows()}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._held.restore(slices)
        self._due.restore(slices["marks"])

    def state_size(self) -> StateSize:
        return self._held.size()

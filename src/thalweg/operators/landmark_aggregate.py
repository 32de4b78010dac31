"""Landmark windows over time: everything so far, answered where something new came, until the next
time something does.

Meaning: a row that starts at t enters with window w(t) = max(floor((t - o) / s), 0) and never
leaves. Per group, for each window w that something enters, in order: the aggregate of all rows that
have entered up to w, over [o + w s, o + w' s), w' being the next such window.

Nulls are a group of their own, duplicates count, a late row changes all answers from its window on.

State: rows that the CTI has not passed; of the others, per group, one partial result for all closed
windows and one for the window that the CTI lies in. The aggregates must be bounded. The promise is
the CTI, rounded down to the slide.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, empty_rows, encode
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.accumulators import Accumulators
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Operator, Slices, StateSize, delta_of_slice, slice_of_delta
from thalweg.operators.consistency import Consistency
from thalweg.operators.due import Due
from thalweg.operators.groups import keyed_in, refuse_negative, units
from thalweg.operators.regroup import only_starts
from thalweg.plan.nodes import WidAggregate
from thalweg.windows import LandmarkTime

__all__ = ["LandmarkAggregateKernel"]

_WINDOW = internal("window")


class LandmarkAggregateKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).landmark(10).aggregate(n=tw.count())
    >>> [row[:2] + (row[2]["n"],) for row in tw.table(query, {"s": [tw.point({"v": 7}, t) for t in (2, 14, 15)]})]
    [(0, 10, 1), (10, 9223372036854775807, 3)]
    """

    def __init__(self, node: WidAggregate, consistency: Consistency) -> None:
        assert isinstance(node.kind, LandmarkTime)
        self.schema = node.schema
        self._keys, self._wid = node.columns, node.wid
        self._slide, self._origin = node.kind.slide, node.kind.origin
        self._arguments = ArgumentProjection(node.aggregates, node.columns, node.input.schema)
        self._sums = Accumulators(self._arguments, node.schema)
        fields = [node.input.schema.field(name) for name in node.columns]
        self._cells = empty_rows(
            pa.schema([*fields, pa.field(_WINDOW, pa.int64()), *self._sums.schema])
        )
        self._held = Delta.empty(self._cells.schema)
        self._due = Due(consistency)

    def process(self, port: int, batch: Batch) -> Batch:
        delta = self._project(batch) if len(batch) else Delta.empty(self._held.schema)
        due = self._due.after(batch)
        changes = self._apply(delta, due)
        self._due.out = due
        return changes.to_batch(Progress(self._forget()))

    def _project(self, batch: Batch) -> Delta:
        delta = Delta.of_batch(batch)
        rows = self._arguments.project(delta.payload, delta.start)
        window = np.maximum((delta.start - self._origin) // self._slide, 0)
        parts = self._sums.of_rows(rows, delta.start)
        columns = [*(rows.column(name) for name in self._keys), pa.array(window), *parts.columns]
        cells = pa.RecordBatch.from_arrays(columns, schema=self._cells.schema)
        return only_starts(Delta(cells, delta.start, delta.end, delta.weight))

    def _apply(self, delta: Delta, due: int) -> Delta:
        after = Delta.concat([self._held, delta], self._held.schema)
        if (delta.weight < 0).any():
            after = after.consolidate()
            refuse_negative(after, "LandmarkAggregate")
        entering = (
            [
                self._held.payload.filter(
                    pa.array(self._answered(self._held.payload, self._due.out, due))
                )
            ]
            if due > self._due.out
            else []
        )
        if due > self._due.out:
            entering.append(
                self._cells.filter(pa.array(self._answered(self._cells, self._due.out, due)))
            )
        touched = concat_rows([delta.payload, *entering], self._cells.schema)
        if touched.num_rows:
            cells = self._cells.filter(pa.array(keyed_in(self._cells, touched, self._keys)))
            old = self._evaluate(
                cells,
                self._held.filter(keyed_in(self._held.payload, touched, self._keys)),
                self._due.out,
            )
            new = self._evaluate(
                cells, after.filter(keyed_in(after.payload, touched, self._keys)), due
            )
            self._held = after
            return Delta.concat([new, old.negate()], self.schema)
        self._held = after
        return Delta.empty(self.schema)

    def _end(self, cells: Rows) -> Times:
        ends: Times = self._origin + (cells.column(_WINDOW).to_numpy() + 1) * self._slide
        return ends

    def _answered(self, cells: Rows, low: int, high: int) -> Bools:
        ends = self._end(cells)
        return (ends > low) & (ends <= high)

    def _evaluate(self, cells: Rows, rows: Delta, upto: int) -> Delta:
        """The answers of all windows that end by `upto`."""
        parts = concat_rows([cells, units(rows).payload], self._cells.schema)
        parts = parts.filter(pa.array(self._end(parts) <= upto))
        if not parts.num_rows:
            return Delta.empty(self.schema)
        merged = self._merged(parts)
        group, _ = encode([merged.column(name) for name in self._keys], merged.num_rows)
        window = merged.column(_WINDOW).to_numpy()
        order = np.lexsort((window, group))
        merged, group, window = merged.take(pa.array(order)), group[order], window[order]
        begins = np.searchsorted(group, group, side="left")
        columns = [merged.column(name) for name in self._keys]
        columns += [] if self._wid is None else [merged.column(_WINDOW)]
        columns += self._sums.results(
            self._sums.over_ranges(merged, begins, np.arange(1, len(group) + 1))
        )
        start = self._origin + window * self._slide
        end = np.full(len(start), INFINITY)
        end[:-1] = np.where(group[1:] == group[:-1], start[1:], INFINITY)
        return Delta(
            pa.RecordBatch.from_arrays(columns, schema=self.schema),
            start,
            end,
            np.ones(len(start), np.int64),
        )

    def _merged(self, parts: Rows) -> Rows:
        """Partial results of equal group and window become one."""
        code, size = encode([parts.column(name) for name in (*self._keys, _WINDOW)], parts.num_rows)
        someone = np.empty(size, np.int64)
        someone[code] = np.arange(parts.num_rows)
        named = parts.select([*self._keys, _WINDOW]).take(pa.array(someone))
        return pa.RecordBatch.from_arrays(
            [*named.columns, *self._sums.merge(parts, code, size).columns],
            schema=self._cells.schema,
        )

    def needs(self, time: int) -> tuple[int, ...]:
        return (
            time
            if time <= MIN_TIME or time == INFINITY
            else -((self._origin - time) // self._slide) * self._slide + self._origin,
        )

    def _forget(self) -> int:
        if self._due.cti in (INFINITY, MIN_TIME):
            if self._due.cti == INFINITY:
                self._held, self._cells = (
                    Delta.empty(self._held.schema),
                    empty_rows(self._cells.schema),
                )
            return self._due.cti
        settled = self._held.start < self._due.cti
        current = max((self._due.cti - self._origin) // self._slide, 0)
        promise = (self._due.cti - self._origin) // self._slide * self._slide + self._origin
        if not settled.any() and not (self._cells.column(_WINDOW).to_numpy() < current).any():
            return promise
        cells = concat_rows(
            [self._cells, units(self._held.filter(settled)).payload], self._cells.schema
        )
        self._held = self._held.filter(~settled)
        self._cells = self._merged(self._closed_as_one(cells, current))
        return promise

    def _closed_as_one(self, cells: Rows, current: int) -> Rows:
        """Closed windows of a group move to the last of them: their own answers are settled, all
        but the end of the last."""
        window = cells.column(_WINDOW).to_numpy()
        group, size = encode([cells.column(name) for name in self._keys], cells.num_rows)
        last: Codes = np.full(max(size, 1), -1)
        closed = window < current
        np.maximum.at(last, group[closed], window[closed])
        moved = np.where(closed, last[group], window)
        columns = list(cells.columns)
        columns[len(self._keys)] = pa.array(moved)
        return pa.RecordBatch.from_arrays(columns, schema=cells.schema)

    def snapshot(self) -> Slices:
        return {
            "rows": slice_of_delta(self._held),
            "cells": self._cells,
            "marks": self._due.to_rows(),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._held, self._cells = delta_of_slice(slices["rows"]), slices["cells"]
        self._due.restore(slices["marks"])

    def state_size(self) -> StateSize:
        return StateSize(
            len(self._held) + self._cells.num_rows, self._held.nbytes + int(self._cells.nbytes)
        )

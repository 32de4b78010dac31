"""Aggregates over windows of the WID framework, from rows or partial results that are held.

Meaning: see `plan.nodes.WidAggregate`. Each batch touches some partitions; the windows of theirs
that are out and that the change can reach are evaluated before and after it, and the difference is
the answer. Then the windows answer that have become due.

Nulls are a partition or group of their own. A late row is a row like any other. Duplicates count.
An empty window has no row.

State: the rows that windows which are not settled need (see `wid_framing`), as partial results
where all aggregates are bounded; how many rows of a partition are gone, where rows are ranked; for
windows over all rows, one partial result a group. A CTI drops what no later window needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.order import dense_ranks
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, empty_rows, encode, encode_together
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.accumulators import Accumulators
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Operator, Slices, StateSize, delta_of_slice, slice_of_delta
from thalweg.operators.consistency import Consistency
from thalweg.operators.due import Due
from thalweg.operators.extents import Frames, Occupied, occupied
from thalweg.operators.groups import group_codes, keyed_in, ranges, refuse_negative, units
from thalweg.operators.regroup import only_starts
from thalweg.operators.wid_framing import Ordered, Settled, framing_of
from thalweg.plan.nodes import NumberRows, WidAggregate
from thalweg.plan.nodes.wid import ARRIVED_AT, ROW_NUMBER
from thalweg.windows import SlideByTuple, SlidingRows, SlidingTime

__all__ = ["WidAggregateKernel"]

_COUNT = pa.field(internal("count"), pa.int64())
_UNKNOWN = INFINITY
"""The anchor of windows that begin with the first row, before there is one."""


@dataclass(frozen=True, slots=True)
class _Out:
    """Which windows have answered: those that end by a time, and those whose numbers are all
    settled."""

    end: int
    number: int

    def has(self, frames: Frames) -> Bools:
        by_time: Bools = frames.end <= self.end
        return by_time | (frames.hi <= self.number + 1) if self.number else by_time


class WidAggregateKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).slide_by_tuple(5).aggregate(n=tw.count(), most=tw.max_("v"))
    >>> tw.table(query, {"s": [tw.point({"v": 7}, 2), tw.point({"v": 3}, 4), tw.point({"v": 1}, 8)]})
    [(-2, 3, {'n': 1, 'most': 7}), (0, 5, {'n': 2, 'most': 7}), (4, 9, {'n': 2, 'most': 3})]
    """

    def __init__(self, node: WidAggregate, consistency: Consistency) -> None:
        assert isinstance(node.kind, SlideByTuple | SlidingRows | SlidingTime)
        self.schema = node.schema
        self._node, self._kind = node, node.kind
        self._counted = (
            isinstance(node.kind, SlidingRows)
            and not node.kind.ranked
            and not node.kind.partitioned
        )
        """Whether windows go by the numbers of rows."""
        self._sparse = self._counted and not isinstance(node.input, NumberRows)
        self._framing = framing_of(node.kind, sparse=self._sparse)
        self._arguments = ArgumentProjection(node.aggregates, node.columns, node.input.schema)
        bounded = all(call.bounded for _, call in node.aggregates)
        self._sums = Accumulators(self._arguments, node.schema) if bounded else None
        fields = [node.input.schema.field(name) for name in node.columns]
        values = (
            list(self._sums.schema)
            if self._sums
            else [f for f in self._arguments.schema if f.name not in node.columns]
        )
        self._numbered = node.by_number
        self._ranked = isinstance(node.kind, SlidingRows | SlideByTuple) and (
            node.kind.ranked or getattr(node.kind, "partitioned", False)
        )
        self._ties = (
            tuple(node.input.schema.names)
            if isinstance(node.kind, SlidingRows) and node.kind.ranked
            else ()
        )
        order = (
            [pa.field(name, pa.int64()) for name in (ROW_NUMBER, ARRIVED_AT)]
            if self._numbered
            else []
        )
        order += [
            pa.field(internal(f"tie{i}"), node.input.schema.field(name).type)
            for i, name in enumerate(self._ties)
        ]
        self._part_schema = pa.schema([*fields, *values])
        self._held = Delta.empty(pa.schema([*self._part_schema, *order]))
        self._gone = empty_rows(
            pa.schema(
                [
                    *(node.input.schema.field(n) for n in node.partition),
                    _COUNT,
                ]
            )
        )
        self._base = empty_rows(self._part_schema)
        self._anchor, self._reached = _UNKNOWN, 0
        self._due = Due(consistency)

    # --------------------------------------------------------------------------------------------------------
    # flow

    def process(self, port: int, batch: Batch) -> Batch:
        changes = []
        reached = self._reach(batch.progress)
        if len(batch) or (self._sparse and reached > self._reached):
            changes.append(self._apply(self._project(batch), reached))
        due = self._due.after(batch)
        if due > self._due.out or reached > self._reached:
            old, new = self._out(), _Out(due, reached if self._counted else 0)
            changes.append(
                self._evaluate(
                    self._held,
                    self._base,
                    lambda frames: new.has(frames) & ~old.has(frames),
                    self._first(self._held),
                    reached,
                )
            )
            self._due.out, self._reached = due, reached
        return Delta.concat(changes, self.schema).to_batch(Progress(self._forget()))

    def _reach(self, progress: Progress) -> int:
        """The number up to which all rows have arrived and are settled."""
        (bound,) = progress.boxes.get((ROW_NUMBER,), (0,)) if self._counted else (0,)
        return max(self._reached, bound - 1)

    def _out(self) -> _Out:
        return _Out(self._due.out, self._reached if self._counted else 0)

    def _project(self, batch: Batch) -> Delta:
        delta = Delta.of_batch(batch)
        rows = self._arguments.project(delta.payload, delta.start)
        values = self._sums.of_rows(rows, delta.start) if self._sums else rows
        columns = [rows.column(name) for name in self._node.columns]
        columns += [
            values.column(field.name)
            for field in self._part_schema
            if field.name not in self._node.columns
        ]
        if self._numbered:
            columns += [delta.payload.column(name) for name in (ROW_NUMBER, ARRIVED_AT)]
        columns += [delta.payload.column(name) for name in self._ties]
        held = pa.RecordBatch.from_arrays(columns, schema=self._held.schema)
        return only_starts(Delta(held, delta.start, delta.end, delta.weight))

    def _apply(self, delta: Delta, reached: int) -> Delta:
        """Take the changes in; revise the answers that are out."""
        if not len(delta) and not (self._sparse and len(self._held)):
            return Delta.empty(self.schema)
        touched = (
            np.ones(len(self._held), np.bool_)
            if self._sparse
            else keyed_in(self._held.payload, delta.payload, self._node.partition)
        )
        before = self._held.filter(touched)
        after = Delta.concat([before, delta], self._held.schema)
        if (delta.weight < 0).any():
            after = after.consolidate()
            refuse_negative(after, "WidAggregate")
        rest = self._held.filter(~touched)
        first = self._first(self._held)
        self._held = Delta.concat([rest, after], self._held.schema)
        now = self._first(self._held)
        reach = int(delta.start.min(initial=INFINITY))
        if self._sparse:  # a window that is complete now may have been over for long
            back = bool((delta.weight < 0).any())
            newest = before.payload.column(ARRIVED_AT).to_numpy().max(initial=MIN_TIME)
            reach = MIN_TIME if back else min(reach, int(newest))
        if now != first and isinstance(self._kind, SlidingTime):
            before, after, reach = Delta.concat([rest, before], rest.schema), self._held, MIN_TIME
        if self._due.out <= reach:
            return Delta.empty(self.schema)
        base = (
            self._base.filter(pa.array(keyed_in(self._base, delta.payload, self._node.partition)))
            if self._base.num_rows and not self._sparse
            else self._base
        )
        out = self._out()

        def revised(frames: Frames) -> Bools:
            return out.has(frames) & (frames.end > reach)

        new = self._evaluate(after, base, revised, now, reached)
        old = self._evaluate(before, base, revised, first, self._reached)
        return Delta.concat([new, old.negate()], self.schema)

    def _first(self, rows: Delta) -> int:
        """Where windows that begin with the first row begin."""
        if self._anchor != _UNKNOWN or not len(rows):
            return self._anchor
        return int(rows.start.min())

    def needs(self, time: int) -> tuple[int, ...]:
        return (
            time
            if time <= MIN_TIME or time == INFINITY
            else self._framing.needs(time, self._first(self._held)),
        )

    def lacks(self) -> tuple[str, ...]:
        """How many rows the next window of the fullest partition still misses."""
        if not isinstance(self._kind, SlidingRows) or not len(self._held):
            return ()
        ordered, _ = self._ordered(units(self._held))
        step = self._kind.slide
        last = np.zeros(int(ordered.partition.max()) + 1, np.int64)
        np.maximum.at(last, ordered.partition, ordered.number)
        missing = int((step - last % step).min())
        if not (last % step).any():
            return ()
        each = " of a partition" if self._node.partition else ""
        rows = "1 row is" if missing == 1 else f"{missing} rows are"
        return (f"its next window{each} is not complete: {rows} missing",)

    def _forget(self) -> int:
        if self._due.cti == INFINITY:
            self._held, self._base = Delta.empty(self._held.schema), empty_rows(self._part_schema)
            return INFINITY
        if self._due.cti == MIN_TIME:
            return MIN_TIME
        ordered, rows = self._ordered(units(self._held))
        anchor = self._first(rows)
        settled = self._framing.settle(ordered, self._due.cti, anchor, self._reached)
        if self._sparse:
            settled = self._keep_unanswered(settled, ordered, anchor)
        if anchor < self._due.cti:
            self._anchor = anchor
        if settled.keep.all():
            return settled.promise
        gone = rows.filter(~settled.keep)
        if self._ranked:
            self._count(gone)
        if isinstance(self._kind, SlidingRows) and self._kind.range is None:
            assert self._sums is not None
            self._base = self._merged(
                concat_rows([self._base, self._parts(gone)], self._part_schema)
            )
        self._held = rows.filter(settled.keep)
        return settled.promise

    def _keep_unanswered(self, settled: Settled, rows: Ordered, anchor: int) -> Settled:
        """Rows of windows whose answer is not out yet, although nothing can change it."""
        frames = self._framing.frames(rows, anchor, self._reached)
        waiting = frames.filter(~self._out().has(frames))
        if not len(waiting):
            return settled
        first = int(waiting.lo.min())
        if isinstance(self._kind, SlidingRows) and self._kind.range is None:
            first = int(waiting.hi.min()) - self._kind.slide  # earlier rows are in the base
        keep = settled.keep | (rows.number >= first)
        return Settled(keep, min(settled.promise, int(waiting.start.min())))

    def _count(self, gone: Delta) -> None:
        names = self._node.partition
        columns = [gone.payload.column(name) for name in names]
        more = pa.RecordBatch.from_arrays(
            [*columns, pa.array(np.ones(len(gone), np.int64))], schema=self._gone.schema
        )
        both = concat_rows([self._gone, more], self._gone.schema)
        code, size = encode([both.column(name) for name in names], both.num_rows)
        counts = np.zeros(size, np.int64)
        np.add.at(counts, code, both.column(_COUNT.name).to_numpy())
        someone = np.empty(size, np.int64)
        someone[code] = np.arange(both.num_rows)
        kept = both.take(pa.array(someone))
        self._gone = pa.RecordBatch.from_arrays(
            [*kept.columns[:-1], pa.array(counts)], schema=self._gone.schema
        )

    def _parts(self, rows: Delta) -> Rows:
        return pa.RecordBatch.from_arrays(
            rows.payload.columns[: len(self._part_schema)], schema=self._part_schema
        )

    def _merged(self, parts: Rows) -> Rows:
        """Partial results of equal group become one."""
        assert self._sums is not None
        code, size = encode([parts.column(name) for name in self._node.columns], parts.num_rows)
        someone = np.empty(size, np.int64)
        someone[code] = np.arange(parts.num_rows)
        keys = parts.take(pa.array(someone))
        merged = self._sums.merge(parts, code, size)
        return pa.RecordBatch.from_arrays(
            [*(keys.column(name) for name in self._node.columns), *merged.columns],
            schema=self._part_schema,
        )

    # ---------------------------------------------------------------------------------------------------
    # answering

    def _ordered(self, rows: Delta) -> tuple[Ordered, Delta]:
        """Rows of weight one, sorted by partition and position."""
        partition, count = group_codes(rows.payload, self._node.partition)
        if self._numbered:
            number = rows.payload.column(ROW_NUMBER).to_numpy()
            at = rows.payload.column(ARRIVED_AT).to_numpy()
            order = np.lexsort((number, partition))
        else:
            number, at = np.zeros(len(rows), np.int64), rows.start
            ties = [
                dense_ranks(rows.payload.column(internal(f"tie{i}")))
                for i in reversed(range(len(self._ties)))
            ]
            order = np.lexsort((*ties, rows.start, partition))
        rows, partition, number, at = rows.take(order), partition[order], number[order], at[order]
        if self._ranked:
            begins = np.searchsorted(partition, partition, side="left")
            number = (
                np.arange(len(partition)) - begins + 1 + self._gone_before(rows, partition, count)
            )
        return Ordered(partition, rows.start, number, at), rows

    def _gone_before(self, rows: Delta, partition: Codes, count: int) -> Codes:
        """How many rows of each row's partition are no longer held."""
        if not self._gone.num_rows:
            return np.zeros(len(rows), np.int64)
        counts = self._gone.column(_COUNT.name).to_numpy()
        names = self._node.partition
        if not names:
            return np.full(len(rows), counts[0])
        held = [rows.payload.column(name) for name in names]
        own, theirs, size = encode_together(
            held, [self._gone.column(name) for name in names], (len(rows), self._gone.num_rows)
        )
        known = np.zeros(size, np.int64)
        known[theirs] = counts
        return known[own]

    def _evaluate(
        self,
        rows: Delta,
        base: Rows,
        wanted: Callable[[Frames], Bools],
        anchor: int,
        reached: int,
    ) -> Delta:
        """Answers of some windows."""
        if not len(rows):
            return Delta.empty(self.schema)
        ordered, rows = self._ordered(units(rows))
        frames = self._framing.frames(ordered, anchor, reached)
        frames = frames.filter(wanted(frames))
        if not len(frames):
            return Delta.empty(self.schema)
        parts, coordinate = self._parts(rows), self._framing.coordinate(ordered)
        partition = (
            np.zeros(len(rows), np.int64)
            if isinstance(self._kind, SlidingTime)
            else ordered.partition
        )
        if base.num_rows:
            own, more, _ = encode_together(
                [parts.column(n) for n in self._node.partition],
                [base.column(n) for n in self._node.partition],
                (len(rows), base.num_rows),
            )
            known = np.full(int(max(own.max(initial=0), more.max(initial=0))) + 1, -1)
            known[own] = partition
            there = known[more] >= 0
            parts = concat_rows([parts, base.filter(pa.array(there))], self._part_schema)
            partition = np.concatenate([partition, known[more][there]])
            coordinate = np.concatenate([coordinate, np.zeros(int(there.sum()), np.int64)])
        group, _ = encode([parts.column(name) for name in self._node.columns], parts.num_rows)
        found = occupied(frames, partition, group, coordinate)
        if not len(found.frame):
            return Delta.empty(self.schema)
        return self._answers(parts, rows.start, frames, found)

    def _answers(self, parts: Rows, start: Times, frames: Frames, found: Occupied) -> Delta:
        keys = (
            parts.select(list(self._node.columns)).take(pa.array(found.someone)).columns
            if self._node.columns
            else []
        )
        columns = [*keys, *([] if self._node.wid is None else [pa.array(frames.wid[found.frame])])]
        if self._sums is not None:
            columns += self._sums.results(
                self._sums.over_ranges(parts.take(pa.array(found.rows)), found.lo, found.hi)
            )
        else:
            cell, member = ranges(found.lo, found.hi - found.lo)
            columns += self._arguments.reduce(
                parts, start, found.rows[member], cell, len(found.lo), self.schema
            )
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Delta(
            payload,
            frames.start[found.frame],
            frames.end[found.frame],
            np.ones(len(found.frame), np.int64),
        )

    # -------------------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        return {
            "rows": slice_of_delta(self._held),
            "gone": self._gone,
            "base": self._base,
            "anchor": pa.RecordBatch.from_arrays(
                [pa.array([self._anchor, self._reached], pa.int64())], names=["anchor"]
            ),
            "marks": self._due.to_rows(),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._held, self._gone, self._base = (
            delta_of_slice(slices["rows"]),
            slices["gone"],
            slices["base"],
        )
        self._anchor, self._reached = slices["anchor"].column(0).to_pylist()
        self._due.restore(slices["marks"])

    def state_size(self) -> StateSize:
        tables = (self._gone, self._base)
        return StateSize(len(self._held), self._held.nbytes) + StateSize(
            sum(t.num_rows for t in tables), sum(t.nbytes for t in tables)
        )

"""Slide-by-tuple windows in one pass: partial results in start and end bins, no tuple kept (Li,
Figure 6-7, and both variations).

A tuple of time s enters the windows that end at s or later, and has left those that end at s +
range or later. So the aggregate over (b - range, b] changes, as b grows, only at start bins b = s
and end bins b = s + range. Each bin holds the partial result at its place:

    a new bin begins with the partial result of the bin in front of it;
    a tuple is put into every bin in [s, s + range).

Both are done for a whole batch at once: what a bin gets is the partial result of the batch's tuples
in (b - range, b]. Tuples in any order are the same to it. The windows that answer are those of
start bins: of every tuple; or of every n-th, by the number it arrived under, or by its rank, which
is counted when the windows before it are settled. With groups, the tuples of a partition make its
windows, and each group has bins of its own.

The input takes nothing back, and the aggregates are bounded. Nulls are a partition or group like
any other; duplicates count. A late tuple changes the bins behind it, and windows that are out
answer again. State: the bins from the CTI on, one in front of it for each group, the times of
tuples from the CTI on, and how many there were before, per partition. The promise lags behind the
CTI by the range. A partition that has ended gives its last windows and is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch, column_of
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import NO_PROGRESS, Progress, Scope
from thalweg.model.rows import Codes, Rows, concat_rows, empty_rows, encode_together
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.accumulators import Accumulators
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.bucket_aggregate import Items
from thalweg.operators.consistency import Consistency
from thalweg.operators.group_promises import newly_promised
from thalweg.operators.groups import ranges
from thalweg.operators.key_book import KeyBook
from thalweg.plan.aggregates import ROWS
from thalweg.plan.nodes import WidAggregate
from thalweg.plan.nodes.wid import ROW_NUMBER
from thalweg.progress.frontier import Frontier
from thalweg.windows import SlideByTuple

__all__ = ["BinsAggregateKernel"]

_GROUP, _AT, _PART, _BEFORE, _START, _NUMBER = (
    internal(name) for name in ("group", "at", "part", "before", "start", "number")
)


class BinsAggregateKernel(Operator):
    """
    >>> import thalweg as tw
    >>> events = tw.source("s", {"v": "int64"}, insert_only=True)
    >>> query = events.slide_by_tuple(5).aggregate(n=tw.count(), most=tw.max_("v"))
    >>> tw.table(query, {"s": [tw.point({"v": 7}, 2), tw.point({"v": 1}, 8), tw.point({"v": 3}, 4)]})
    [(-2, 3, {'n': 1, 'most': 7}), (0, 5, {'n': 2, 'most': 7}), (4, 9, {'n': 2, 'most': 3})]
    """

    def __init__(self, node: WidAggregate, consistency: Consistency) -> None:
        assert isinstance(node.kind, SlideByTuple)
        self.schema = node.schema
        self._node = node
        self._range, self._every, self._ranked = node.kind.range, node.kind.every, node.kind.ranked
        self._arguments = ArgumentProjection(node.aggregates, node.columns, node.input.schema)
        self._sums = Accumulators(self._arguments, node.schema)
        field = node.input.schema.field
        self._groups, self._parts = (
            KeyBook([field(name) for name in node.columns]),
            KeyBook([field(name) for name in node.partition]),
        )
        nothing = np.empty(0, np.int64)
        self._bins = Items(nothing, nothing, empty_rows(self._sums.schema))
        """Sorted by group and place."""
        self._part_of = nothing
        """The partition of each group."""
        self._tuples = nothing, nothing, nothing
        """Partition, time and number of the tuples that may still make a window."""
        self._before = nothing
        """How many tuples of each partition the CTI has passed."""
        self._frontier = Frontier(consistency)
        self._progress = NO_PROGRESS

    # --------------------------------------------------------------------------------------------------------
    # flow

    def process(self, port: int, batch: Batch) -> Batch:
        changes = []
        if len(batch):
            changes.append(self._apply(batch))
        due = self._frontier.after(batch)
        if due > self._frontier.out:
            changes.append(self._evaluate(self._frontier.out, due))
            self._frontier.out = due
        before, self._progress = self._progress, self._progress.advance(batch.progress)
        columns = self._progress.scope_columns
        ended: list[Scope] = []
        if set(columns) <= set(self._node.partition):
            promised = newly_promised(before, self._progress)
            ended = [scope for scope, time in promised.items() if time == INFINITY]
            changes.append(self._finish(columns, ended))
        promise = Progress(self._forget(), columns, dict.fromkeys(ended, INFINITY))
        return Delta.concat(changes, self.schema).to_batch(
            promise if ended else Progress(promise.cti)
        )

    def _finish(self, columns: tuple[str, ...], ended: list[Scope]) -> Delta:
        """The last windows of partitions that have ended, of which nothing is kept."""
        if not ended or not len(self._parts):
            return Delta.empty(self.schema)
        every = dict(
            zip(self._node.partition, self._parts.columns(np.arange(len(self._parts))), strict=True)
        )
        held = [every[name] for name in columns]
        asked = [
            column_of(values, column.type)
            for values, column in zip(zip(*ended, strict=True), held, strict=True)
        ]
        own, theirs, size = encode_together(held, asked, (len(self._parts), len(ended)))
        over = np.zeros(size, np.bool_)
        over[theirs] = True
        gone = over[own]
        mine = gone[self._tuples[0]]
        others = [column[~mine] for column in self._tuples]
        part, start, number = (column[mine] for column in self._tuples)
        self._tuples = part, start, number
        answers = self._evaluate(self._frontier.out, INFINITY)
        part, start, number = others
        self._tuples = part, start, number
        self._bins = self._bins.where(~gone[self._part_of[self._bins.group]])
        self._before[gone] = 0
        return answers

    def _apply(self, batch: Batch) -> Delta:
        rows = self._arguments.project(batch.payload, batch.start)
        group = self._groups.numbers([rows.column(name) for name in self._node.columns], len(batch))
        part = self._parts.numbers([rows.column(name) for name in self._node.partition], len(batch))
        self._grow(group, part)
        number = (
            batch.payload.column(ROW_NUMBER).to_numpy()
            if self._node.by_number
            else np.zeros(len(batch), np.int64)
        )
        earliest = int(batch.start.min())
        late = self._frontier.out > earliest
        before = self._evaluate(earliest, self._frontier.out) if late else Delta.empty(self.schema)
        parts, starts, numbers = self._tuples
        self._tuples = (
            np.concatenate([parts, part]),
            np.concatenate([starts, batch.start]),
            np.concatenate([numbers, number]),
        )
        self._add(group, batch.start, self._sums.of_rows(rows, batch.start))
        return (
            Delta.concat(
                [self._evaluate(earliest, self._frontier.out), before.negate()], self.schema
            )
            if late
            else before
        )

    def _grow(self, group: Codes, part: Codes) -> None:
        more = len(self._groups) - len(self._part_of)
        if more > 0:
            self._part_of = np.concatenate([self._part_of, np.zeros(more, np.int64)])
        self._part_of[group] = part
        fresh = len(self._parts) - len(self._before)
        if fresh > 0:
            self._before = np.concatenate([self._before, np.zeros(fresh, np.int64)])

    def _add(self, group: Codes, start: Times, parts: Rows) -> None:
        """New bins, and what the tuples bring to all bins from the first of them on."""
        order = np.lexsort((start, group))
        group, start, parts = group[order], start[order], parts.take(pa.array(order))
        first = int(start[0] if len(start) == 1 else start.min())
        reached = self._bins.at >= first
        old = self._bins
        many, place = self._scale(
            np.concatenate(
                [start, old.at, old.at + 1, start + self._range, start + self._range + 1]
            )
        )
        new_group = np.concatenate([group, group, old.group[reached]])
        new_at = np.concatenate([start, start + self._range, old.at[reached]])
        _, someone = np.unique(new_group * many + place(new_at), return_index=True)
        new_group, new_at = new_group[someone], new_at[someone]
        came = group * many + place(start)
        # Tuples of the batch in (b - range, b]: those up to b less those up to b - range, which is
        # where a start's end bin lies.
        lo = np.searchsorted(
            came,
            new_group * many + np.searchsorted(self._ticks, new_at - self._range + 1),
            side="left",
        )
        hi = np.searchsorted(came, new_group * many + place(new_at), side="right")
        brought = self._sums.over_ranges(parts, lo, hi)
        in_front = (
            np.searchsorted(
                old.group * many + place(old.at), new_group * many + place(new_at), side="right"
            )
            - 1
        )
        known = in_front >= 0
        known[known] = old.group[in_front[known]] == new_group[known]
        base = old.parts.take(pa.array(in_front[known]))
        code = np.concatenate([np.arange(len(new_at)), np.flatnonzero(known)])
        merged = self._sums.merge(
            concat_rows([brought, base], self._sums.schema), code, len(new_at)
        )
        kept = old.where(~reached)
        joined = Items(
            np.concatenate([kept.group, new_group]),
            np.concatenate([kept.at, new_at]),
            concat_rows([kept.parts, merged], self._sums.schema),
        )
        self._bins = _taken(joined, np.lexsort((joined.at, joined.group)))

    def _scale(self, times: Times) -> tuple[int, _Place]:
        """Times as small numbers, so that a group and a time are one number."""
        self._ticks = np.unique(times)
        return len(self._ticks) + 1, _Place(self._ticks)

    # ---------------------------------------------------------------------------------------------------
    # answering

    def _windows(self, low: int, high: int) -> tuple[Codes, Times]:
        """Partition and place of the windows that end after `low` and not after `high`, sorted."""
        part, start, number = self._tuples
        if self._ranked and self._every > 1:
            order = np.lexsort((start, part))
            part, start = part[order], start[order]
            number = (
                np.arange(len(part))
                - np.searchsorted(part, part, side="left")
                + 1
                + self._before[part]
            )
        chosen = (start + 1 > low) & (start + 1 <= high)
        if self._every > 1:
            chosen &= number % self._every == 0
        part, start = part[chosen], start[chosen]
        order = np.lexsort((start, part))
        part, start = part[order], start[order]
        new = np.ones(len(part), np.bool_)
        new[1:] = (part[1:] != part[:-1]) | (start[1:] != start[:-1])
        return part[new], start[new]

    def _evaluate(self, low: int, high: int) -> Delta:
        part, window = self._windows(low, high)
        bins = self._bins
        if not len(part) or not len(bins):
            return Delta.empty(self.schema)
        many, place = self._scale(np.concatenate([window, bins.at]))
        until = np.full(len(bins), many - 1)
        until[:-1] = np.where(bins.group[1:] == bins.group[:-1], place(bins.at[1:]), many - 1)
        key = part * many + place(window)
        mine = self._part_of[bins.group] * many
        first = np.searchsorted(key, mine + place(bins.at), side="left")
        beyond = np.searchsorted(key, mine + until, side="left")
        some = bins.parts.column(ROWS.name).to_numpy() > 0
        which, at = ranges(first, np.where(some, np.maximum(beyond - first, 0), 0))
        if not len(which):
            return Delta.empty(self.schema)
        columns = self._groups.columns(bins.group[which]) if self._node.columns else []
        columns = [*columns, *([] if self._node.wid is None else [pa.array(window[at])])]
        columns += self._sums.results(bins.parts.take(pa.array(which)))
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Delta(
            payload, window[at] - self._range + 1, window[at] + 1, np.ones(len(at), np.int64)
        )

    # -------------------------------------------------------------------------------------------------------
    # state

    def needs(self, time: int) -> tuple[int, ...]:
        return (time if time <= MIN_TIME or time == INFINITY else time + self._range - 1,)

    def _forget(self) -> int:
        if self._frontier.cti == MIN_TIME:
            return MIN_TIME
        bins = self._bins
        part, start, number = self._tuples
        over = start < self._frontier.cti
        if over.any():
            self._before += np.bincount(part[over], minlength=len(self._before))
            self._tuples = part[~over], start[~over], number[~over]
        behind = np.zeros(len(bins), np.bool_)
        behind[:-1] = (bins.group[1:] == bins.group[:-1]) & (
            bins.at[1:] < self._frontier.cti
        )  # another stands between it and the CTI
        alone = np.ones(len(bins), np.bool_)
        alone[:-1] = bins.group[1:] != bins.group[:-1]
        behind |= (
            alone & (bins.at < self._frontier.cti) & (bins.parts.column(ROWS.name).to_numpy() == 0)
        )
        if behind.any():
            self._bins = bins.where(~behind)
        if self._frontier.cti == INFINITY:
            self._bins = bins.where(np.zeros(len(bins), np.bool_))
            return INFINITY
        if self._groups.is_untidy or self._parts.is_untidy:
            self._tidy()
        return max(self._frontier.cti - self._range + 1, MIN_TIME)

    def _tidy(self) -> None:
        """Numbers for the groups that have bins only, and the partitions that have or had tuples."""
        used = np.unique(self._bins.group)
        moved = self._groups.keep(used)
        self._part_of = self._part_of[used]
        self._bins = Items(
            moved[self._bins.group], self._bins.at, self._bins.parts
        )  # new numbers are in the order of the old ones
        if self._node.partition:
            part, start, number = self._tuples
            used = np.unique(np.concatenate([self._part_of, part, np.flatnonzero(self._before)]))
            moved = self._parts.keep(used)
            self._part_of, self._before = moved[self._part_of], self._before[used]
            self._tuples = moved[part], start, number

    def snapshot(self) -> Slices:
        bins, (part, start, number) = self._bins, self._tuples
        everyone = np.arange(len(self._part_of))
        return {
            "bins": _rows(
                [*bins.parts.schema.names, _GROUP, _AT],
                [*bins.parts.columns, pa.array(bins.group), pa.array(bins.at)],
            ),
            "groups": _rows(
                [*self._node.columns, _PART],
                [*self._groups.columns(everyone), pa.array(self._part_of)],
            ),
            "partitions": _rows(
                [*self._node.partition, _BEFORE],
                [*self._parts.columns(np.arange(len(self._before))), pa.array(self._before)],
            ),
            "tuples": _rows(
                [_PART, _START, _NUMBER], [pa.array(part), pa.array(start), pa.array(number)]
            ),
            "marks": self._frontier.to_rows(),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        group, part = (
            _renumber(self._groups, slices["groups"]),
            _renumber(self._parts, slices["partitions"]),
        )
        self._part_of, self._before = np.zeros(len(group), np.int64), np.zeros(len(part), np.int64)
        self._part_of[group] = part[slices["groups"].column(_PART).to_numpy()]
        self._before[part] = slices["partitions"].column(_BEFORE).to_numpy()
        bins = slices["bins"]
        parts = pa.RecordBatch.from_arrays(
            [bins.column(name) for name in self._sums.schema.names], schema=self._sums.schema
        )
        items = Items(group[bins.column(_GROUP).to_numpy()], bins.column(_AT).to_numpy(), parts)
        self._bins = _taken(items, np.lexsort((items.at, items.group)))
        tuples = slices["tuples"]
        self._tuples = (
            part[tuples.column(_PART).to_numpy()],
            tuples.column(_START).to_numpy(),
            tuples.column(_NUMBER).to_numpy(),
        )
        self._frontier.restore(slices["marks"])

    def state_size(self) -> StateSize:
        tuples = sum(column.nbytes for column in self._tuples) + self._before.nbytes
        return StateSize(
            len(self._bins) + len(self._tuples[0]),
            self._bins.nbytes + tuples + self._groups.nbytes + self._parts.nbytes,
        )


class _Place:
    def __init__(self, ticks: Times) -> None:
        self._ticks = ticks

    def __call__(self, times: Times) -> Codes:
        return np.searchsorted(self._ticks, times)


def _taken(items: Items, which: Codes) -> Items:
    return Items(items.group[which], items.at[which], items.parts.take(pa.array(which)))


def _rows(names: list[str], columns: list[pa.Array]) -> Rows:
    return pa.RecordBatch.from_arrays(columns, names=names)


def _renumber(book: KeyBook, rows: Rows) -> Codes:
    """The numbers that groups get now, which were written down in the order of their numbers."""
    book.clear()
    if rows.num_columns > 1:
        return book.numbers(rows.columns[:-1], rows.num_rows)
    book.numbers([], rows.num_rows)
    return np.arange(rows.num_rows)

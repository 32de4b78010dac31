"""Slide-by-tuple windows in one pass: partial results in start and end bins, no tuple kept (Li,
Figure 6-7, and both variations).

A tuple of time s enters the windows that end at s or later, and has left those that end at s +
range or later. So the aggregate over (b - range, b] changes, as b grows, only at start bins b = s
and end bins b = s + range. Each bin holds the partial result at its place:

    a new bin begins with the partial result of the bin in front of it;
    a tuple is put into every bin in [s, s + range).

Both are done for a whole batch at once: a bin at b gets the partial result of the batch's tuples in
(b - range, b], whatever their order. The windows that answer are those of start bins: of every
tuple, or of every n-th tuple by its number of arrival or by its rank, which is counted when the
windows before it are settled. With groups, the tuples of a partition make its windows, and each
group has bins of its own.

A bin that lies a range or more before a place does not affect it: every tuple that it counts has an
end bin between. So a batch, and a window that answers, reads only the bins within a range.

The input never retracts rows, and the aggregates are bounded. Nulls are a partition or group like
any other; duplicates count. A late tuple changes the bins after it, and revises the windows that
have answered. State, in slices of time: the bins from the CTI on, the last bin before it for each
group, and the times of tuples from the CTI on; where windows are counted, the number of earlier
tuples by partition. A CTI for a partition frees the state before it, and all of it at the end of
the partition. The promise lags behind the CTI by the range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, empty_rows
from thalweg.model.sorting import run_begins, sort_pairs
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import ranges
from thalweg.operators.window.accumulators import Accumulators
from thalweg.operators.window.items import Items
from thalweg.operators.window.partitions import GroupPromises, Partitions
from thalweg.plan.aggregates import ROWS
from thalweg.plan.nodes import WidAggregate
from thalweg.plan.nodes.wid import ROW_NUMBER
from thalweg.progress.frontier import Frontier, Line
from thalweg.state import KeyIndex
from thalweg.state.pages import Pages, read_whole
from thalweg.state.placed import PlacedSlices
from thalweg.windows import SlideByTuple

__all__ = ["BinsAggregateKernel"]

_AT, _BEFORE, _NUMBER, _AHEAD = (internal(name) for name in ("at", "before", "number", "ahead"))
_EVER = Line(MIN_TIME)


@dataclass(frozen=True, slots=True)
class _Tuples:
    """Partition, time and number of the tuples that may still make a window."""

    group: Codes
    place: Times
    number: Codes

    def __len__(self) -> int:
        return len(self.group)

    @property
    def nbytes(self) -> int:
        return self.group.nbytes + self.place.nbytes + self.number.nbytes

    def take(self, which: Codes | slice) -> _Tuples:
        return _Tuples(self.group[which], self.place[which], self.number[which])

    def renumbered(self, moved: Codes) -> _Tuples:
        return _Tuples(moved[self.group], self.place, self.number)

    @classmethod
    def concat(cls, parts: Sequence[_Tuples]) -> _Tuples:
        if not parts:
            return cls(*(np.empty(0, np.int64) for _ in range(3)))
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.group for part in parts]),
            np.concatenate([part.place for part in parts]),
            np.concatenate([part.number for part in parts]),
        )


class BinsAggregateKernel(Operator):
    """
    >>> import thalweg as tw
    >>> events = tw.source("s", {"v": "int64"}, insert_only=True)
    >>> query = events.slide_by_tuple(5).aggregate(n=tw.count(), most=tw.max_("v"))
    >>> rows = [tw.point({"v": v}, t) for v, t in ((7, 2), (1, 8), (3, 4))]
    >>> tw.table(query, {"s": rows})
    [(-2, 3, {'n': 1, 'most': 7}), (0, 5, {'n': 2, 'most': 7}), (4, 9, {'n': 2, 'most': 3})]
    """

    def __init__(self, node: WidAggregate, consistency: Consistency) -> None:
        assert isinstance(node.kind, SlideByTuple)
        self.schema = node.schema
        self._node = node
        self._range, self._every, self._ranked = node.kind.range, node.kind.every, node.kind.ranked
        self._counted = self._ranked and self._every > 1
        """Whether windows are every n-th tuple of a partition by rank."""
        self._arguments = ArgumentProjection(node.aggregates, node.columns, node.input.schema)
        self._sums = Accumulators(self._arguments, node.schema)
        field = node.input.schema.field
        self._groups = KeyIndex([field(name) for name in node.columns])
        self._parts = Partitions(node.input.schema, node.partition)
        self._none = Items(_NONE, _NONE, empty_rows(self._sums.schema))
        self._bins = PlacedSlices(partial(Items.concat, none=self._none))
        self._tuples = PlacedSlices(_Tuples.concat)
        self._part_of = _NONE
        """The partition of each group."""
        self._before = _NONE
        """How many tuples of each partition the CTI has passed, where windows are counted."""
        self._pages = Pages()
        self._swept = MIN_TIME
        self._needed_from = MIN_TIME
        """Windows of tuples before this are not needed by any reader."""
        self._frontier = Frontier(consistency)

    # --------------------------------------------------------------------------------------------
    # flow

    def process(self, port: int, batch: Batch) -> Batch:
        frontier = self._frontier
        changes, before = [], frontier.line()
        if len(batch):
            changes.append(self._revise(batch, before))
        frontier.out = frontier.after(batch)
        promised = self._parts.promised(batch.progress)
        frontier.promise(promised.partition, promised.time)
        after = frontier.line()
        if after != before:
            changes.append(self._evaluate(MIN_TIME, before, after))
        return Delta.concat(changes, self.schema).to_batch(self._close(promised))

    def _revise(self, batch: Batch, out: Line) -> Delta:
        """Hold the tuples of a batch, and revise the windows that have answered."""
        rows = self._arguments.project(batch.payload, batch.start)
        group = self._groups.numbers([rows.column(name) for name in self._node.columns], len(batch))
        part = self._parts.of_rows(rows)
        self._grow()
        number = (
            batch.payload.column(ROW_NUMBER).to_numpy()
            if self._node.kind.by_number
            else np.zeros(len(batch), np.int64)
        )
        earliest = int(batch.start.min())
        late = bool((batch.start < out.of(part)).any())
        # Ranks of tuples change behind a late one, whatever its distance.
        beyond = INFINITY if self._counted else int(batch.start.max()) + self._range
        before = self._evaluate(earliest, _EVER, out, beyond) if late else Delta.empty(self.schema)
        tuples = _Tuples(part, batch.start, number)
        if earliest < self._needed_from:
            tuples = tuples.take(np.flatnonzero(batch.start >= self._needed_from))
        self._tuples.add(tuples)
        self._add(group, batch.start, self._sums.of_rows(rows, batch.start))
        if not late:
            return before
        after = self._evaluate(earliest, _EVER, out, beyond)
        return Delta.concat([after, before.negate()], self.schema)

    def _grow(self) -> None:
        """Find the partitions of new groups, and make room for new partitions."""
        old = len(self._part_of)
        if len(self._groups) > old:
            new = self._groups.columns(np.arange(old, len(self._groups)))
            keys = dict(zip(self._node.columns, new, strict=True))
            part = self._parts.index.numbers(
                [keys[name] for name in self._parts.columns], len(self._groups) - old
            )
            self._part_of = np.concatenate([self._part_of, part])
        more = len(self._parts.index) - len(self._before)
        if more > 0:
            self._before = np.concatenate([self._before, np.zeros(more, np.int64)])

    def _add(self, group: Codes, start: Times, parts: Rows) -> None:
        """Add the bins of new tuples, and add the tuples to all bins within a range of them."""
        order = sort_pairs(group, start)
        group, start, parts = group[order], start[order], parts.take(pa.array(order))
        first, last = int(start.min()), int(start.max())
        old = self._near(first - self._range, last + self._range + 1, group)
        reached = old.at >= first
        ends = start + self._range
        many, place = self._scale(np.concatenate([start, old.at, old.at + 1, ends, ends + 1]))
        new_group = np.concatenate([group, group, old.group[reached]])
        new_at = np.concatenate([start, ends, old.at[reached]])
        _, representative = np.unique(new_group * many + place(new_at), return_index=True)
        new_group, new_at = new_group[representative], new_at[representative]
        arrived = group * many + place(start)
        # Tuples of the batch in (b - range, b]: those up to b less those up to b - range, which is
        # where a start's end bin lies.
        begin = np.searchsorted(self._ticks, new_at - self._range + 1)
        lo = np.searchsorted(arrived, new_group * many + begin, side="left")
        hi = np.searchsorted(arrived, new_group * many + place(new_at), side="right")
        brought = self._sums.over_ranges(parts, lo, hi)
        old_key = old.group * many + place(old.at)
        in_front = np.searchsorted(old_key, new_group * many + place(new_at), side="right") - 1
        has_base = in_front >= 0
        has_base[has_base] = old.group[in_front[has_base]] == new_group[has_base]
        base = old.parts.take(pa.array(in_front[has_base]))
        code = np.concatenate([np.arange(len(new_at)), np.flatnonzero(has_base)])
        merged = self._sums.merge(
            concat_rows([brought, base], self._sums.schema), code, len(new_at)
        )
        if reached.any():
            touched = np.zeros(len(self._groups), np.bool_)
            touched[group] = True

            def replaced(bins: Items) -> Bools:
                drops: Bools = (
                    touched[bins.group] & (bins.at >= first) & (bins.at <= last + self._range)
                )
                return drops

            self._bins.drop(replaced, first, last + self._range + 1)
        self._bins.add(Items(new_group, new_at, merged))

    def _near(self, low: int, beyond: int, group: Codes | None = None) -> Items:
        """The bins with low <= place < beyond, of all groups or of some, sorted by group and
        place."""
        found = self._bins.between(low, beyond)
        if group is not None and len(self._groups) > 1:
            touched = np.zeros(len(self._groups), np.bool_)
            touched[group] = True
            found = [bins.where(touched[bins.group]) for bins in found]
        bins = Items.concat(found, self._none)
        return bins.take(sort_pairs(bins.group, bins.at))

    def _scale(self, times: Times) -> tuple[int, _Place]:
        """Rank times densely, so that a group and a time are one number."""
        self._ticks = np.unique(times)
        return len(self._ticks) + 1, _Place(self._ticks)

    # --------------------------------------------------------------------------------------------
    # answering

    def _windows(self, low: int, since: Line, until: Line, beyond: int) -> tuple[Codes, Times]:
        """Partition and place of the windows of tuples from `low` up to `beyond` that end after one
        line and not after another, sorted."""
        latest = max(until.common, *until.ahead.values()) if until.ahead else until.common
        latest = min(latest, beyond)
        found = self._tuples.all()
        if not self._counted:
            begin = max(low, min(since.common, INFINITY))
            found = self._tuples.between(begin, min(latest, INFINITY))
        tuples = _Tuples.concat(found)
        part, start, number = tuples.group, tuples.place, tuples.number
        if self._counted:
            order = sort_pairs(part, start)
            part, start = part[order], start[order]
            rank = np.arange(len(part)) - np.searchsorted(part, part, side="left") + 1
            number = rank + self._before[part]
        chosen = (start >= low) & (start < beyond)
        chosen &= (start + 1 > since.of(part)) & (start + 1 <= until.of(part))
        if self._every > 1:
            chosen &= number % self._every == 0
        part, start = part[chosen], start[chosen]
        order = sort_pairs(part, start)
        part, start = part[order], start[order]
        first = run_begins(part, start)
        return part[first], start[first]

    def _evaluate(self, low: int, since: Line, until: Line, beyond: int = INFINITY) -> Delta:
        part, window = self._windows(low, since, until, beyond)
        if not len(part):
            return Delta.empty(self.schema)
        bins = self._near(int(window.min()) - self._range, int(window.max()) + 1)
        many, place = self._scale(np.concatenate([window, bins.at]))
        until_bin = np.full(len(bins), many - 1)
        until_bin[:-1] = np.where(bins.group[1:] == bins.group[:-1], place(bins.at[1:]), many - 1)
        key = part * many + place(window)
        own = self._part_of[bins.group] * many
        first = np.searchsorted(key, own + place(bins.at), side="left")
        beyond = np.searchsorted(key, own + until_bin, side="left")
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

    # --------------------------------------------------------------------------------------------
    # promises

    def needs(self, time: int) -> tuple[int, ...]:
        return (time if time <= MIN_TIME or time == INFINITY else time + self._range - 1,)

    def _promise(self, time: int) -> int:
        if time in (MIN_TIME, INFINITY):
            return time
        return max(time - self._range + 1, MIN_TIME)

    def _close(self, promised: GroupPromises) -> Progress:
        cti = self._frontier.cti
        if cti == INFINITY:
            self._clear()
            return Progress(INFINITY)
        if cti > self._swept:
            self._drop_before(cti)
            self._swept = cti
        if promised.scopes:
            self._close_groups(promised)
        if self._groups.is_untidy or self._parts.index.is_untidy:
            self._reuse_numbers()
        promise = self._promise(cti)
        scoped = zip(promised.scopes, map(self._promise, promised.times.tolist()), strict=True)
        later = {scope: time for scope, time in scoped if time > promise}
        return Progress(promise, promised.columns, later) if later else Progress(promise)

    # --------------------------------------------------------------------------------------------
    # state

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        """Drop tuples and bins before a time: the window of a tuple ends right after the tuple."""
        if unwanted[0] > MIN_TIME and time - 1 > max(self._needed_from, self._swept):
            self._needed_from = min(time - 1, MAX_TIME)
            self._drop_before(self._needed_from)

    def _drop_before(self, cti: int) -> None:
        """Forget tuples and bins before a time, except the last bin of each group."""
        for tuples in self._tuples.take_until(cti - 1):
            self._count(tuples)
        self._keep_last(self._bins.take_until(cti - 1))

    def _close_groups(self, promised: GroupPromises) -> None:
        """As `_drop_before`, for partitions that have promises of their own."""
        self._grow()
        until = np.full(len(self._parts.index), MIN_TIME)
        np.maximum.at(until, promised.partition, promised.time)
        passed: list[Items] = []

        def tuples_over(tuples: _Tuples) -> Bools:
            over: Bools = tuples.place < until[tuples.group]
            self._count(tuples.take(np.flatnonzero(over)))
            return over

        def bins_over(bins: Items) -> Bools:
            time = until[self._part_of[bins.group]]
            over: Bools = bins.at < time
            passed.append(bins.where(over & (time != INFINITY)))
            return over

        self._tuples.drop(tuples_over)
        self._bins.drop(bins_over)
        self._keep_last(passed)
        ended = promised.partition[promised.time == INFINITY]
        self._before[ended] = 0
        self._pages.touch(ended)
        self._frontier.withdraw(ended)

    def _count(self, tuples: _Tuples) -> None:
        if self._counted and len(tuples):
            self._before += np.bincount(tuples.group, minlength=len(self._before))
            self._pages.touch(tuples.group)

    def _keep_last(self, passed: Sequence[Items]) -> None:
        """Of dropped bins, put back the last one of each group that has rows."""
        bins = Items.concat(passed, self._none)
        if not len(bins):
            return
        order = sort_pairs(bins.group, bins.at)
        last = np.ones(len(order), np.bool_)
        last[:-1] = bins.group[order][1:] != bins.group[order][:-1]
        bins = bins.take(order[last])
        self._bins.add(bins.where(bins.parts.column(ROWS.name).to_numpy() > 0))

    def _reuse_numbers(self) -> None:
        """Reuse the numbers of groups and partitions of which nothing is held."""
        used = self._bins.groups()
        self._bins.renumber(self._groups.keep(used))
        self._part_of = self._part_of[used]
        held = [self._part_of, self._tuples.groups(), self._frontier.line().columns()[0]]
        used = np.unique(np.concatenate([*held, np.flatnonzero(self._before)]))
        moved = self._parts.index.keep(used)
        self._part_of, self._before = moved[self._part_of], self._before[used]
        self._tuples.renumber(moved)
        self._frontier.renumber(moved)
        self._pages.touch_all()

    def _clear(self) -> None:
        self._bins.clear()
        self._tuples.clear()
        self._groups.clear()
        self._parts.clear()
        self._part_of = self._before = _NONE
        self._pages.touch_all()
        self._frontier.promised = {}

    def snapshot(self) -> Slices:
        partition, time = self._frontier.line().columns()
        return {
            **self._bins.snapshot("bins", self._write_bins),
            **self._tuples.snapshot("tuples", self._write_tuples),
            **self._pages.snapshot(self._before > 0, self._write_counts),
            "ahead": _rows([*self._parts.columns, _AHEAD], [*self._parts.named(partition), time]),
            "marks": self._frontier.to_rows(),
        }

    def _write_bins(self, bins: Items) -> Rows:
        keys = self._groups.columns(bins.group)
        names = [*self._node.columns, _AT, *bins.parts.schema.names]
        return _rows(names, [*keys, bins.at, *bins.parts.columns])

    def _write_tuples(self, tuples: _Tuples) -> Rows:
        columns: list[pa.Array | Times] = [*self._parts.named(tuples.group)]
        columns += [tuples.place, tuples.number]
        return _rows([*self._parts.columns, _AT, _NUMBER], columns)

    def _write_counts(self, partition: Codes) -> Slices:
        columns: list[pa.Array | Times] = [*self._parts.named(partition)]
        columns.append(self._before[partition])
        return {"before": _rows([*self._parts.columns, _BEFORE], columns)}

    def _read_bins(self, rows: Rows) -> Items:
        width = len(self._node.columns)
        parts = pa.RecordBatch.from_arrays(rows.columns[width + 1 :], schema=self._sums.schema)
        group = self._groups.numbers(rows.columns[:width], rows.num_rows)
        return Items(group, rows.column(width).to_numpy(), parts)

    def _read_tuples(self, rows: Rows) -> _Tuples:
        *_, place, number = rows.columns
        return _Tuples(self._parts.of_rows(rows), place.to_numpy(), number.to_numpy())

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._clear()
        self._bins.restore("bins", slices, self._read_bins)
        self._tuples.restore("tuples", slices, self._read_tuples)
        self._frontier.restore(slices["marks"])
        self._swept = self._frontier.cti
        ahead, counts = slices["ahead"], read_whole("before", slices)
        self._frontier.promise(self._parts.of_rows(ahead), ahead.column(_AHEAD).to_numpy())
        counted = _NONE if counts is None else self._parts.of_rows(counts)
        self._grow()
        if counts is not None:
            self._before[counted] = counts.column(_BEFORE).to_numpy()

    def state_size(self) -> StateSize:
        own = StateSize(0, self._before.nbytes + self._groups.nbytes + self._parts.index.nbytes)
        return own + self._bins.size() + self._tuples.size()


_NONE = np.empty(0, np.int64)


class _Place:
    def __init__(self, ticks: Times) -> None:
        self._ticks = ticks

    def __call__(self, times: Times) -> Codes:
        return np.searchsorted(self._ticks, times)


def _rows(names: list[str], columns: Sequence[pa.Array | Times]) -> Rows:
    return pa.RecordBatch.from_arrays([*map(pa.array, columns)], names=names)

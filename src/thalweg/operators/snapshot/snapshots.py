"""Snapshot operators: aggregate, top-k and distinct over the maximal intervals in which nothing
changes.

Meaning. For each group let T be the set of all endpoints of its rows. For consecutive a < b in T
with at least one row alive on [a, b), the rows alive there are one window. Equal neighbours are not
merged; where nothing is alive there is no row. Null keys are a group of their own; duplicates count
as often as they are there.

State. Rows that end at or after the CTI, in an arrangement by group. Each has a mark: its start or, if
later, the last endpoint of rows of its group that were dropped. That is enough, because a legal
change touches nothing before the CTI, and the window across it starts at that boundary. A promise
for groups that the keys name drops the rows of these groups alike.

A batch re-evaluates only the groups it touches, and of those only the time from the earliest change
on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.boxes import rename_boxes
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Codes, Rows, concat_rows, distinct_codes, take_rows
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest, least
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.consistency import Consistency, Gate
from thalweg.operators.group_promises import newly_promised_groups, promises_of_rows
from thalweg.operators.groups import ranges, refuse_negative
from thalweg.state import Arrangement, KeyIndex
from thalweg.state.runs import Columns

__all__ = ["SnapshotKernel", "Snapshots", "snapshots_of"]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The windows of some rows: window i of a group is [start[i], end[i])."""

    start: Times
    end: Times
    group: Codes
    alive: Codes
    """How many rows are alive in each window."""
    first: Codes
    length: Codes
    """Row j is alive in the windows first[j] .. first[j] + length[j] - 1."""

    def members(self) -> tuple[Codes, Codes]:
        """Every pair (row, window) of a row and a window it is alive in."""
        return ranges(self.first, self.length)


def snapshots_of(group: Codes, since: Times, end: Times) -> Snapshots:
    """Cut the time of each group at every endpoint of its rows."""
    size = len(group)
    times, groups = np.concatenate([since, end]), np.concatenate([group, group])
    order = sort_pairs(groups, times)
    sorted_times, sorted_groups = times[order], groups[order]
    new = np.ones(2 * size, np.bool_)
    new[1:] = (sorted_times[1:] != sorted_times[:-1]) | (sorted_groups[1:] != sorted_groups[:-1])
    index = np.empty(2 * size, np.int64)
    index[order] = new.cumsum() - 1
    first, last = index[:size], index[size:]
    starts, owners = sorted_times[new], sorted_groups[new]
    ends = np.full(len(starts), INFINITY)
    ends[:-1] = np.where(owners[1:] == owners[:-1], starts[1:], INFINITY)
    change = np.bincount(first, minlength=len(starts)) - np.bincount(last, minlength=len(starts))
    return Snapshots(starts, ends, owners, change.cumsum().astype(np.int64), first, last - first)


class SnapshotKernel(Operator):
    """The shared part. A subclass says which rows to keep and what a window's rows give."""

    def __init__(
        self, schema: pa.Schema, held: pa.Schema, keys: tuple[str, ...], gate: Gate
    ) -> None:
        self.schema = schema
        self._keys = keys
        self._gate = gate
        self._fields = [held.field(name) for name in keys]
        self._index = KeyIndex(self._fields)
        what = type(self).__name__.removesuffix("Kernel")
        self._held = Arrangement(held, self._groups, marks=1, what=what)
        self._progress = NO_PROGRESS
        self._watermark = MIN_TIME

    @abstractmethod
    def project(self, batch: Batch) -> Delta:
        """The changes a batch makes to the rows that are kept."""

    @abstractmethod
    def answer(self, rows: Delta, snapshots: Snapshots, alive: Codes) -> tuple[Rows, Codes]:
        """What the windows (positions `alive`) give, and the window of each answer; `rows` have
        weight one."""

    def process(self, port: int, batch: Batch) -> Batch:
        changes = Delta.empty(self.schema)
        if len(batch):
            self._watermark = max(self._watermark, greatest(batch.start))
            changes = self._apply(self.project(batch))
        before, progress = self._progress, self._progress.advance(self._scoped(batch.progress))
        self._watermark = max(self._watermark, progress.cti)
        self._progress = progress
        self._forget(before)
        leaving, promise = self._gate.release(changes, self._watermark, progress)
        return leaving.to_batch(promise)

    def needs(self, time: int) -> tuple[int, ...]:
        return (self._gate.needs(time),)

    def _scoped(self, progress: Progress) -> Progress:
        """What a promise says about groups: its scopes and boxes, where they are made of the
        keys."""
        if not (progress.scoped or progress.boxes or progress.ranges):
            return progress
        boxes = rename_boxes(progress.boxes, {key: key for key in self._keys})
        if set(progress.scope_columns) <= set(self._keys):
            return progress if boxes == progress.boxes else replace(progress, boxes=boxes)
        return Progress(progress.cti, boxes=boxes)

    def _groups(self, rows: Rows) -> Codes:
        return self._index.numbers([rows.column(name) for name in self._keys], rows.num_rows)

    def _apply(self, delta: Delta) -> Delta:
        number = self._groups(delta.payload)
        touched, group = distinct_codes(number)
        # A row that started before the CTI can only have changed its end; any other may be new or
        # gone as a whole.
        earliest = np.full(len(touched), INFINITY)
        promised = promises_of_rows(self._progress, delta.payload, self._progress.scope_columns)
        changed = np.where(delta.start >= promised, delta.start, delta.end)
        np.minimum.at(earliest, group, changed)
        found = self._held.find(touched, earliest - 1, np.full(len(touched), INFINITY))
        held, owner, mark = found.delta(), found.owner, found.mark(0)
        base = np.full(len(touched), MIN_TIME)
        cut = mark > held.start
        np.maximum.at(base, owner[cut], mark[cut])
        boundary = np.maximum(base, self._held.last_end_before(touched, earliest))
        settled = mark < earliest[owner]
        np.maximum.at(boundary, owner[settled], mark[settled])
        since = np.maximum(delta.start, base[group])
        rows = Delta.concat([held, delta], self._held.schema)
        both = _Sides(held, rows, np.concatenate([owner, group]), np.concatenate([mark, since]))
        kept, weight = None, rows.weight
        if least(delta.weight) < 0:
            kept, weight = rows.consolidation()
            if len(kept) and least(weight) < 0:
                net = rows.take(kept)
                after = Delta(net.payload, net.start, net.end, weight)
                refuse_negative(after, type(self).__name__.removesuffix("Kernel"))
        self._held.apply(delta, number, (since,))
        return self._difference(both, kept, weight, boundary)

    def _difference(
        self, both: _Sides, kept: Codes | None, weight: Codes, boundary: Times
    ) -> Delta:
        """What leaves and what comes. Both sides are evaluated at once, the groups of the rows after
        the change numbered behind those before it. After the change there are those `kept`; None:
        all."""
        count = len(both.held)

        def sides(values: Codes) -> Codes:
            return np.concatenate([values[:count], values if kept is None else values[kept]])

        group, start, end = sides(both.group), sides(both.rows.start), sides(both.rows.end)
        since = np.maximum(sides(both.since), boundary[group])
        group[count:] += len(boundary)
        weight = np.concatenate([both.held.weight, weight])
        alive = since < end
        if kept is None and alive.all() and (not len(weight) or greatest(weight) == 1):
            payload = concat_rows([both.held.payload, both.rows.payload], self._held.schema)
        else:
            which = alive.nonzero()[0]
            which = which.repeat(weight[which])
            group, since, start, end = group[which], since[which], start[which], end[which]
            payload = take_rows(both.rows.payload, sides(np.arange(len(both.rows)))[which])
        if not len(group):
            return Delta.empty(self.schema)
        rows = Delta(payload, start, end, np.ones(len(group), np.int64))
        snapshots = snapshots_of(group, since, end)
        payload, window = self.answer(rows, snapshots, (snapshots.alive > 0).nonzero()[0])
        weight = np.where(snapshots.group[window] < len(boundary), -1, 1)
        return Delta(payload, snapshots.start[window], snapshots.end[window], weight)

    def _forget(self, before: Progress) -> None:
        """Drop what no later change can touch; the last boundary stays with the rows across it."""
        now = self._progress
        dropped: list[Columns] = []
        if now.cti == INFINITY:
            self._held.clear()
        elif now.cti > before.cti:
            dropped = self._held.drop(now.cti - 1)
        promised = (
            newly_promised_groups(self._index, self._fields, now.scope_columns, before, now)
            if now.speaks_of_groups and not self._held.is_empty()
            else None
        )
        if promised is not None:
            group, time = promised
            until = np.where(time == INFINITY, INFINITY, time - 1)
            dropped += self._held.drop_groups(group, until)
        if self._held.is_empty():
            self._index.clear()
            return
        if dropped:
            self._mark_boundaries(Columns.concat(dropped))
        if self._index.is_untidy:
            self._held.renumber(self._index.keep(self._held.groups()))

    def _mark_boundaries(self, dropped: Columns) -> None:
        """Note the last end of dropped rows in the rows of their group across it."""
        touched, group = distinct_codes(dropped.group)
        boundary = np.full(len(touched), MIN_TIME)
        np.maximum.at(boundary, group, dropped.end)
        settled = np.full(len(touched), self._progress.cti - 1)
        if self._progress.speaks_of_groups:
            columns = self._progress.scope_columns
            settled[group] = promises_of_rows(self._progress, dropped.payload, columns) - 1
        across = self._held.find(touched, settled, boundary)
        if len(across):
            across.set_mark(0, np.maximum(across.mark(0), boundary[across.owner]))

    def snapshot(self) -> Slices:
        state = pa.RecordBatch.from_arrays([pa.array([self._watermark])], names=["watermark"])
        return {
            **self._held.snapshot("rows"),
            "progress": slice_of_progress([self._progress]),
            "marks": state,
            **self._gate.snapshot(),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._index.clear()
        self._held.restore("rows", slices)
        self._progress = progress_of_slice(slices["progress"])[0]
        self._watermark = int(slices["marks"].column(0)[0].as_py())
        self._gate.restore(dict(slices))

    def state_size(self) -> StateSize:
        return self._held.size() + self._gate.state_size()


@dataclass(frozen=True, slots=True)
class _Sides:
    """The rows before a change, and behind them in `rows` those of the change; each with its group
    and the time from which on it counts."""

    held: Delta
    rows: Delta
    group: Codes
    since: Times


def make_gate(schema: pa.Schema, consistency: Consistency) -> Gate:
    """Snapshots end where the next change is, so their ends may move until they are passed."""
    return Gate(schema, consistency, settled="past end")

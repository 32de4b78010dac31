"""Snapshot operators: aggregate, top-k and distinct over the maximal intervals in which nothing
changes.

Meaning. For each group let T be the set of all endpoints of its rows. For consecutive a < b in T
with at least one row alive on [a, b), the rows alive there are one window. Equal neighbours are not
merged; where nothing is alive there is no row. Null keys are a group of their own; duplicates count
as often as they are there.

State. Rows that end at or after the CTI, in an arrangement by group; and by group the last end of
rows that were dropped. That is enough, because a legal change touches nothing before the CTI, and
the window across it starts at that boundary. A promise for groups that the keys name drops the rows
of these groups alike. In a snapshot a row has a mark: its start or, if later, the boundary of its
group.

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
from thalweg.model.rows import Codes, Rows, distinct_codes
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
from thalweg.operators.groups import ranges
from thalweg.operators.window.assigner import grown, moved_to
from thalweg.state import Arrangement, KeyIndex
from thalweg.state.runs import Columns

__all__ = ["SnapshotKernel", "Snapshots", "snapshots_of"]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The windows of some rows: window i of a group is [start[i], end[i]). The last one of each
    group, in which nothing is alive, has no end that means something."""

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

    def representatives(self, windows: Codes) -> Codes:
        """For each of some windows one row of its group."""
        row = np.empty(int(self.group[-1]) + 1, np.int64)
        row[self.group[self.first]] = np.arange(len(self.first))
        return row[self.group[windows]]


def snapshots_of(group: Codes, since: Times, end: Times) -> Snapshots:
    """Cut the time of each group at every endpoint of its rows."""
    size = len(group)
    times, groups = np.concatenate([since, end]), np.concatenate([group, group])
    order = sort_pairs(groups, times)
    times, groups = times[order], groups[order]
    new = np.ones(2 * size, np.bool_)
    new[1:] = (times[1:] != times[:-1]) | (groups[1:] != groups[:-1])
    index = np.empty(2 * size, np.int64)
    index[order] = new.cumsum() - 1
    first, last = index[:size], index[size:]
    begins = new.nonzero()[0]
    starts = times[begins]
    ends = np.full(len(starts), INFINITY)
    ends[:-1] = starts[1:]
    change = np.bincount(first, minlength=len(starts)) - np.bincount(last, minlength=len(starts))
    return Snapshots(starts, ends, groups[begins], change.cumsum(), first, last - first)


class SnapshotKernel(Operator):
    """The shared part. A subclass says which rows to keep and what a window's rows give."""

    def __init__(
        self, schema: pa.Schema, held: pa.Schema, keys: tuple[str, ...], gate: Gate
    ) -> None:
        self.schema = schema
        self._nothing = Delta.empty(schema)
        self._keys = keys
        self._gate = gate
        self._fields = [held.field(name) for name in keys]
        self._index = KeyIndex(self._fields)
        what = type(self).__name__.removesuffix("Kernel")
        self._held = Arrangement(held, self._groups, marks=1, what=what)
        self._boundary = self._marked = _NONE
        """By group: the last end of rows that were dropped, and what is marked of that."""
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
        changes = self._nothing
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
        if not (progress.scoped or progress.boxes or progress.areas):
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
        size = len(touched)
        self._boundary = grown(self._boundary, touched, MIN_TIME)
        base = self._boundary[touched]
        earliest = np.full(size, INFINITY)
        np.minimum.at(earliest, group, self._changed_from(delta))
        found = self._held.find(touched, earliest - 1, np.full(size, INFINITY))
        held, owner = found.delta(), found.owner
        # Of each group the last endpoint before the change: all rows here end after it.
        boundary = np.maximum(base, self._held.last_end_before(touched, earliest))
        settled = (held.start < earliest[owner]).nonzero()[0]
        np.maximum.at(boundary, owner[settled], held.start[settled])
        self._held.apply(delta, number, (np.maximum(delta.start, base[group]),))
        if least(delta.weight) > 0:
            after, groups = [held, delta], [owner + size, group + size]
        else:
            rows = Delta.concat([held, delta], self._held.schema)
            kept, weight = rows.consolidation()
            after = [rows.reweighted(kept, weight)]
            groups = [np.concatenate([owner, group])[kept] + size]
        both = Delta.concat([held, *after], self._held.schema)
        return self._difference(both, np.concatenate([owner, *groups]), boundary)

    def _changed_from(self, delta: Delta) -> Times:
        """The earliest time that each row may change: one that started before the CTI can only have
        got another end, any other may be new or gone as a whole."""
        progress = self._progress
        if not progress.speaks_of_groups and least(delta.start) >= progress.cti:
            return delta.start
        promised = promises_of_rows(progress, delta.payload, progress.scope_columns)
        return np.where(delta.start >= promised, delta.start, delta.end)

    def _difference(self, rows: Delta, group: Codes, boundary: Times) -> Delta:
        """What leaves and what comes. Both sides are evaluated at once, the groups of the rows after
        the change numbered behind those before it."""
        if not len(rows):
            return self._nothing
        if greatest(rows.weight) > 1:
            unit = np.repeat(np.arange(len(rows)), rows.weight)
            rows, group = rows.take(unit), group[unit]
        since = np.maximum(rows.start, np.concatenate([boundary, boundary])[group])
        snapshots = snapshots_of(group, since, rows.end)
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
            self._clear_groups()
            return
        for rows in dropped:
            np.maximum.at(self._boundary, rows.group, rows.end)
        if self._index.is_untidy:
            moved = self._index.keep(self._held.groups())
            self._held.renumber(moved)
            self._boundary, self._marked = (
                moved_to(times, moved, MIN_TIME) for times in (self._boundary, self._marked)
            )

    def _clear_groups(self) -> None:
        self._index.clear()
        self._boundary = self._marked = _NONE

    def _mark_boundaries(self) -> None:
        """Note the boundaries that have moved in the rows across them."""
        boundary = self._boundary
        self._marked = grown(self._marked, np.array([len(boundary) - 1]), MIN_TIME)
        moved = np.flatnonzero(boundary > self._marked[: len(boundary)])
        if len(moved):
            across = self._held.find(moved, boundary[moved], boundary[moved])
            across.set_mark(0, boundary[across.group])
            self._marked = boundary.copy()

    def snapshot(self) -> Slices:
        self._mark_boundaries()
        state = pa.RecordBatch.from_arrays([pa.array([self._watermark])], names=["watermark"])
        return {
            **self._held.snapshot("rows"),
            "progress": slice_of_progress([self._progress]),
            "marks": state,
            **self._gate.snapshot(),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._clear_groups()
        self._held.restore("rows", slices)
        rows = self._held.all()
        group, mark = rows.group, rows.mark(0)
        across = (mark > rows.start).nonzero()[0]
        self._boundary = np.full(len(self._index), MIN_TIME)
        np.maximum.at(self._boundary, group[across], mark[across])
        self._marked = self._boundary.copy()
        self._progress = progress_of_slice(slices["progress"])[0]
        self._watermark = int(slices["marks"].column(0)[0].as_py())
        self._gate.restore(dict(slices))

    def state_size(self) -> StateSize:
        return self._held.size() + self._gate.state_size()


def make_gate(schema: pa.Schema, consistency: Consistency) -> Gate:
    """Snapshots end where the next change is, so their ends may move until they are passed."""
    return Gate(schema, consistency, settled="past end")


_NONE = np.empty(0, np.int64)

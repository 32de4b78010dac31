"""Snapshot operators: aggregate, top-k and distinct over the maximal intervals in which nothing
changes.

Meaning. For each group let T be the set of all endpoints of its rows. For consecutive a < b in T
with at least one row alive on [a, b), the rows alive there are one window. Equal neighbours are not
merged; where nothing is alive there is no row. Null keys are a group of their own; duplicates count
as often as they are there.

State. Rows that end at or after the CTI, of which nothing before the last settled boundary is kept:
`_since` is the start of a row or, if later, the group's last endpoint before the CTI. That is
enough, because a legal change touches nothing before the CTI, and the window that straddles it
starts at that boundary.

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
from thalweg.model.names import internal
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Codes, Rows, encode
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    delta_of_slice,
    progress_of_slice,
    slice_of_delta,
    slice_of_progress,
)
from thalweg.operators.consistency import Consistency, Gate
from thalweg.operators.groups import (
    append_column,
    group_codes,
    keyed_in,
    ranges,
    refuse_negative,
    replace_column,
    units,
)

__all__ = ["SnapshotKernel", "Snapshots", "snapshots_of"]

SINCE, GROUP = internal("since"), internal("group")


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
    order = np.lexsort((times, groups))
    sorted_times, sorted_groups = times[order], groups[order]
    new = np.ones(2 * size, np.bool_)
    new[1:] = (sorted_times[1:] != sorted_times[:-1]) | (sorted_groups[1:] != sorted_groups[:-1])
    index = np.empty(2 * size, np.int64)
    index[order] = np.cumsum(new) - 1
    first, last = index[:size], index[size:]
    starts, owners = sorted_times[new], sorted_groups[new]
    ends = np.full(len(starts), INFINITY)
    ends[:-1] = np.where(owners[1:] == owners[:-1], starts[1:], INFINITY)
    change = np.bincount(first, minlength=len(starts)) - np.bincount(last, minlength=len(starts))
    return Snapshots(starts, ends, owners, np.cumsum(change).astype(np.int64), first, last - first)


class SnapshotKernel(Operator):
    """The shared part. A subclass says which rows to keep and what a window's rows give."""

    def __init__(
        self, schema: pa.Schema, held: pa.Schema, keys: tuple[str, ...], gate: Gate
    ) -> None:
        self.schema = schema
        self._keys = keys
        self._gate = gate
        self._held = Delta.empty(pa.schema([*held, pa.field(SINCE, pa.int64())]))
        self._progress = NO_PROGRESS
        self._watermark = MIN_TIME

    @abstractmethod
    def project(self, batch: Batch) -> Delta:
        """The changes a batch makes to the rows that are kept."""

    @abstractmethod
    def answer(self, rows: Delta, snapshots: Snapshots, alive: Codes) -> Delta:
        """What the windows (positions `alive`) give; `rows` have weight one and start at their
        `_since`."""

    def process(self, port: int, batch: Batch) -> Batch:
        changes = Delta.empty(self.schema)
        if len(batch):
            self._watermark = max(self._watermark, int(batch.start.max()))
            changes = self._apply(self.project(batch))
        progress = self._progress.merge(batch.progress)
        self._watermark = max(self._watermark, progress.cti)
        advanced = progress.cti > self._progress.cti
        self._progress = progress
        if advanced:
            self._forget(progress.cti)
        leaving, promise = self._gate.release(changes, self._watermark, self._scoped(progress))
        return leaving.to_batch(promise)

    def needs(self, time: int) -> tuple[int, ...]:
        return (self._gate.needs(time),)

    def _scoped(self, progress: Progress) -> Progress:
        """What a promise says about groups: its scopes and boxes, where they are made of the
        keys."""
        boxes = rename_boxes(progress.boxes, {key: key for key in self._keys})
        if set(progress.scope_columns) <= set(self._keys):
            return progress if boxes == progress.boxes else replace(progress, boxes=boxes)
        return Progress(progress.cti, boxes=boxes)

    def _apply(self, delta: Delta) -> Delta:
        touched = keyed_in(self._held.payload, delta.payload, self._keys)
        before, others = self._held.filter(touched), self._held.filter(~touched)
        group, groups = self._groups(before, delta)
        before_group, delta_group = group[: len(before)], group[len(before) :]
        base = _bases(before, before_group, groups)
        since = np.maximum(delta.start, base[delta_group])
        delta = Delta(
            append_column(delta.payload, SINCE, since), delta.start, delta.end, delta.weight
        )
        after = _with_group(Delta.concat([before, delta], self._held.schema), group).consolidate()
        refuse_negative(after, type(self).__name__.removesuffix("Kernel"))
        after, after_group = _without_group(after)
        # A row that started before the CTI can only have changed its end; any other may be new or
        # gone as a whole.
        earliest = np.full(groups, INFINITY)
        np.minimum.at(
            earliest,
            delta_group,
            np.where(delta.start >= self._progress.cti, delta.start, delta.end),
        )
        boundary = _last_boundaries(before, before_group, earliest, groups)
        new = self._evaluate(after, after_group, earliest, boundary)
        old = self._evaluate(before, before_group, earliest, boundary)
        self._held = Delta.concat([others, after], self._held.schema)
        return Delta.concat([new, old.negate()], self.schema)

    def _groups(self, before: Delta, delta: Delta) -> tuple[Codes, int]:
        columns = [
            pa.concat_arrays([before.payload.column(k), delta.payload.column(k)])
            for k in self._keys
        ]
        return encode(columns, len(before) + len(delta))

    def _evaluate(self, rows: Delta, group: Codes, frontier: Times, boundary: Times) -> Delta:
        keep = rows.end >= frontier[group]
        rows, group = rows.filter(keep), group[keep]
        since = np.maximum(_since(rows), boundary[group])
        alive_rows = since < rows.end
        rows, group, since = rows.filter(alive_rows), group[alive_rows], since[alive_rows]
        if not len(rows):
            return Delta.empty(self.schema)
        if not (rows.weight == 1).all():
            which = np.repeat(np.arange(len(rows)), rows.weight)
            group, since, rows = group[which], since[which], units(rows)
        snapshots = snapshots_of(group, since, rows.end)
        alive = np.flatnonzero(snapshots.alive > 0)
        return self.answer(rows, snapshots, alive)

    def _forget(self, cti: int) -> None:
        """Drop what no later change can touch."""
        held = self._held
        if cti == INFINITY:
            self._held = held.filter(np.zeros(len(held), np.bool_))
            return
        old = held.end < cti
        if not old.any():
            return
        group, groups = group_codes(held.payload, self._keys)
        boundary = _last_boundaries(held, group, np.full(groups, cti), groups)
        since = np.maximum(_since(held), boundary[group])
        kept = Delta(replace_column(held.payload, SINCE, since), held.start, held.end, held.weight)
        self._held = kept.filter(~old)

    def snapshot(self) -> Slices:
        state = pa.RecordBatch.from_arrays([pa.array([self._watermark])], names=["watermark"])
        return {
            "rows": slice_of_delta(self._held),
            "progress": slice_of_progress([self._progress]),
            "marks": state,
            **self._gate.snapshot(),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._held = delta_of_slice(slices["rows"])
        self._progress = progress_of_slice(slices["progress"])[0]
        self._watermark = int(slices["marks"].column(0)[0].as_py())
        self._gate.restore(dict(slices))

    def state_size(self) -> StateSize:
        return StateSize(len(self._held), self._held.nbytes) + self._gate.state_size()


def _with_group(rows: Delta, group: Codes) -> Delta:
    return Delta(append_column(rows.payload, GROUP, group), rows.start, rows.end, rows.weight)


def _without_group(rows: Delta) -> tuple[Delta, Codes]:
    names = rows.schema.names[:-1]
    group: Codes = rows.payload.column(GROUP).to_numpy(zero_copy_only=False)
    payload = pa.RecordBatch.from_arrays(rows.payload.columns[:-1], names=names)
    return Delta(payload, rows.start, rows.end, rows.weight), group


def _since(rows: Delta) -> Times:
    times: Times = rows.payload.column(SINCE).to_numpy(zero_copy_only=False)
    return times


def _bases(rows: Delta, group: Codes, groups: int) -> Times:
    """Per group the boundary before which its rows were cut off."""
    base = np.full(groups, MIN_TIME)
    since = _since(rows)
    cut = since > rows.start
    np.maximum.at(base, group[cut], since[cut])
    return base


def _last_boundaries(rows: Delta, group: Codes, frontier: Times, groups: int) -> Times:
    """Per group the latest endpoint strictly before the frontier."""
    boundary = np.full(groups, MIN_TIME)
    for times in (_since(rows), rows.end):
        settled = times < frontier[group]
        np.maximum.at(boundary, group[settled], times[settled])
    return boundary


def make_gate(schema: pa.Schema, consistency: Consistency) -> Gate:
    """Snapshots end where the next change is, so their ends may move until they are passed."""
    return Gate(schema, consistency, settled="past end")

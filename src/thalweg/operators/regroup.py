"""Kernels that re-evaluate whole groups: the groups a batch touches, before and after; the
difference is the answer.

The shared part of stitch and sessions, whose results depend on chains of rows rather than on single
instants. A subclass says what the rows of some groups give, and which rows a CTI lets go of. Held
rows carry one mark, a time that remembers what was let go of.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Rows
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
from thalweg.operators.consistency import Gate
from thalweg.operators.group_promises import promises_of_rows
from thalweg.operators.groups import append_column, keyed_in, refuse_negative, replace_column

__all__ = ["RegroupKernel"]

MARK = internal("mark")


class RegroupKernel(Operator):
    """Holds rows of `held` plus a column `_mark` (at first the row's start)."""

    def __init__(
        self, schema: pa.Schema, held: pa.Schema, keys: tuple[str, ...], gate: Gate | None
    ) -> None:
        self.schema = schema
        self._keys = keys
        self._gate = gate
        self._held = Delta.empty(pa.schema([*held, pa.field(MARK, pa.int64())]))
        self._progress = NO_PROGRESS
        self._watermark = MIN_TIME

    @abstractmethod
    def project(self, batch: Batch) -> Delta:
        """The changes a batch makes to the rows that are held."""

    @abstractmethod
    def answer(self, rows: Delta) -> Delta:
        """What the rows of some groups give; weights may be larger than one."""

    @abstractmethod
    def keep(self, rows: Delta, cti: int) -> tuple[Delta, int]:
        """The rows that later changes may need, with their new marks; and the promise that can be
        made."""

    def keep_groups(self, rows: Delta, promised: Times) -> Delta | None:
        """The same for groups that have promises of their own: that of each row is given. The
        promises then pass as they are. None: groups do not forget one by one here."""
        return None

    def process(self, port: int, batch: Batch) -> Batch:
        changes = Delta.empty(self.schema)
        if len(batch):
            self._watermark = max(self._watermark, int(batch.start.max()))
            changes = self._apply(self.project(batch))
        before, progress = self._progress, self._progress.advance(batch.progress)
        self._watermark = max(self._watermark, progress.cti)
        if progress.cti == INFINITY:
            self._held, promise = Delta.empty(self._held.schema), INFINITY
        else:
            self._held, promise = self.keep(self._held, progress.cti)
        self._progress = progress
        passing = Progress(promise)
        if progress.scoped and set(progress.scope_columns) <= set(self._keys):
            kept = self._kept_by_groups(progress) if progress is not before else self._held
            if kept is not None:
                self._held = kept
                passing = replace(progress, cti=promise, boxes={})
        if self._gate is None:
            return changes.to_batch(passing)
        leaving, passed = self._gate.release(changes, self._watermark, passing)
        return leaving.to_batch(passed)

    def _kept_by_groups(self, progress: Progress) -> Delta | None:
        promised = promises_of_rows(progress, self._held.payload, progress.scope_columns)
        return self.keep_groups(self._held, promised)

    def needs(self, time: int) -> tuple[int, ...]:
        if time <= MIN_TIME or time == INFINITY:
            return (time,)
        own = self.least(time)
        ends = time if self._gate is None else self._gate.needs(time)
        if self._gate is None or ends == time:
            return (own,)
        # Answers that are held leave by the promise of this operator, or earlier by the watermark,
        # which follows the input.
        passed = INFINITY if ends == INFINITY else self.least(ends)
        return (max(own, min(passed, self._gate.leaves_by(ends))),)

    def least(self, time: int) -> int:
        """The least promise of the input for which `keep` promises `time`."""
        return time

    def _apply(self, delta: Delta) -> Delta:
        if not len(delta):
            return Delta.empty(self.schema)
        delta = Delta(
            append_column(delta.payload, MARK, delta.start), delta.start, delta.end, delta.weight
        )
        touched = keyed_in(self._held.payload, delta.payload, self._keys)
        before = self._held.filter(touched)
        after = Delta.concat([before, delta], self._held.schema).consolidate()
        refuse_negative(after, type(self).__name__.removesuffix("Kernel"))
        self._held = Delta.concat([self._held.filter(~touched), after], self._held.schema)
        new = self.answer(after) if len(after) else Delta.empty(self.schema)
        old = self.answer(before) if len(before) else Delta.empty(self.schema)
        return Delta.concat([new, old.negate()], self.schema)

    def snapshot(self) -> Slices:
        marks = pa.RecordBatch.from_arrays([pa.array([self._watermark])], names=["watermark"])
        gate = self._gate.snapshot() if self._gate else {}
        return {
            "rows": slice_of_delta(self._held),
            "progress": slice_of_progress([self._progress]),
            "marks": marks,
            **gate,
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._held = delta_of_slice(slices["rows"])
        self._progress = progress_of_slice(slices["progress"])[0]
        self._watermark = int(slices["marks"].column(0)[0].as_py())
        if self._gate:
            self._gate.restore(dict(slices))

    def state_size(self) -> StateSize:
        own = StateSize(len(self._held), self._held.nbytes)
        return own + self._gate.state_size() if self._gate else own


def marks_of(rows: Delta) -> Times:
    times: Times = rows.payload.column(MARK).to_numpy(zero_copy_only=False)
    return times


def with_marks(rows: Delta, marks: Times) -> Delta:
    return Delta(replace_column(rows.payload, MARK, marks), rows.start, rows.end, rows.weight)


def only_starts(delta: Delta) -> Delta:
    """Rows whose end does not matter: a change of an end is no change."""
    starts = Delta(delta.payload, delta.start, np.full(len(delta), INFINITY), delta.weight)
    return starts if (delta.weight > 0).all() else starts.consolidate()

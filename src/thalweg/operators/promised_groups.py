"""Hopping windows whose groups close one by one: a promise for one group, or about the columns that
make the groups (`boxes`), makes the answers of those groups final.

The kernel of the windows knows only the common promise. Here it is made to answer as far as the
group that is furthest ahead; a gate keeps the answers of the others back until their own promises,
or the watermark, let them leave. The promise for a group is the start of its earliest window that
is not closed, as it is for all.

A row without an end has windows as far as the largest finite time that was seen: where there is
one, no group is promised beyond that. State: that of the kernel, the answers that are held back,
and the promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.boxes import rename_boxes
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    map_progress,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.consistency import Consistency, Gate
from thalweg.operators.hopping_grid import GridOperator

__all__ = ["PromisedGroupsKernel", "inner_consistency"]


def inner_consistency(consistency: Consistency) -> Consistency:
    """That of the kernel inside: it answers as soon as it may, and the gate waits."""
    return consistency if consistency.mode == "eager" else Consistency("speculative")


class PromisedGroupsKernel(Operator):
    """
    >>> import thalweg as tw
    >>> sensors = tw.source("s", {"sensor": "string"}, group_ctis="sensor")
    >>> engine = tw.Engine(sensors.group_by("sensor").tumbling(10).aggregate(n=tw.count()), consistency="final")
    >>> _ = engine.push("s", [tw.point({"sensor": "a"}, 1), tw.point({"sensor": "b"}, 4)])
    >>> list(tw.elements_of(engine.push("s", tw.cti(20, {"sensor": "a"}))))[0]
    Insert(payload={'sensor': 'a', 'n': 1}, start=0, end=10)
    """

    def __init__(
        self, inner: GridOperator, keys: tuple[str, ...], consistency: Consistency
    ) -> None:
        self.schema = inner.schema
        self._inner = inner
        self._release = inner.release
        self._keys = keys
        self._gate = Gate(inner.schema, consistency, settled="end")
        self._progress = NO_PROGRESS
        self._watermark = MIN_TIME
        self._endless = False

    def process(self, port: int, batch: Batch) -> Batch:
        if len(batch):
            self._watermark = max(self._watermark, int(batch.start.max()))
            self._endless |= bool((batch.end == INFINITY).any())
        self._progress = self._progress.merge(self._of_keys(batch.progress))
        self._watermark = max(self._watermark, self._progress.cti)
        progress = self._bounded(batch)
        self._look_ahead(progress, batch)
        answer = self._inner.process(port, batch.with_progress(Progress(progress.cti)))
        leaving, promise = self._gate.release(
            Delta.of_batch(answer), self._watermark, progress, map_progress(progress, self._promise)
        )
        return leaving.to_batch(promise)

    def needs(self, time: int) -> tuple[int, ...]:
        return self._inner.needs(time)

    def _of_keys(self, progress: Progress) -> Progress:
        """What a promise says about groups, where those are made of the keys."""
        boxes = rename_boxes(progress.boxes, {key: key for key in self._keys})
        if set(progress.scope_columns) <= set(self._keys):
            return replace(progress, boxes=boxes)
        return Progress(progress.cti, boxes=boxes)

    def _horizon(self, batch: Batch) -> int:
        """The largest finite time seen."""
        finite = batch.end[batch.end != INFINITY]
        return max(
            self._release.horizon,
            self._watermark if self._watermark != INFINITY else MIN_TIME,
            int(finite.max(initial=MIN_TIME)),
        )

    def _bounded(self, batch: Batch) -> Progress:
        progress = self._progress
        if not self._endless or not progress.scoped:
            return progress
        horizon = max(self._horizon(batch), progress.cti)
        return replace(
            progress, scoped={scope: min(time, horizon) for scope, time in progress.scoped.items()}
        )

    def _look_ahead(self, progress: Progress, batch: Batch) -> None:
        """Let the kernel answer as far as the group that is furthest ahead. A promise over key
        columns says nothing about time: then as far as there are rows."""
        if progress.scoped or progress.boxes:
            latest = (
                self._horizon(batch) + self._release.grid.size
            )  # beyond that no window has rows
            ahead = INFINITY if progress.boxes else max(progress.scoped.values())
            self._release.watermark = max(self._release.watermark, min(ahead, latest))

    def _promise(self, time: int) -> int:
        grid = self._release.grid
        return (grid.last_ending_by(time) + 1) * grid.hop + grid.offset

    def snapshot(self) -> Slices:
        marks = pa.RecordBatch.from_arrays(
            [pa.array([self._watermark, int(self._endless)])], names=["marks"]
        )
        return {
            **self._inner.snapshot(),
            **self._gate.snapshot(),
            "groups_promised": slice_of_progress([self._progress]),
            "groups_marks": marks,
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        own = ("gate", "gate_progress", "groups_promised", "groups_marks")
        inner = {name: rows for name, rows in slices.items() if name.split("/")[0] not in own}
        self._inner.restore(inner)
        self._gate.restore(dict(slices))
        self._progress = progress_of_slice(slices["groups_promised"])[0]
        self._watermark, endless = slices["groups_marks"].column(0).to_pylist()
        self._endless = bool(endless)

    def state_size(self) -> StateSize:
        return self._inner.state_size() + self._gate.state_size()

"""Hopping windows whose groups close one by one: a promise for one group, for a range of groups, or
over the columns that identify groups (`column_promises`) makes the answers of those groups final,
and frees their state.

The kernel of the windows has only the common promise. From the first promise for a group on it
answers as far as the group that is furthest ahead; a gate holds the answers of other groups until
their own promises, or the watermark, allow them. The promise for a group is the start of its
earliest window that is not closed, as it is for all groups.

A row without an end has windows as far as the largest finite time that was seen: if there is such a
row, no group is promised beyond that time. State: that of the kernel, without windows that are
closed for their group; the answers that are held back; the promises for groups of which something
is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress, Scope, scope_values
from thalweg.model.python_rows import column_of
from thalweg.model.rows import Codes, Rows, encode_together
from thalweg.model.time import INFINITY, MIN_TIME, greatest
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    map_progress,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.consistency import Consistency, Gate
from thalweg.operators.group_promises import groups_in_areas, promises_over
from thalweg.operators.window.grid.grid import FOREVER, NEVER
from thalweg.operators.window.grid.loop import GridOperator
from thalweg.operators.window.modules.dead_letters import DeadLetters, WritesLetters

__all__ = ["PromisedGroupsKernel"]

_OWN = ("gate", "gate_progress", "groups_promised", "groups_marks")
_FEW = 64
"""Up to this many promises for groups are kept without finding those that are needed."""


class PromisedGroupsKernel(Operator, WritesLetters):
    """
    >>> import thalweg as tw
    >>> sensors = tw.source("s", {"sensor": "string"}, group_ctis="sensor")
    >>> query = sensors.group_by("sensor").tumbling(10).aggregate(n=tw.count())
    >>> engine = tw.Engine(query, consistency="final")
    >>> _ = engine.push("s", [tw.point({"sensor": "a"}, 1), tw.point({"sensor": "b"}, 4)])
    >>> list(tw.elements_of(engine.push("s", tw.cti(20, {"sensor": "a"}))))[0]
    Insert(payload={'sensor': 'a', 'n': 1}, start=0, end=10)
    """

    def __init__(
        self, inner: GridOperator[Any, Any], keys: tuple[str, ...], consistency: Consistency
    ) -> None:
        self.schema = inner.schema
        self.inner = inner
        self._release = inner.release
        self._keys = keys
        self._consistency = consistency
        self._gate = Gate(inner.schema, consistency, settled="end")
        self._progress = NO_PROGRESS
        self._watermark = MIN_TIME
        self._apart = False
        """Whether there was a promise for a group."""
        self._kept = 0

    @property
    def dead_letters(self) -> DeadLetters:
        return self.inner.dead_letters if isinstance(self.inner, WritesLetters) else DeadLetters()

    @property
    def is_apart(self) -> bool:
        """Whether there were promises for single groups."""
        return self._apart

    def process(self, port: int, batch: Batch) -> Batch:
        progress = batch.progress
        if not (self._apart or progress.scoped or progress.column_promises or progress.areas):
            return self.inner.process(port, batch)
        promised = promises_over(progress, self._keys)
        if not self._apart:
            if not promised.speaks_of_groups and not promised.column_promises:
                return self.inner.process(port, batch)
            self._set_apart()
        if len(batch):
            self._watermark = max(self._watermark, greatest(batch.start))
            self._release.endless |= batch.has_endless
        known = self._progress.naming(promised.scope_columns)
        news = {scope: time for scope, time in promised.scoped.items() if time > known.of(scope)}
        before, self._progress = self._progress, self._progress.merge(promised)
        self._watermark = max(self._watermark, self._progress.cti)
        progress = self._bounded(batch)
        self._look_ahead(progress, batch)
        answer = self.inner.process(port, batch.with_progress(Progress(progress.cti)))
        leaving, promise = self._gate.release(
            Delta.of_batch(answer),
            self._watermark,
            progress,
            map_progress(progress, self._release.grid.promise),
        )
        if news or (progress.areas and self._progress.areas is not before.areas):
            self._close({scope: progress.of(scope) for scope in news}, progress)
        if len(self._progress.scoped) > 2 * self._kept + _FEW:
            self._forget()
        return leaving.to_batch(promise)

    def _set_apart(self) -> None:
        """Let the kernel answer as soon as it may, from now on, and hold answers back at the
        gate."""
        self._apart = True
        self._watermark = self._release.watermark
        self._progress = Progress(self._release.cti)
        self._gate.pass_on(Progress(self._release.grid.promise(self._release.cti)))
        if not self._consistency.is_eager:
            self._release.consistency = Consistency("speculative")

    def _matches(self, scopes: list[Scope]) -> Codes:
        """For each group of the kernel the index of its promise, or -1."""
        names = self._progress.scope_columns
        groups = self.inner.groups()
        held = [groups[self._keys.index(name)] for name in names]
        scope_values = [
            column_of(values, column.type)
            for values, column in zip(zip(*scopes, strict=True), held, strict=True)
        ]
        group, scope, size = encode_together(held, scope_values, (len(held[0]), len(scopes)))
        which = np.full(size, -1)
        which[scope] = np.arange(len(scopes))
        return which[group]

    def _close(self, promises: Mapping[Scope, int], progress: Progress) -> None:
        """Forget what only closed windows of single groups need."""
        keys = dict(zip(self._keys, self.inner.groups(), strict=True))
        times = groups_in_areas(progress, keys, len(keys[self._keys[0]]))
        if promises:
            which = self._matches(list(promises))
            named = np.array(list(promises.values()), np.int64)[which]
            np.maximum(times, named, out=times, where=which >= 0)
        distinct, of = np.unique(times, return_inverse=True)
        last_ending_by = self._release.grid.last_ending_by
        closed = np.array([last_ending_by(time) for time in distinct.tolist()], np.int64)
        # The kernel may not have answered so far yet where nothing has come for long.
        closed[closed != FOREVER] = np.minimum(closed[closed != FOREVER], self._release.released)
        self.inner.close_groups(np.where(times > MIN_TIME, closed[of], NEVER))

    def _forget(self) -> None:
        """Forget the promises for groups of which nothing is held."""
        progress, scopes = self._progress, list(self._progress.scoped)
        names = progress.scope_columns
        groups = self.inner.groups()
        held = [groups[self._keys.index(name)].take(self.inner.held_groups()) for name in names]
        used = set(zip(*map(scope_values, held), strict=True)) | self._gate.scopes(names)
        kept = {scope: progress.scoped[scope] for scope in scopes if scope in used}
        self._progress = replace(progress, scoped=kept)
        self._gate.forget(set(scopes) - set(kept))
        self._kept = len(kept)

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        self.inner.forget(time, unwanted)
        if unwanted[0] > MIN_TIME:
            self._gate.drop_before(time)

    def needs(self, time: int) -> tuple[int, ...]:
        return self.inner.needs(time)

    def _horizon(self, batch: Batch) -> int:
        """The largest finite time seen."""
        return max(
            self._release.horizon,
            self._watermark if self._watermark != INFINITY else MIN_TIME,
            batch.latest_end,
        )

    def _bounded(self, batch: Batch) -> Progress:
        progress = self._progress
        if not self._release.endless or not progress.speaks_of_groups:
            return progress
        horizon = max(self._horizon(batch), progress.cti)
        return replace(
            progress,
            scoped={scope: min(time, horizon) for scope, time in progress.scoped.items()},
            areas=progress.areas.map(lambda time: min(time, horizon)),
        )

    def _look_ahead(self, progress: Progress, batch: Batch) -> None:
        """Let the kernel answer up to the promise of the group that is furthest ahead; with a
        promise over key columns, which has no time, as far as there are rows."""
        if progress.speaks_of_groups or progress.column_promises:
            latest = (
                self._horizon(batch) + self._release.grid.size
            )  # beyond that no window has rows
            own = [progress.areas.most, *progress.scoped.values()]
            ahead = INFINITY if progress.column_promises else max(own)
            self._release.watermark = max(self._release.watermark, min(ahead, latest))

    def snapshot(self) -> Slices:
        marks = [self._watermark, int(self._release.endless), int(self._apart)]
        slices = {
            **self.inner.snapshot(),
            "groups_marks": pa.RecordBatch.from_arrays([pa.array(marks)], names=["marks"]),
        }
        if not self._apart:
            return slices
        promised = {"groups_promised": slice_of_progress([self._progress])}
        return {**slices, **self._gate.snapshot(), **promised}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        inner = {name: rows for name, rows in slices.items() if name.split("/")[0] not in _OWN}
        self.inner.restore(inner)
        watermark, endless, apart = slices["groups_marks"].column(0).to_pylist()
        self._release.endless = bool(endless)
        if apart:
            self._set_apart()
            self._gate.restore(dict(slices))
            self._progress = progress_of_slice(slices["groups_promised"])[0]
            self._watermark = watermark

    def state_size(self) -> StateSize:
        return self.inner.state_size() + self._gate.state_size()

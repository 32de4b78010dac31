"""Consistency: when an answer may leave, and the gate that holds it until then.

With the watermark m = max(latest CTI, largest start seen) and the CTI c, an answer that ends at e
leaves when

    speculative   e <= m                 hold d        e <= max(c, m - d)
    eager         at once                final         e <= c   (e < c where the end itself may still move)

The final table is the same for all. The gate keeps exactly the rows that may not leave yet; a row
that has left is revised at once. Rows that started before a promise the gate has passed on are
already known downstream, so they pass whatever their end: taking them back would break that
promise. Rows inside a box (see `boxes`) are final: they leave at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.model.boxes import inside
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress, Scope, scope_values
from thalweg.model.rows import Bools, Codes, Rows, encode
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    StateSize,
    delta_of_slice,
    progress_of_slice,
    slice_of_delta,
    slice_of_progress,
)
from thalweg.progress.frontier import Consistency

__all__ = ["Consistency", "Gate"]


class Gate:
    """Holds rows back until they may leave.

    `settled` says when a row can no longer change: `"end"` when the CTI has reached its end
    (windows on a grid, closed sessions), `"past end"` when it has passed it (an end that may still
    be adjusted), `"start"` when it has passed its start (rows that come and go whole).
    """

    def __init__(self, schema: pa.Schema, consistency: Consistency, *, settled: str) -> None:
        self._consistency = consistency
        self._settled = settled
        self._held = Delta.empty(schema)
        self._passed = NO_PROGRESS

    def release(
        self, delta: Delta, watermark: int, progress: Progress, promise: Progress | None = None
    ) -> tuple[Delta, Progress]:
        """The changes that leave now, and the promise that holds after them: `promise` if that is
        less than `progress`."""
        promise = progress if promise is None else promise
        if self._consistency.mode == "eager":
            return delta, promise
        waiting = Delta.concat([self._held, delta], delta.schema)
        # A row may come and go, or change its end, inside one batch: nothing of it is held.
        if len(delta) and (delta.weight < 0).any():
            waiting = waiting.consolidate()
        leaves = self._may_leave(waiting, watermark, progress)
        self._held = waiting.filter(~leaves)
        self._passed = self._passed.merge(self._promise(promise))
        return waiting.filter(leaves), self._passed

    def _may_leave(self, rows: Delta, watermark: int, progress: Progress) -> Bools:
        cti = _for_rows(progress, rows)
        if self._consistency.is_final:
            past = self._settled == "past end"
            threshold = (
                np.where((cti == INFINITY) | (cti == MIN_TIME), cti, cti - 1) if past else cti
            )
        else:
            threshold = np.maximum(cti, self._consistency.threshold(watermark, progress.cti))
        leaves: Bools = (rows.end <= threshold) | (rows.start < _for_rows(self._passed, rows))
        if self._settled == "start":
            leaves |= rows.start < cti
        if progress.boxes and len(rows):
            leaves |= inside(progress.boxes, rows.payload)
        return leaves

    def _promise(self, progress: Progress) -> Progress:
        """No promise beyond the start of a row that is still held."""
        if not len(self._held):
            return progress
        first = int(self._held.start.min())
        cti = min(progress.cti, first)
        if not progress.scoped:
            return Progress(cti, boxes=progress.boxes)
        group, scopes = _scopes(self._held.payload, progress.scope_columns)
        starts = np.full(len(scopes), INFINITY)
        np.minimum.at(starts, group, self._held.start)
        earliest = dict(zip(scopes, starts.tolist(), strict=True))
        scoped = {s: min(progress.of(s), earliest.get(s, INFINITY)) for s in progress.scoped}
        return Progress(
            cti,
            progress.scope_columns,
            {s: t for s, t in scoped.items() if t > cti},
            progress.boxes,
        )

    def pass_on(self, promise: Progress) -> None:
        """A promise was passed on without the gate."""
        self._passed = self._passed.merge(promise)

    def scopes(self, columns: Sequence[str]) -> set[Scope]:
        """The groups of which rows are held."""
        return set(_scopes(self._held.payload, columns)[1]) if len(self._held) else set()

    def forget(self, scopes: set[Scope]) -> None:
        """Groups of which nothing is held need no promise."""
        kept = {scope: time for scope, time in self._passed.scoped.items() if scope not in scopes}
        self._passed = replace(self._passed, scoped=kept)

    def needs(self, time: int) -> int:
        """The promise after which nothing that starts before a time is held any more."""
        first = self._held.filter(self._held.start < time) if len(self._held) else self._held
        if not len(first) or time <= MIN_TIME or self._consistency.mode == "eager":
            return time
        if self._settled == "start":
            return time
        latest = int(first.end.max())
        if latest == INFINITY:
            return INFINITY
        return max(
            time, latest + (1 if self._settled == "past end" and self._consistency.is_final else 0)
        )

    def leaves_by(self, end: int) -> int:
        """The watermark that lets an answer with this end leave; infinity where only a promise
        does."""
        return (
            end + self._consistency.hold
            if self._consistency.mode == "speculative" and end != INFINITY
            else INFINITY
        )

    def snapshot(self) -> dict[str, Rows]:
        return {
            "gate": slice_of_delta(self._held),
            "gate_progress": slice_of_progress([self._passed]),
        }

    def restore(self, slices: dict[str, Rows]) -> None:
        self._held = delta_of_slice(slices["gate"])
        self._passed = progress_of_slice(slices["gate_progress"])[0]

    def state_size(self) -> StateSize:
        return StateSize(len(self._held), self._held.nbytes)


def _for_rows(progress: Progress, rows: Delta) -> Times:
    """The promise that holds for each row: the common one, or that of its group."""
    if not progress.scoped or not len(rows):
        return np.full(len(rows), progress.cti)
    group, scopes = _scopes(rows.payload, progress.scope_columns)
    return np.array([progress.of(scope) for scope in scopes], np.int64)[group]


def _scopes(payload: Rows, columns: Sequence[str]) -> tuple[Codes, list[Scope]]:
    """The group of each row, as a number, and the values that name each group."""
    keys = [payload.column(name) for name in columns]
    group, count = encode(keys, payload.num_rows)
    representative = np.empty(count, np.int64)
    representative[group] = np.arange(payload.num_rows)
    named = [scope_values(key.take(pa.array(representative))) for key in keys]
    return group, list(zip(*named, strict=True))

"""Consistency: when an answer may leave, and the gate that holds it until then.

With the watermark m = max(latest CTI, largest start seen) and the CTI c, an answer that ends at e
leaves when

    speculative   e <= m                 hold d        e <= max(c, m - d)
    eager         at once                final         e <= c   (e < c where the end itself may still move)

The final table is the same for all. The gate keeps exactly the rows that may not leave yet; a row
that has left is revised at once. Rows that started before a promise the gate has passed on are
already known downstream, so they pass whatever their end: taking them back would break that
promise. Rows inside a box (see `boxes`) are final: they leave at once.

State: the rows that wait, in a row set: those that leave are found by time, one that is taken back
by what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.model.boxes import inside
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress, Scope
from thalweg.model.rows import Bools, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import StateSize, progress_of_slice, slice_of_progress
from thalweg.operators.group_promises import promises_of_rows, scopes_of_rows
from thalweg.progress.frontier import Consistency
from thalweg.state import Hits, RowSet

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
        self._schema = schema
        # A row is held until the time at which it may leave; where that follows from its start, its
        # end is a mark.
        self._by_start = settled == "start"
        self._held = RowSet(schema, marks=int(self._by_start), what="gate")
        self._threshold = MIN_TIME
        """Up to which rows that waited have left."""
        self._passed = NO_PROGRESS

    def release(
        self, delta: Delta, watermark: int, progress: Progress, promise: Progress | None = None
    ) -> tuple[Delta, Progress]:
        """The changes that leave now, and the promise that holds after them: `promise` if that is
        less than `progress`."""
        promise = progress if promise is None else promise
        if self._consistency.mode == "eager":
            return delta, promise
        leaving: list[Delta] = []
        if not self._held.is_empty():
            leaving = [self._released(watermark, progress), *self._promised(watermark, progress)]
        if len(delta):
            leaves = self._may_leave(delta, watermark, progress)
            if leaves.all():
                leaving.append(delta)
            else:
                leaving.append(delta.filter(leaves))
                self._hold(delta.filter(~leaves))
        self._passed = self._passed.advance(self._promise(promise))
        return Delta.concat(leaving, self._schema), self._passed

    def _hold(self, waiting: Delta) -> None:
        """Rows that come are held; one that is taken back before it left is forgotten."""
        if (waiting.weight < 0).any():
            # A row may come and go, or change its end, inside one batch: nothing of it is held.
            waiting = waiting.consolidate()
        # A gate that a running query got later has not seen rows from before: what takes them back
        # says nothing here.
        if not self._by_start:
            self._held.change(waiting, strict=False)
            return
        until = Delta(waiting.payload, waiting.start, waiting.start + 1, waiting.weight)
        self._held.change(until, (waiting.end,), strict=False)

    def _shown(self, found: Hits) -> Delta:
        if not self._by_start:
            return found.delta()
        return Delta(found.payload(), found.start, found.mark(0), found.weight)

    def _common_threshold(self, watermark: int, cti: int) -> int:
        """The latest end that lets a row of any group leave."""
        if not self._consistency.is_final:
            return max(cti, self._consistency.threshold(watermark, cti))
        past = self._settled == "past end" and cti not in (INFINITY, MIN_TIME)
        return cti - 1 if past else cti

    def _released(self, watermark: int, progress: Progress) -> Delta:
        """The rows that waited until the common promise or the watermark got here."""
        threshold = self._common_threshold(watermark, progress.cti)
        if threshold <= self._threshold:
            return Delta.empty(self._schema)
        self._threshold = threshold
        return self._shown(self._held.release(threshold))

    def _promised(self, watermark: int, progress: Progress) -> list[Delta]:
        """The rows that a promise for their group, or over their columns, lets leave."""
        if not (progress.scoped or progress.boxes) or self._held.is_empty():
            return []
        found = self._held.between(self._threshold, INFINITY)
        found = found.filter(self._may_leave(self._shown(found), watermark, progress))
        rows = self._shown(found)
        found.set_weight(np.zeros(len(found), np.int64))
        self._held.drop(self._threshold)
        return [rows]

    def _may_leave(self, rows: Delta, watermark: int, progress: Progress) -> Bools:
        cti: Times | int = progress.cti
        threshold: Times | int = self._common_threshold(watermark, progress.cti)
        if progress.scoped:
            promised = promises_of_rows(progress, rows.payload, progress.scope_columns)
            own = np.where(promised > cti, self._own_threshold(promised), MIN_TIME)
            cti, threshold = promised, np.maximum(own, threshold)
        passed: Times | int = self._passed.cti
        if self._passed.scoped:
            passed = promises_of_rows(self._passed, rows.payload, self._passed.scope_columns)
        leaves: Bools = (rows.end <= threshold) | (rows.start < passed)
        if self._by_start:
            leaves |= rows.start < cti
        if progress.boxes and len(rows):
            leaves |= inside(progress.boxes, rows.payload)
        return leaves

    def _own_threshold(self, cti: Times) -> Times:
        if not (self._consistency.is_final and self._settled == "past end"):
            return cti
        return np.where(cti == INFINITY, cti, cti - 1)

    def _promise(self, progress: Progress) -> Progress:
        """No promise beyond the start of a row that is still held."""
        if self._held.is_empty():
            return progress
        cti = min(progress.cti, self._held.first())
        if not progress.scoped:
            return Progress(cti, boxes=progress.boxes)
        held = self._held.between(self._threshold, INFINITY)
        if not len(held):
            return progress
        group, scopes = scopes_of_rows(held.payload(), progress.scope_columns)
        starts = np.full(len(scopes), INFINITY)
        np.minimum.at(starts, group, held.start)
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
        self._passed = self._passed.advance(promise)

    def scopes(self, columns: Sequence[str]) -> set[Scope]:
        """The groups of which rows are held."""
        held = self._held.between(self._threshold, INFINITY)
        return set(scopes_of_rows(held.payload(), columns)[1]) if len(held) else set()

    def forget(self, scopes: set[Scope]) -> None:
        """Groups of which nothing is held need no promise."""
        kept = {scope: time for scope, time in self._passed.scoped.items() if scope not in scopes}
        self._passed = replace(self._passed, scoped=kept)

    def needs(self, time: int) -> int:
        """The promise after which nothing that starts before a time is held any more."""
        if time <= MIN_TIME or self._consistency.mode == "eager" or self._by_start:
            return time
        latest = self._held.latest_end(time)
        if latest == MIN_TIME:
            return time
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
        """The rows; what was promised, and how far rows have left."""
        both = [self._passed, Progress(self._threshold)]
        return {**self._held.snapshot("gate"), "gate_progress": slice_of_progress(both)}

    def restore(self, slices: dict[str, Rows]) -> None:
        self._passed, left = progress_of_slice(slices["gate_progress"])
        self._threshold = left.cti
        self._held.restore("gate", slices)
        self._held.purge(self._threshold)

    def state_size(self) -> StateSize:
        return self._held.size()

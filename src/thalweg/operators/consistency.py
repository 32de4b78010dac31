"""Consistency: when an answer may leave, and the gate that holds it until then.

With the watermark m = max(latest CTI, largest start seen) and the CTI c, an answer that ends at e
leaves when

    speculative   e <= m                 hold d        e <= max(c, m - d)
    eager         at once                final         e <= c   (e < c where the end may still move)

The final table is the same for all. The gate keeps exactly the rows that may not leave yet; a row
that has left is revised at once. Rows that started before a promise the gate has passed on are
already known downstream, so they pass whatever their end: taking them back would break that
promise. Rows below all bounds of a column promise are final: they leave at once.

`AnswerGate` says what may leave and what is promised meanwhile. `Gate` holds rows of any kind.

State: the rows that wait (see `waiting_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from thalweg.model.column_promises import inside
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress, Scope
from thalweg.model.rows import Bools, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times, least
from thalweg.operators.base import StateSize, progress_of_slice, slice_of_progress
from thalweg.operators.group_promises import promises_of_rows, scopes_of_rows
from thalweg.operators.waiting_rows import WaitingRows
from thalweg.progress.frontier import Consistency

__all__ = ["AnswerGate", "Consistency", "Gate"]


class Waiting(Protocol):
    """What waits at a gate."""

    def is_empty(self) -> bool: ...

    def first(self) -> int:
        """The earliest start."""
        ...

    def rows(self) -> Delta:
        """Rows of which the groups and the starts are those of what waits."""
        ...


class AnswerGate:
    """When rows may leave, and what is promised while others wait.

    `settled` says when a row can no longer change: `"end"` when the CTI has reached its end
    (windows on a grid, closed sessions), `"past end"` when it has passed it (an end that may still
    be adjusted), `"start"` when it has passed its start (rows that come and go whole).
    """

    _waiting: Waiting

    def __init__(self, consistency: Consistency, settled: str) -> None:
        self._consistency = consistency
        self._settled = settled
        self._by_start = settled == "start"
        self._passed = NO_PROGRESS

    def _common_threshold(self, watermark: int, cti: int) -> int:
        """The latest end that lets a row of any group leave."""
        if not self._consistency.is_final:
            return max(cti, self._consistency.threshold(watermark, cti))
        past = self._settled == "past end" and cti not in (INFINITY, MIN_TIME)
        return cti - 1 if past else cti

    def _may_leave(
        self,
        start: Times,
        end: Times,
        payload: Callable[[], Rows],
        watermark: int,
        progress: Progress,
    ) -> Bools:
        """Which rows may leave. Their payload is asked for if promises speak of groups or
        columns."""
        cti: Times | int = progress.cti
        threshold: Times | int = self._common_threshold(watermark, progress.cti)
        if progress.speaks_of_groups:
            promised = promises_of_rows(progress, payload(), progress.scope_columns)
            own = np.where(promised > cti, self._own_threshold(promised), MIN_TIME)
            cti, threshold = promised, np.maximum(own, threshold)
        passed: Times | int = self._passed.cti
        if self._passed.speaks_of_groups:
            passed = promises_of_rows(self._passed, payload(), self._passed.scope_columns)
        leaves: Bools = (end <= threshold) | (start < passed)
        if self._by_start:
            leaves |= start < cti
        if progress.column_promises and len(start):
            leaves |= inside(progress.column_promises, payload())
        return leaves

    def _own_threshold(self, cti: Times) -> Times:
        if not (self._consistency.is_final and self._settled == "past end"):
            return cti
        return np.where(cti == INFINITY, cti, cti - 1)

    def _promised(self, promise: Progress) -> Progress:
        """What is promised behind the rows that have left."""
        self._passed = self._passed.advance(self._promise(promise))
        return self._passed

    def _promise(self, progress: Progress) -> Progress:
        """No promise beyond the start of a row that is still held."""
        if self._waiting.is_empty():
            return progress
        cti = min(progress.cti, self._waiting.first())
        if not progress.speaks_of_groups:
            return Progress(cti, column_promises=progress.column_promises)
        held = self._waiting.rows()
        if not len(held):
            return progress
        group, scopes = scopes_of_rows(held.payload, progress.scope_columns)
        starts = np.full(len(scopes), INFINITY)
        np.minimum.at(starts, group, held.start)
        earliest = dict(zip(scopes, starts.tolist(), strict=True))
        scoped = {s: min(progress.of(s), earliest.get(s, INFINITY)) for s in progress.scoped}
        return Progress(
            cti,
            progress.scope_columns,
            {s: t for s, t in scoped.items() if t > cti},
            progress.column_promises,
            areas=progress.areas.lower(
                {name: held.payload.column(name) for name in progress.scope_columns}, held.start
            ),
        )


class Gate(AnswerGate):
    """Holds rows back until they may leave; a row that waits may be taken back."""

    _waiting: WaitingRows

    def __init__(self, schema: pa.Schema, consistency: Consistency, *, settled: str) -> None:
        super().__init__(consistency, settled)
        self._schema = schema
        self._waiting = WaitingRows(schema, by_start=self._by_start)
        self._threshold = MIN_TIME
        """Up to which rows that waited have left."""

    def release(
        self, delta: Delta, watermark: int, progress: Progress, promise: Progress | None = None
    ) -> tuple[Delta, Progress]:
        """The changes that leave now, and the promise that holds after them: `promise` if that is
        less than `progress`."""
        promise = progress if promise is None else promise
        if self._consistency.is_eager:
            return delta, promise
        few = self._waiting.few(len(delta))
        if few is None:
            leaving = self._pass_many(delta, watermark, progress)
        else:
            leaving = self._pass_few(few, delta, watermark, progress)
        return leaving, self._promised(promise)

    def _pass_few(self, few: Delta, delta: Delta, watermark: int, progress: Progress) -> Delta:
        """What leaves, where few rows wait: they and the new ones are looked at together. A row and
        what takes it back leave together or not at all, so they cancel out before."""
        rows = Delta.concat([few, delta], self._schema)
        if not len(rows):
            return rows
        leaves = self._leaves(rows, watermark, progress)
        self._threshold = max(self._threshold, self._common_threshold(watermark, progress.cti))
        if not len(delta) and not leaves.any():
            return delta
        if not len(delta) or least(delta.weight) > 0:
            return self._waiting.divide(rows, np.arange(len(rows)), rows.weight, leaves)
        which, weight = rows.consolidation()
        return self._waiting.divide(rows, which, weight, leaves[which])

    def _pass_many(self, delta: Delta, watermark: int, progress: Progress) -> Delta:
        """What leaves, where rows that wait are found in a row set."""
        leaving: list[Delta] = []
        if not self._waiting.is_empty():
            leaving = [
                self._released(watermark, progress),
                *self._promised_rows(watermark, progress),
            ]
        if len(delta):
            leaves = self._leaves(delta, watermark, progress)
            if leaves.all():
                leaving.append(delta)
            else:
                leaving.append(delta.filter(leaves))
                waiting = delta.filter(~leaves)
                # A row may come and go, or change its end, inside one batch: nothing of it waits.
                if (waiting.weight < 0).any():
                    waiting = waiting.consolidate()
                self._waiting.change(waiting)
        return Delta.concat(leaving, self._schema)

    def _released(self, watermark: int, progress: Progress) -> Delta:
        """The rows that waited until the common promise or the watermark got here."""
        threshold = self._common_threshold(watermark, progress.cti)
        if threshold <= self._threshold:
            return Delta.empty(self._schema)
        self._threshold = threshold
        return self._waiting.release(threshold)

    def _promised_rows(self, watermark: int, progress: Progress) -> list[Delta]:
        """The rows that a promise for their group, or over their columns, lets leave."""
        if not (progress.speaks_of_groups or progress.column_promises) or self._waiting.is_empty():
            return []
        return [self._waiting.release_where(lambda rows: self._leaves(rows, watermark, progress))]

    def _leaves(self, rows: Delta, watermark: int, progress: Progress) -> Bools:
        return self._may_leave(rows.start, rows.end, lambda: rows.payload, watermark, progress)

    def pass_on(self, promise: Progress) -> None:
        """A promise was passed on without the gate."""
        self._passed = self._passed.advance(promise)

    def scopes(self, columns: Sequence[str]) -> set[Scope]:
        """The groups of which rows are held."""
        held = self._waiting.rows()
        return set(scopes_of_rows(held.payload, columns)[1]) if len(held) else set()

    def drop_before(self, time: int) -> None:
        """Rows that end before a time need not leave any more."""
        if not self._waiting.is_empty():
            self._waiting.release_where(lambda rows: rows.end < time)

    def forget(self, scopes: set[Scope]) -> None:
        """Groups of which nothing is held need no promise."""
        kept = {scope: time for scope, time in self._passed.scoped.items() if scope not in scopes}
        self._passed = replace(self._passed, scoped=kept)

    def needs(self, time: int) -> int:
        """The promise after which nothing that starts before a time is held any more."""
        if time <= MIN_TIME or self._consistency.is_eager or self._by_start:
            return time
        latest = self._waiting.latest_end(time)
        if latest == MIN_TIME:
            return time
        if latest == INFINITY:
            return INFINITY
        return max(
            time, latest + (1 if self._settled == "past end" and self._consistency.is_final else 0)
        )

    def snapshot(self) -> dict[str, Rows]:
        """The rows; what was promised, and how far rows have left."""
        both = [self._passed, Progress(self._threshold)]
        return {**self._waiting.snapshot("gate"), "gate_progress": slice_of_progress(both)}

    def restore(self, slices: dict[str, Rows]) -> None:
        self._passed, left = progress_of_slice(slices["gate_progress"])
        self._threshold = left.cti
        self._waiting.restore("gate", slices, self._threshold)

    def state_size(self) -> StateSize:
        return self._waiting.size()

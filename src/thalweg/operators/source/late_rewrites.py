"""Late rewrites: a late row is moved to the promise or left out, so that later adjusts by its
source name a row that is not held under that name.

A rewrite maps (payload, start, end) as the source names the row to (payload, start', end') as it
was admitted, or to nothing. Adjusts are translated by it; of several rewrites of equal rows the
oldest is used first.

An adjust that names an end before the promise is late whatever was admitted of its row: it is left
out, and the row with the new end that it wanted is rewritten to nothing. No rewrite is kept for an
end before the promise. So what becomes of an element follows from the elements and promises before
it, however they were cut into batches.

Only batches in which something is late, or that adjust while there are rewrites, come here. Late
inserts are handled in columns; a batch with adjusts is processed in order, since each may depend
on the one before it.

State: the rewrites in a row set, each with the admitted lifetime and its age as marks. A batch
looks up the rewrites that its adjusts name, and changes nothing before it is accepted
(`RewriteChanges`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import INFINITY, Times
from thalweg.progress.admission import LatePolicy
from thalweg.state import Hits, RowSet, Slices, StateSize

__all__ = ["LateRewrites", "RewriteChanges", "RewrittenBatch", "rewrite_late"]

RowKey = tuple[str, int, int]
"""A row as its source names it: payload as text, start, end."""
Admitted = tuple[int, int] | None
"""The lifetime under which a row was admitted; None: it was left out."""

_NOTHING = INFINITY
"""The admitted start of a row that was left out."""
_SLICE = "claims"
"""Checkpoints name the state so."""


class LateRewrites:
    """Rows as their source names them -> rows as they were admitted, first in first out."""

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = RowSet(schema, marks=3, what="late rewrites")
        self._next_age = 0

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, batch: Batch) -> Hits:
        """The rewrites that adjusts of a batch may name, each once, the oldest first."""
        named = Delta(batch.payload, batch.start, batch.end, np.ones(len(batch), np.int64))
        if batch.is_adjust is not None:
            named = named.filter(batch.is_adjust)
        found, _ = self._rows.find_rows(named).distinct()
        return found

    def apply(self, changes: RewriteChanges) -> None:
        """Drop the rewrites that were used, and add new ones."""
        if changes.used:
            weight = changes.found.weight
            weight[changes.used] = 0
            changes.found.set_weight(weight)
        if not changes.rows:
            return
        which, count = np.array(changes.rows, np.int64), len(changes.rows)
        start, end = np.array(changes.start, np.int64), np.array(changes.end, np.int64)
        lifetimes = [lifetime or (_NOTHING, _NOTHING) for lifetime in changes.admitted]
        admitted_start, admitted_end = np.array(lifetimes, np.int64).T.copy()
        ages = np.arange(self._next_age, self._next_age + count)
        self._next_age += count
        payload = changes.payload.take(pa.array(which))
        self._rows.change(
            Delta(payload, start, end, np.ones(count, np.int64)),
            (admitted_start, admitted_end, ages),
        )

    def drop_settled(self, cti: int) -> None:
        """Drop the rewrites of rows that nothing may adjust any more."""
        if cti == INFINITY:
            self._rows.clear()
        else:
            self._rows.purge(cti - 1)

    def snapshot(self) -> Slices:
        return self._rows.snapshot(_SLICE)

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._rows.restore(_SLICE, slices)
        self._next_age = int(self._rows.all().mark(2).max(initial=-1)) + 1

    def size(self) -> StateSize:
        return self._rows.size()


@dataclass(slots=True)
class RewriteChanges:
    """What a batch will do to the rewrites when it is accepted."""

    payload: Rows
    found: Hits
    """The rewrites that the batch may name."""
    used: list[int] = field(default_factory=list)
    """Positions in `found` of those that the batch uses up."""
    rows: list[int] = field(default_factory=list)
    """Of new rewrites: the row of `payload`, its lifetime as the source names it, and as
    admitted."""
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    admitted: list[Admitted] = field(default_factory=list)

    def add(self, row: int, start: int, end: int, admitted: Admitted) -> None:
        self.rows.append(row)
        self.start.append(start)
        self.end.append(end)
        self.admitted.append(admitted)


class _RewritesInBatch:
    """The rewrites that a batch may name and those that it makes, while it is processed."""

    def __init__(self, changes: RewriteChanges) -> None:
        self._changes = changes
        self._by_key: dict[RowKey, deque[tuple[Admitted, int]]] = {}
        """Admitted lifetimes, each with its position in `found`, or ~position in `_new`."""
        self._new: list[tuple[int, RowKey, Admitted] | None] = []
        """New rewrites; None where one was used again."""
        found = changes.found
        columns = (found.start, found.end, found.mark(0), found.mark(1))
        payloads = [_payload_text(payload) for payload in found.payload().to_pylist()]
        for at in np.argsort(found.mark(2), kind="stable").tolist():
            start, end, admitted_start, admitted_end = (int(column[at]) for column in columns)
            admitted = None if admitted_start == _NOTHING else (admitted_start, admitted_end)
            self._by_key.setdefault((payloads[at], start, end), deque()).append((admitted, at))

    def __contains__(self, key: RowKey) -> bool:
        return key in self._by_key

    def add(self, row: int, key: RowKey, admitted: Admitted) -> None:
        self._by_key.setdefault(key, deque()).append((admitted, ~len(self._new)))
        self._new.append((row, key, admitted))

    def use(self, key: RowKey) -> Admitted:
        """Take the oldest rewrite of a row."""
        queue = self._by_key[key]
        admitted, at = queue.popleft()
        if at >= 0:
            self._changes.used.append(at)
        else:
            self._new[~at] = None
        if not queue:
            del self._by_key[key]
        return admitted

    def changes(self) -> RewriteChanges:
        """What remains to be done, after the last element."""
        for rewrite in self._new:
            if rewrite is not None:
                row, (_, start, end), admitted = rewrite
                self._changes.add(row, start, end, admitted)
        return self._changes


def _payload_text(payload: dict[str, Any]) -> str:
    same = {
        name: value + 0.0 if isinstance(value, float) else value for name, value in payload.items()
    }  # 0.0 equals -0.0
    return json.dumps(same, default=repr, sort_keys=True)


LedgerEntries = tuple[Batch, Times, list[str]]
"""Late elements, the promise that each broke, and what became of it."""


@dataclass(frozen=True, slots=True)
class RewrittenBatch:
    """A batch with its late elements moved or left out."""

    batch: Batch
    positions: Codes
    """The position of each element in the batch as it arrived."""
    changes: RewriteChanges
    ledger_entries: LedgerEntries


def rewrite_late(
    batch: Batch, promise: Times, policy: LatePolicy, rewrites: LateRewrites, *, adjustable: bool
) -> RewrittenBatch:
    """Move or leave out the elements of a batch that come after the promise before them.

    No rewrite is kept for a late row that ended before the promise, or of a source that never
    adjusts: no adjust can name it.
    """
    if batch.is_adjust is not None:
        return _rewrite_one_by_one(batch, promise, policy, rewrites)
    late = batch.start < promise
    moved = late & (batch.end > promise) & policy.moves
    changes = RewriteChanges(batch.payload, Hits(batch.schema, np.empty(0, np.int64), []))
    for at in np.flatnonzero(late & (batch.end >= promise) & adjustable).tolist():
        admitted = (int(promise[at]), int(batch.end[at])) if moved[at] else None
        changes.add(at, int(batch.start[at]), int(batch.end[at]), admitted)
    entries = (
        batch.filter(late) if late.any() else Batch.empty(batch.schema),
        promise[late],
        np.where(moved[late], "moved", "left out").tolist(),
    )
    rewritten = Batch(
        batch.payload, np.where(moved, promise, batch.start), batch.end, progress=batch.progress
    )
    keep = ~late | moved
    return RewrittenBatch(rewritten.filter(keep), np.flatnonzero(keep), changes, entries)


def _rewrite_one_by_one(
    batch: Batch, promise: Times, policy: LatePolicy, rewrites: LateRewrites
) -> RewrittenBatch:
    assert batch.is_adjust is not None and batch.new_end is not None
    walk = _Walk(batch, policy, rewrites)
    new_ends, adjusts = batch.new_end.tolist(), batch.is_adjust.tolist()
    payloads = map(_payload_text, batch.payload.to_pylist())
    keys = zip(payloads, batch.start.tolist(), batch.end.tolist(), strict=True)
    for at, (key, limit) in enumerate(zip(keys, promise.tolist(), strict=True)):
        if adjusts[at]:
            walk.adjust(at, key, new_ends[at], limit)
        else:
            walk.insert(at, key, limit)
    return walk.rewritten(promise)


class _Walk:
    """The elements of a batch with adjusts, one after the other. `limit` is the promise before an
    element."""

    def __init__(self, batch: Batch, policy: LatePolicy, rewrites: LateRewrites) -> None:
        assert batch.is_adjust is not None and batch.new_end is not None
        self._batch = batch
        self._moves = policy.moves
        self._known = _RewritesInBatch(RewriteChanges(batch.payload, rewrites.find(batch)))
        self._start, self._end = batch.start.copy(), batch.end.copy()
        self._new_end, self._is_adjust = batch.new_end.copy(), batch.is_adjust.copy()
        self._keep = np.ones(len(batch), np.bool_)
        self._late: list[int] = []
        self._actions: list[str] = []

    def insert(self, at: int, key: RowKey, limit: int) -> None:
        _, start, end = key
        if start >= limit:
            return
        remains = self._moves and end > limit
        if end >= limit:
            self._known.add(at, key, (limit, end) if remains else None)
        self._note(at, "moved" if remains else "left out")
        self._keep[at], self._start[at] = remains, limit

    def adjust(self, at: int, key: RowKey, new_end: int, limit: int) -> None:
        payload, start, end = key
        adjusted = (payload, start, new_end)
        admitted: Admitted = (start, end)
        if end >= limit and key in self._known:
            admitted = self._known.use(key)
        if end < limit or admitted is None:  # the end is settled, or the row was left out
            self._keep[at] = False
            self._note(at, "left out")
            if new_end >= limit:
                self._known.add(at, adjusted, None)
            return
        admitted_start, admitted_end = admitted
        self._start[at] = admitted_start
        if new_end < limit:
            self._adjust_late(at, end, limit)
        elif admitted_end <= admitted_start:
            # Nothing of the row was left after the promise; the new end may bring it back.
            self._is_adjust[at], self._end[at] = False, new_end
            self._keep[at] = new_end > admitted_start
            self._known.add(at, adjusted, (admitted_start, new_end))
        elif admitted_start != start:
            self._known.add(at, adjusted, (admitted_start, new_end))

    def _adjust_late(self, at: int, end: int, limit: int) -> None:
        """An adjust to an end before the promise: the row ends at the promise, or as it did."""
        self._note(at, "moved" if self._moves else "left out")
        self._new_end[at] = limit
        self._keep[at] = self._moves and limit != end

    def _note(self, at: int, action: str) -> None:
        self._late.append(at)
        self._actions.append(action)

    def rewritten(self, promise: Times) -> RewrittenBatch:
        batch, keep = self._batch, self._keep
        late = np.array(self._late, np.int64)
        entries = (
            batch.take(late) if len(late) else Batch.empty(batch.schema),
            promise[late],
            self._actions,
        )
        rows, is_adjust = (batch.payload, self._start, self._end), self._is_adjust
        if is_adjust[keep].any():
            whole = Batch(*rows, self._new_end, is_adjust, batch.progress)
        else:
            whole = Batch(*rows, progress=batch.progress)
        changes = self._known.changes()
        return RewrittenBatch(whole.filter(keep), np.flatnonzero(keep), changes, entries)

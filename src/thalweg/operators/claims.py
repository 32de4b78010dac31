"""Claims: rows that are not as their source believes, because they came late and were moved or left out.

A claim says: what the source calls (payload, start, end) is really (payload, start', end'), or nothing. Later adjusts
speak the source's language and are translated; of several equal rows the claims are served first, oldest first.

Only batches in which something is late, or that adjust while claims are open, come here. Late inserts are handled in
columns; the loop runs over the adjusts that are late or meet a claim, since each may depend on the one before it.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.model.time import Times

__all__ = ["Claims", "rewrite_late"]

Key = tuple[str, int, int]
Real = tuple[int, int] | None


class Claims:
    """What the source calls a row -> what it is, first in first out."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._open: dict[Key, deque[Real]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def copy(self) -> Claims:
        other = Claims(self._schema)
        other._open = {key: deque(queue) for key, queue in self._open.items()}
        return other

    def add(self, key: Key, real: Real) -> None:
        self._open.setdefault(key, deque()).append(real)

    def has(self, key: Key) -> bool:
        return key in self._open

    def take(self, key: Key) -> Real:
        queue = self._open[key]
        real = queue.popleft()
        if not queue:
            del self._open[key]
        return real

    def forget(self, cti: int) -> None:
        """Claims of rows that nothing may adjust any more."""
        self._open = {key: queue for key, queue in self._open.items() if key[2] >= cti}

    def to_rows(self) -> Rows:
        texts = [json.dumps([*key, list(queue)]) for key, queue in self._open.items()]
        return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["claims"])

    @classmethod
    def from_rows(cls, rows: Rows, schema: pa.Schema) -> Claims:
        claims = cls(schema)
        for text in rows.column(0).to_pylist():
            payload, start, end, queue = json.loads(text)
            claims._open[(payload, start, end)] = deque(None if real is None else (real[0], real[1]) for real in queue)
        return claims


def _identity(payload: dict[str, Any]) -> str:
    return json.dumps(payload, default=repr, sort_keys=True)


Notes = tuple[Batch, Times, list[str]]


def rewrite_late(batch: Batch, promise: Times, policy: str, claims: Claims, *, adjustable: bool) -> tuple[Batch, Claims, Notes]:
    """The batch with its late elements moved or left out, the claims that follow, and the entries for the ledger.

    A late row that ended before the promise, or of a source that never adjusts, needs no claim: nobody will speak of it.
    """
    if batch.is_adjust is None:
        late = batch.start < promise
        moved = late & (batch.end > promise) & (policy == "adjust")
        after = claims.copy()
        for at in np.flatnonzero(late & (batch.end >= promise) & adjustable):
            row = _identity(batch.payload.slice(int(at), 1).to_pylist()[0])
            real = (int(promise[at]), int(batch.end[at])) if moved[at] else None
            after.add((row, int(batch.start[at]), int(batch.end[at])), real)
        actions = np.where(moved[late], "moved", "left out").tolist()
        notes = (batch.filter(late) if late.any() else Batch.empty(batch.schema), promise[late], actions)
        kept = Batch(batch.payload, np.where(moved, promise, batch.start), batch.end, progress=batch.progress)
        return kept.filter(~late | moved), after, notes
    return _rewrite_one_by_one(batch, promise, policy, claims.copy())


def _rewrite_one_by_one(batch: Batch, promise: Times, policy: str, claims: Claims) -> tuple[Batch, Claims, Notes]:
    assert batch.is_adjust is not None and batch.new_end is not None
    start, end, new_end = batch.start.copy(), batch.end.copy(), batch.new_end.copy()
    keep = np.ones(len(batch), np.bool_)
    noted: list[int] = []
    actions: list[str] = []

    def note(at: int, action: str) -> None:
        noted.append(at)
        actions.append(action)

    for at, payload in enumerate(batch.payload.to_pylist()):
        limit, row = int(promise[at]), _identity(payload)
        claimed = (row, int(start[at]), int(end[at]))
        if not batch.is_adjust[at]:
            if start[at] < limit:
                remains = policy == "adjust" and end[at] > limit
                claims.add(claimed, (limit, int(end[at])) if remains else None)
                note(at, "moved" if remains else "left out")
                keep[at] = remains
                start[at] = limit
            continue
        wanted, known = int(new_end[at]), claims.has(claimed)
        real = claims.take(claimed) if known else (claimed[1], claimed[2])
        removes = wanted == claimed[1]
        later = (row, claimed[1], wanted)
        if real is None:
            keep[at] = False
            note(at, "left out")
            if not removes:
                claims.add(later, None)
            continue
        start[at], end[at] = real
        goal = real[0] if removes else max(wanted, real[0])
        if min(real[1], goal) < limit:
            movable = policy == "adjust" and real[1] >= limit
            goal = max(goal, limit) if movable else real[1]
            note(at, "moved" if movable else "left out")
        new_end[at] = goal
        keep[at] = goal != real[1]
        if (real[0], goal) != (claimed[1], wanted) and goal > real[0]:
            claims.add(later, (real[0], goal))
    which = np.array(noted, np.int64)
    notes = (batch.take(which) if len(which) else Batch.empty(batch.schema), promise[which], actions)
    rewritten = Batch(batch.payload, start, end, new_end, batch.is_adjust, batch.progress).filter(keep)
    return rewritten, claims, notes

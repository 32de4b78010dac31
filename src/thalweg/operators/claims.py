"""Claims: rows that are not as their source believes, because they came late and were moved or left
out.

A claim says: what the source calls (payload, start, end) is really (payload, start', end), or
nothing. Later adjusts speak the source's language and are translated; of several equal rows the
claims are served first, oldest first.

An adjust that names an end before the promise is late whatever the row really is: it is left out,
and the claim on the end it wanted is a claim on nothing. No claim is kept on an end before the
promise. So what becomes of an element follows from the elements and promises before it, however
they were cut into batches.

Only batches in which something is late, or that adjust while claims are open, come here. Late
inserts are handled in columns; a batch with adjusts is gone through in order, since each may depend
on the one before it.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import INFINITY, Times

__all__ = ["Claims", "Rewritten", "rewrite_late"]

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

    def still_open(self, cti: int) -> Claims:
        """Without the claims of rows that nothing may adjust any more."""
        other = Claims(self._schema)
        other._open = (
            {}
            if cti == INFINITY
            else {key: queue for key, queue in self._open.items() if key[2] >= cti}
        )
        return other

    def to_rows(self) -> Rows:
        texts = [json.dumps([*key, list(queue)]) for key, queue in self._open.items()]
        return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["claims"])

    @classmethod
    def from_rows(cls, rows: Rows, schema: pa.Schema) -> Claims:
        claims = cls(schema)
        for text in rows.column(0).to_pylist():
            payload, start, end, queue = json.loads(text)
            claims._open[(payload, start, end)] = deque(
                None if real is None else (real[0], real[1]) for real in queue
            )
        return claims


def _identity(payload: dict[str, Any]) -> str:
    same = {
        name: value + 0.0 if isinstance(value, float) else value for name, value in payload.items()
    }  # 0.0 equals -0.0
    return json.dumps(same, default=repr, sort_keys=True)


Notes = tuple[Batch, Times, list[str]]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A batch with its late elements moved or left out, the claims that follow, and the entries for
    the ledger."""

    batch: Batch
    rows: Codes
    """Where in the batch that came each element stood."""
    claims: Claims
    notes: Notes


def rewrite_late(
    batch: Batch, promise: Times, policy: str, claims: Claims, *, adjustable: bool
) -> Rewritten:
    """What is left of a batch.

    A late row that ended before the promise, or of a source that never adjusts, needs no claim:
    nobody will speak of it.
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
        notes = (
            batch.filter(late) if late.any() else Batch.empty(batch.schema),
            promise[late],
            actions,
        )
        kept = Batch(
            batch.payload, np.where(moved, promise, batch.start), batch.end, progress=batch.progress
        )
        keep = ~late | moved
        return Rewritten(kept.filter(keep), np.flatnonzero(keep), after, notes)
    return _rewrite_one_by_one(batch, promise, policy, claims.copy())


def _rewrite_one_by_one(batch: Batch, promise: Times, policy: str, claims: Claims) -> Rewritten:
    assert batch.is_adjust is not None and batch.new_end is not None
    start, new_end, wants = batch.start.copy(), batch.new_end.copy(), batch.new_end.tolist()
    is_adjust, ends_now = batch.is_adjust.copy(), batch.end.copy()
    keep = np.ones(len(batch), np.bool_)
    noted: list[int] = []
    actions: list[str] = []

    def note(at: int, action: str) -> None:
        noted.append(at)
        actions.append(action)

    def insert(at: int, row: str, begin: int, end: int, limit: int) -> None:
        if begin >= limit:
            return
        remains = policy == "adjust" and end > limit
        if end >= limit:
            claims.add((row, begin, end), (limit, end) if remains else None)
        note(at, "moved" if remains else "left out")
        keep[at], start[at] = remains, limit

    def adjust(at: int, row: str, begin: int, end: int, limit: int) -> None:
        claimed, wanted = (row, begin, end), wants[at]
        real: Real = (begin, end)
        if end >= limit and claims.has(claimed):
            real = claims.take(claimed)
        if end < limit or real is None:  # of an end that is settled, or of a row that was left out
            keep[at] = False
            note(at, "left out")
            if wanted >= limit:
                claims.add((row, begin, wanted), None)
            return
        start[at] = real[0]
        if real[1] <= real[0] and wanted >= limit:
            # Nothing was left of the row behind the promise; now something is, or still is not.
            is_adjust[at], ends_now[at], keep[at] = False, wanted, wanted > real[0]
            claims.add((row, begin, wanted), (real[0], wanted))
        elif wanted >= limit:
            if real[0] != begin:
                claims.add((row, begin, wanted), (real[0], wanted))
        elif policy == "adjust":
            note(at, "moved")
            new_end[at] = limit
            keep[at] = limit != end
        else:
            note(at, "left out")
            keep[at] = False

    ends = batch.end.tolist()
    for at, (payload, begin, limit) in enumerate(
        zip(batch.payload.to_pylist(), batch.start.tolist(), promise.tolist(), strict=True)
    ):
        (adjust if batch.is_adjust[at] else insert)(at, _identity(payload), begin, ends[at], limit)
    which = np.array(noted, np.int64)
    notes = (
        batch.take(which) if len(which) else Batch.empty(batch.schema),
        promise[which],
        actions,
    )
    if is_adjust[keep].any():
        rewritten = Batch(batch.payload, start, ends_now, new_end, is_adjust, batch.progress)
    else:
        rewritten = Batch(batch.payload, start, ends_now, progress=batch.progress)
    return Rewritten(rewritten.filter(keep), np.flatnonzero(keep), claims, notes)

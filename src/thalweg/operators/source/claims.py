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

State: the claims in a row set, each with what the row really is and its age as marks. A batch looks
up the claims that its adjusts name, and changes nothing before it is accepted (`ClaimChanges`).
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
from thalweg.state import Hits, RowSet, Slices, StateSize

__all__ = ["ClaimChanges", "Claims", "Rewritten", "rewrite_late"]

Key = tuple[str, int, int]
Real = tuple[int, int] | None

_NOTHING = INFINITY
"""The start of a row that was left out."""


class Claims:
    """What the source calls a row -> what it is, first in first out."""

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = RowSet(schema, marks=3, what="claims")
        self._count = 0
        """How many claims there have been: the age of the next one."""

    def __len__(self) -> int:
        return len(self._rows)

    def on(self, batch: Batch) -> Hits:
        """The claims that adjusts of a batch may name, each once, the oldest first."""
        named = Delta(batch.payload, batch.start, batch.end, np.ones(len(batch), np.int64))
        if batch.is_adjust is not None:
            named = named.filter(batch.is_adjust)
        found, _ = self._rows.find_rows(named).distinct()
        return found

    def apply(self, changes: ClaimChanges) -> None:
        """Close the claims that were served, and open new ones."""
        if changes.served:
            weight = changes.known.weight
            weight[changes.served] = 0
            changes.known.set_weight(weight)
        if not changes.rows:
            return
        which, count = np.array(changes.rows, np.int64), len(changes.rows)
        start, end = np.array(changes.start, np.int64), np.array(changes.end, np.int64)
        real = [(_NOTHING, _NOTHING) if one is None else one for one in changes.real]
        begins, ends = np.array(real, np.int64).T.copy()
        ages = np.arange(self._count, self._count + count)
        self._count += count
        payload = changes.payload.take(pa.array(which))
        self._rows.change(
            Delta(payload, start, end, np.ones(count, np.int64)), (begins, ends, ages)
        )

    def forget(self, cti: int) -> None:
        """Drop the claims of rows that nothing may adjust any more."""
        if cti == INFINITY:
            self._rows.clear()
        else:
            self._rows.purge(cti - 1)

    def snapshot(self) -> Slices:
        return self._rows.snapshot("claims")

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._rows.restore("claims", slices)
        self._count = int(self._rows.all().mark(2).max(initial=-1)) + 1

    def size(self) -> StateSize:
        return self._rows.size()


@dataclass(slots=True)
class ClaimChanges:
    """What a batch does to the claims, before it is done."""

    payload: Rows
    known: Hits
    """The claims that the batch may name."""
    served: list[int] = field(default_factory=list)
    """Which of them were served."""
    rows: list[int] = field(default_factory=list)
    """Of new claims: the row of `payload`, its lifetime as the source calls it, and what it is."""
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    real: list[Real] = field(default_factory=list)

    def add(self, row: int, start: int, end: int, real: Real) -> None:
        self.rows.append(row)
        self.start.append(start)
        self.end.append(end)
        self.real.append(real)


class _Open:
    """The claims that a batch may name and those that it makes, by what the source calls a row."""

    def __init__(self, changes: ClaimChanges) -> None:
        self._changes = changes
        self._claims: dict[Key, deque[tuple[Real, int]]] = {}
        known = changes.known
        columns = (known.start, known.end, known.mark(0), known.mark(1))
        texts = [_identity(payload) for payload in known.payload().to_pylist()]
        for at in np.argsort(known.mark(2), kind="stable").tolist():
            start, end, begin, until = (int(column[at]) for column in columns)
            real = None if begin == _NOTHING else (begin, until)
            self._claims.setdefault((texts[at], start, end), deque()).append((real, at))
        self._made: list[tuple[int, Key, Real] | None] = []

    def add(self, row: int, key: Key, real: Real) -> None:
        self._made.append((row, key, real))
        self._claims.setdefault(key, deque()).append((real, -len(self._made)))

    def has(self, key: Key) -> bool:
        return key in self._claims

    def take(self, key: Key) -> Real:
        queue = self._claims[key]
        real, at = queue.popleft()
        if at >= 0:
            self._changes.served.append(at)
        else:
            self._made[-at - 1] = None
        if not queue:
            del self._claims[key]
        return real

    def close(self) -> ClaimChanges:
        """All changes; a claim that was made and served again is none."""
        for made in self._made:
            if made is not None:
                row, (_, start, end), real = made
                self._changes.add(row, start, end, real)
        return self._changes


def _identity(payload: dict[str, Any]) -> str:
    same = {
        name: value + 0.0 if isinstance(value, float) else value for name, value in payload.items()
    }  # 0.0 equals -0.0
    return json.dumps(same, default=repr, sort_keys=True)


Notes = tuple[Batch, Times, list[str]]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A batch with its late elements moved or left out, the changes of claims that follow, and the
    entries for the ledger."""

    batch: Batch
    rows: Codes
    """Where in the batch that came each element stood."""
    claims: ClaimChanges
    notes: Notes


def rewrite_late(
    batch: Batch, promise: Times, policy: str, claims: Claims, *, adjustable: bool
) -> Rewritten:
    """What is left of a batch.

    A late row that ended before the promise, or of a source that never adjusts, needs no claim:
    nobody will speak of it.
    """
    if batch.is_adjust is not None:
        return _rewrite_one_by_one(batch, promise, policy, claims)
    late = batch.start < promise
    moved = late & (batch.end > promise) & (policy == "adjust")
    changes = ClaimChanges(batch.payload, Hits(batch.schema, np.empty(0, np.int64), []))
    for at in np.flatnonzero(late & (batch.end >= promise) & adjustable).tolist():
        real = (int(promise[at]), int(batch.end[at])) if moved[at] else None
        changes.add(at, int(batch.start[at]), int(batch.end[at]), real)
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
    return Rewritten(kept.filter(keep), np.flatnonzero(keep), changes, notes)


def _rewrite_one_by_one(batch: Batch, promise: Times, policy: str, known: Claims) -> Rewritten:
    assert batch.is_adjust is not None and batch.new_end is not None
    claims = _Open(ClaimChanges(batch.payload, known.on(batch)))
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
            claims.add(at, (row, begin, end), (limit, end) if remains else None)
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
                claims.add(at, (row, begin, wanted), None)
            return
        start[at] = real[0]
        if real[1] <= real[0] and wanted >= limit:
            # Nothing was left of the row behind the promise; now something is, or still is not.
            is_adjust[at], ends_now[at], keep[at] = False, wanted, wanted > real[0]
            claims.add(at, (row, begin, wanted), (real[0], wanted))
        elif wanted >= limit:
            if real[0] != begin:
                claims.add(at, (row, begin, wanted), (real[0], wanted))
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
    return Rewritten(rewritten.filter(keep), np.flatnonzero(keep), claims.close(), notes)

"""Clock quarantine: rows whose clock cannot be right wait outside, so that one clock does not spoil
the promises of all.

    reference after a row = the q-th largest of the newest times that different keys have shown so
                            far (or the clock)
    a row at t waits while t > reference + ahead, and comes in just before the row that brings the
    reference near a row at t < reference - behind is set aside

So a key whose clock runs far ahead moves nothing as long as fewer than q keys run ahead with it;
when everybody jumps (after a silence) the second one vouches for the first. What comes in, and in
which order, depends on the order of arrival alone, not on batches, as long as no more rows wait
than `hold`: rows are counted when a batch ends. A promise in the data, or of a timer, vouches for
the time it names.

State: the q largest times with their keys, the rows that wait (at most `hold`; beyond that the
farthest are set aside), and one case for each key that is in quarantine. At the end of the stream,
rows that still wait are set aside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.packed_values import pack_values, unpack_values
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.progress.policies import Quarantine

__all__ = ["Case", "Gated", "QuarantineGate", "running_reference"]

Levels = tuple[tuple[int, Any], ...]
"""The largest times that different keys have shown, each with its key; the largest first."""
_NOBODY = -1
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Case:
    """A key in quarantine: why, since when (by the clock), how many of its rows wait or were set
    aside, the time it claims."""

    key: Any
    reason: str
    since: int | None
    rows: int
    claims: int


@dataclass(frozen=True, slots=True)
class Gated:
    """What the gate made of a batch: rows that come in, in their new order; rows that are set
    aside, each with the reference."""

    batch: Batch
    aside: Batch
    reference: Times
    gate: QuarantineGate


def running_reference(
    sync: Times, code: Codes, levels: Sequence[tuple[int, int]]
) -> tuple[Times, list[tuple[int, int]]]:
    """The q-th largest of the newest times of different keys after each row; q is the number of
    levels.

    Level by level: each holds the largest time that reaches it and passes on what it does not hold,
    or no longer holds. A key that rises leaves its old place.

    >>> times, keys = np.array([5, 99, 6, 7]), np.array([0, 1, 0, 2])
    >>> reference, _ = running_reference(times, keys, [(MIN_TIME, -1)] * 2)
    >>> [int(t) if t > MIN_TIME else None for t in reference]
    [None, 5, 6, 7]
    """
    value, key = sync, code
    present: Bools = np.ones(len(sync), np.bool_)
    after: list[tuple[int, int]] = []
    running = sync
    for level, owner in levels:
        running = np.maximum.accumulate(
            np.concatenate([[level], np.where(present, value, MIN_TIME)])
        )
        before, running = running[:-1], running[1:]
        record = present & (value >= before)
        last = np.maximum.accumulate(np.where(record, np.arange(len(sync)), -1))
        owners = np.where(last >= 0, key[np.maximum(last, 0)], owner)
        previous = np.concatenate([[owner], owners[:-1]])
        displaced = record & (key != previous) & (before > MIN_TIME)
        passed = present & ~record & (key != previous)
        after.append(
            (int(running[-1]) if len(running) else level, int(owners[-1]) if len(owners) else owner)
        )
        value, key = np.where(displaced, before, value), np.where(displaced, previous, key)
        present = (displaced & (previous != code)) | passed
    return running, after


def _no_levels() -> Levels:
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class QuarantineGate:
    policy: Quarantine
    schema: pa.Schema
    levels: Levels = field(default_factory=_no_levels)
    vouched: int = MIN_TIME
    """What promises in the data have vouched for."""
    waiting: Batch | None = None
    cases: Mapping[Any, Case] = field(default_factory=dict)
    aside: int = 0
    """How many rows were set aside so far."""
    recovered: int = 0
    """How many keys came back."""

    def __len__(self) -> int:
        return 0 if self.waiting is None else len(self.waiting)

    @property
    def reference(self) -> int:
        quorum_time = (
            self.levels[self.policy.quorum - 1][0]
            if len(self.levels) == self.policy.quorum
            else MIN_TIME
        )
        return max(quorum_time, self.vouched)

    def gate(self, batch: Batch, promise: int, now: int | None) -> Gated:
        """Let rows through, in turn. `promise` is the promise that follows the batch."""
        if self.policy.key is None and now is None:
            return Gated(
                batch, Batch.empty(self.schema), np.empty(0, np.int64), self
            )  # without a clock no row is judged
        held = self.waiting if self.waiting is not None else Batch.empty(self.schema)
        rows = (
            Batch.concat([held, batch.with_progress(held.progress)], self.schema)
            if len(held)
            else batch
        )
        keys, code = self._keys(rows)
        references, levels = self._references(batch, code[len(held) :], keys, now)
        vouched = self.vouched if promise == INFINITY else max(self.vouched, promise)
        last = max(int(references[-1]) if len(references) else self._now(now), vouched)
        turn = np.concatenate([np.full(len(held), -1), np.arange(len(batch))])
        release = np.maximum(
            np.searchsorted(references, rows.start - self.policy.ahead, side="left"), turn
        )
        stays = (release >= len(batch)) & (rows.start - self.policy.ahead > last)
        at = np.minimum(release, len(batch))
        reference = np.append(references, last)[at]
        behind = (
            np.zeros(len(rows), np.bool_)
            if self.policy.behind is None
            else (release == turn) & (rows.start < reference - self.policy.behind)
        )
        too_many = self._overflow(rows, stays, ended=promise == INFINITY)
        out = behind | too_many
        order = np.argsort(release * 2 + (release == turn), kind="stable")
        passes = order[~(stays | out)[order]]
        waits = np.flatnonzero(stays & ~out)
        kept = rows.take(waits) if len(waits) else None
        gate = replace(
            self,
            levels=levels,
            vouched=vouched,
            waiting=kept,
            aside=self.aside + int(out.sum()),
        )._with_cases(self, rows, keys, code, (stays, behind, turn >= 0), now)
        admitted = (
            batch
            if not len(held) and len(passes) == len(batch) and (passes == turn).all()
            else rows.take(passes)
        )
        aside = np.flatnonzero(out)
        return Gated(
            admitted.with_progress(batch.progress), rows.take(aside), reference[aside], gate
        )

    def _now(self, now: int | None) -> int:
        if self.policy.key is None:
            return MIN_TIME if now is None else now
        return self.reference

    def _keys(self, rows: Batch) -> tuple[list[Any], Codes]:
        if self.policy.key is None or not len(rows):
            return [None], np.zeros(len(rows), np.int64)
        coded = rows.payload.column(self.policy.key).dictionary_encode(null_encoding="encode")
        return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False).astype(
            np.int64
        )

    def _references(
        self, batch: Batch, code: Codes, keys: list[Any], now: int | None
    ) -> tuple[Times, Levels]:
        if self.policy.key is None:
            return np.full(len(batch), max(self._now(now), self.vouched)), ()
        held = [*self.levels, *([(MIN_TIME, _ABSENT)] * (self.policy.quorum - len(self.levels)))]
        numbers = {key: number for number, key in enumerate(keys)}
        # Keys that this batch does not have get numbers that no row has, each its own.
        coded = [
            (time, numbers.get(key, _NOBODY - 1 - level) if key is not _ABSENT else _NOBODY)
            for level, (time, key) in enumerate(held)
        ]
        names = {number: key for (_, number), (_, key) in zip(coded, held, strict=True)} | dict(
            enumerate(keys)
        )
        reference, after = running_reference(batch.start, code, coded)
        levels = tuple((time, names[number]) for time, number in after if time > MIN_TIME)
        return np.maximum(reference, self.vouched), levels

    def _overflow(self, rows: Batch, stays: Bools, *, ended: bool) -> Bools:
        """Rows that may not wait: all at the end, else the farthest of those that are too many."""
        if ended:
            return stays
        waiting = np.flatnonzero(stays)
        excess = len(waiting) - self.policy.hold
        excluded = np.zeros(len(stays), np.bool_)
        if excess > 0:
            excluded[waiting[np.argsort(rows.start[waiting], kind="stable")[-excess:]]] = True
        return excluded

    def _with_cases(
        self,
        before: QuarantineGate,
        rows: Batch,
        keys: list[Any],
        code: Codes,
        what: tuple[Bools, Bools, Bools],
        now: int | None,
    ) -> QuarantineGate:
        stays, behind, new = what
        bad = stays | behind
        if not bad.any() and not before.cases:
            return self
        wrong = np.bincount(code[bad & new], minlength=len(keys))
        waits = np.bincount(code[stays], minlength=len(keys))
        latest = np.full(len(keys), -1)
        latest[code] = np.arange(len(rows))
        cases = dict(before.cases)
        recovered = self.recovered
        for number in np.flatnonzero(
            (wrong > 0)
            | np.isin(np.arange(len(keys)), [i for i, key in enumerate(keys) if key in cases])
        ).tolist():
            key, row = keys[number], int(latest[number])
            case = cases.get(key)
            if row >= 0 and (bad[row] or waits[number]):
                reason = "ahead" if waits[number] else "behind"
                since = case.since if case is not None else now
                cases[key] = Case(
                    key,
                    reason,
                    since,
                    (case.rows if case else 0) + int(wrong[number]),
                    int(rows.start[row]),
                )
            elif case is not None and row >= 0:
                del cases[key]
                recovered += 1
        return replace(self, cases=cases, recovered=recovered)

    def to_rows(self) -> Rows:
        """The gate as one record batch: notes, and the rows that wait as bytes."""
        held = Batch.empty(self.schema) if self.waiting is None else self.waiting
        keys = pack_values([key for _, key in self.levels])
        cases = list(self.cases.values())
        packed_cases = [
            pack_values([case.key for case in cases]),
            [[case.reason, case.since, case.rows, case.claims] for case in cases],
        ]
        notes = json.dumps(
            [
                [time for time, _ in self.levels],
                keys,
                self.vouched,
                packed_cases,
                self.aside,
                self.recovered,
            ]
        )
        sink = pa.BufferOutputStream()
        table = held.to_table()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        blob = sink.getvalue().to_pybytes()
        return pa.RecordBatch.from_arrays(
            [pa.array([notes], pa.string()), pa.array([blob], pa.binary())],
            names=["notes", "waiting"],
        )

    def from_rows(self, rows: Rows) -> QuarantineGate:
        """The inverse of `to_rows`."""
        times, keys, vouched, (names, entries), aside, recovered = json.loads(
            rows.column("notes")[0].as_py()
        )
        held = Batch.from_table(pa.ipc.open_stream(rows.column("waiting")[0].as_py()).read_all())
        levels = tuple(zip(times, unpack_values(keys), strict=True))
        cases = {
            key: Case(key, *entry) for key, entry in zip(unpack_values(names), entries, strict=True)
        }
        return QuarantineGate(
            self.policy,
            self.schema,
            levels,
            vouched,
            held if len(held) else None,
            cases,
            aside,
            recovered,
        )

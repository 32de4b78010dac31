"""Ingress: where a stream enters. Checks every element, deals with late ones, and turns observation into promises.

A batch is checked whole before any of it is applied: a refused batch leaves no trace. Checks: columns as declared; times
in range; lifetimes that end after they start; adjusts of rows that are there; CTIs that do not go back.

An element is late when its sync time lies before the promise made so far. The promise before an element is the largest of

    the latest CTI in the data
    the largest sync time before it minus `disorder`                       (of its partition, if the source has one)
    with low_watermark (period, lag): (largest sync time of all - lag), rounded down to the period

Policies: `error` refuses the batch; `drop` and `side` leave the element out; `adjust` moves it to the promise, or leaves
it out when nothing of it remains. Every late element is written to the ledger with what became of it. A later adjust
that speaks of a row that was moved is applied to the row as it is; of a row that was left out, it is left out too.

State: rows that may still be adjusted (none for a source declared insert-only), rows that are not as their source
believes, and the newest time per partition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import (
    LateEventError,
    LifetimeError,
    MalformedElementError,
    ProgressError,
    SchemaChangeError,
    TimeRangeError,
    UnknownRowError,
)
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, encode
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times
from thalweg.operators.base import Operator, Slices, StateSize, delta_of_slice, progress_of_slice, slice_of_delta, slice_of_progress
from thalweg.operators.claims import Claims, rewrite_late
from thalweg.plan.nodes import Source

__all__ = ["IngressKernel", "LateLedger"]


@dataclass(slots=True)
class LateLedger:
    """Late elements: how many, and each with the promise it broke and what became of it."""

    count: int = 0
    tables: list[pa.Table] = field(default_factory=list)

    def note(self, batch: Batch, promise: Times, action: list[str]) -> None:
        if len(batch):
            self.count += len(batch)
            table = batch.to_table().append_column("_promise", pa.array(promise)).append_column("_action", pa.array(action, pa.string()))
            self.tables.append(table)

    def take(self, schema: pa.Schema) -> pa.Table:
        """All entries since the last call; they are handed over, not copied."""
        tables, self.tables = self.tables, []
        empty = (
            Batch.empty(schema)
            .to_table()
            .append_column("_promise", pa.array([], pa.int64()))
            .append_column("_action", pa.array([], pa.string()))
        )
        return pa.concat_tables([empty, *tables])


class IngressKernel(Operator):
    """
    >>> import thalweg as tw
    >>> events = tw.source("s", {"v": "int64"}, late="drop", disorder=5)
    >>> tw.table(events, {"s": [tw.point({"v": 1}, 10), tw.point({"v": 2}, 4), tw.point({"v": 3}, 5)]})
    [(5, 6, {'v': 3}), (10, 11, {'v': 1})]
    """

    def __init__(self, node: Source) -> None:
        self.schema = node.schema
        self.ledger = LateLedger()
        self._name, self._policy = node.name, node.ingress
        self._tracks = not node.declared.insert_only
        self._live = Delta.empty(node.schema)
        self._claims = Claims(node.schema)
        self._progress = NO_PROGRESS
        self._newest: dict[Any, int] = {}
        self._batches = 0

    # -------------------------------------------------------------------------------------------------------- flow

    def process(self, port: int, batch: Batch) -> Batch:
        if self._policy.trusted:
            self._progress = self._progress.merge(batch.progress)
            return batch.with_progress(self._progress)
        self._check(batch)
        promise = self._promises(batch)
        late = batch.sync < promise
        rewritten, claims = batch, None
        notes: tuple[Batch, Times, list[str]] | None = None
        if late.any() or (batch.is_adjust is not None and len(self._claims)):
            if late.any() and self._policy.late == "error":
                self._refuse_late(batch, promise, int(np.argmax(late)))
            rewritten, claims, notes = rewrite_late(batch, promise, self._policy.late, self._claims, adjustable=self._tracks)
        live = self._track(rewritten)
        # Nothing was changed until here; from here on nothing can fail.
        if live is not None:
            self._live = live
        if claims is not None:
            self._claims = claims
        if notes is not None:
            self.ledger.note(*notes)
        self._batches += 1
        self._see(batch)
        self._progress = self._progress.merge(self._promise_now(batch.progress))
        if len(self._live):
            self._live = self._live.filter((self._live.end >= self._progress.cti) & (self._progress.cti != INFINITY))
        if len(self._claims):
            self._claims.forget(self._progress.cti)
        return rewritten.with_progress(self._progress)

    def _refuse_late(self, batch: Batch, promise: Times, at: int) -> None:
        raise LateEventError(
            f"{self._place(at)}: {_row(batch, at)} changes time {batch.sync[at]}, before the promise {promise[at]} of its source. "
            "Give the source more disorder=, or a policy late='drop', 'adjust' or 'side'."
        )

    def _track(self, batch: Batch) -> Delta | None:
        """The rows that may still be adjusted, after this batch."""
        if not self._tracks:
            if not batch.insert_only:
                raise MalformedElementError(f"{self._place(0)}: an adjust, but the source is declared insert_only.")
            return None
        if not len(batch):
            return None
        live = Delta.concat([self._live, Delta.of_batch(batch)], self.schema)
        if batch.insert_only:
            return live
        live = live.consolidate()
        bad = np.flatnonzero(live.weight < 0)
        if len(bad):
            at = int(bad[0])
            row = live.payload.slice(at, 1).to_pylist()[0]
            raise UnknownRowError(
                f"{self._place(None)}: adjust of a row that is not there: {row} over [{live.start[at]}, {_shown(int(live.end[at]))}). "
                "Insert the row first, and give the end it has now."
            )
        return live

    # ------------------------------------------------------------------------------------------------------ checks

    def _place(self, at: int | None) -> str:
        return f"source {self._name!r}, batch {self._batches}" + ("" if at is None else f", row {at}")

    def _check(self, batch: Batch) -> None:
        if batch.schema != self.schema and not batch.schema.equals(self.schema, check_metadata=False):
            raise SchemaChangeError(
                f"{self._place(None)}: the columns are {_columns(batch.schema)}, but the source declared {_columns(self.schema)}. "
                "Nothing of the batch was applied."
            )
        if batch.progress.cti != MIN_TIME and batch.progress.cti < self._progress.cti and self._policy.disorder is None:
            raise ProgressError(f"{self._place(None)}: the CTI {batch.progress.cti} goes back behind {self._progress.cti}.")
        if not len(batch):
            return
        self._check_range(batch.start, "start", infinite=False)
        self._check_range(batch.end, "end", infinite=True)
        _first(
            batch.end <= batch.start,
            lambda at: LifetimeError(
                f"{self._place(at)}: {_row(batch, at)} ends at {batch.end[at]}, not after its start {batch.start[at]}."
                " A point event lasts one tick."
            ),
        )
        if batch.is_adjust is not None and batch.new_end is not None:
            new_end = np.where(batch.is_adjust, batch.new_end, batch.end)
            self._check_range(new_end, "new end", infinite=True)
            _first(
                new_end < batch.start,
                lambda at: LifetimeError(
                    f"{self._place(at)}: {_row(batch, at)} would end at {new_end[at]}, before its start {batch.start[at]}."
                ),
            )

    def _check_range(self, times: Times, what: str, *, infinite: bool) -> None:
        fine = (times > MIN_TIME) & (times < MAX_TIME)
        if infinite:
            fine |= times == INFINITY
        _first(~fine, lambda at: TimeRangeError(f"{self._place(at)}: the {what} {times[at]} is outside the range of the clock."))

    # ---------------------------------------------------------------------------------------------------- promises

    def _promises(self, batch: Batch) -> Times:
        """The promise that holds just before each element."""
        size = len(batch)
        promise = np.full(size, self._progress.cti)
        if not size or (self._policy.disorder is None and not self._progress.scoped):
            return promise
        sync = batch.sync
        if self._policy.partition is None:
            if self._policy.disorder is not None:
                newest = _running_before(sync, self._newest.get(None, MIN_TIME))
                promise = np.maximum(promise, _minus(newest, self._policy.disorder))
            return promise
        _partition, values, code = self._partitions(batch)
        scoped = np.array([self._progress.of((value,)) for value in values], np.int64)
        promise = np.asarray(np.maximum(promise, scoped[code]), np.int64)
        if self._policy.disorder is not None:
            before = np.array([self._newest.get(value, MIN_TIME) for value in values], np.int64)
            promise = np.maximum(promise, _minus(_running_before_by(sync, code, before), self._policy.disorder))
        if self._policy.low_watermark is not None:
            period, lag = self._policy.low_watermark
            newest = _running_before(sync, max(self._newest.values(), default=MIN_TIME))
            low = np.where(newest == MIN_TIME, MIN_TIME, (_minus(newest, lag)) // period * period)
            promise = np.maximum(promise, low)
        return promise

    def _partitions(self, batch: Batch) -> tuple[pa.Array, list[Any], Codes]:
        column = batch.payload.column(self._policy.partition)
        code, size = encode([column], len(batch))
        someone = np.empty(size, np.int64)
        someone[code] = np.arange(len(batch))
        return column, column.take(pa.array(someone)).to_pylist(), code

    def _see(self, batch: Batch) -> None:
        if not len(batch) or self._policy.disorder is None:
            return
        if self._policy.partition is None:
            self._newest[None] = max(self._newest.get(None, MIN_TIME), int(batch.sync.max()))
            return
        _, values, code = self._partitions(batch)
        newest = np.full(len(values), MIN_TIME)
        np.maximum.at(newest, code, batch.sync)
        for value, time in zip(values, newest.tolist(), strict=True):
            self._newest[value] = max(self._newest.get(value, MIN_TIME), time)

    def _promise_now(self, given: Progress) -> Progress:
        """The promise after the batch: what the data says, and what the policy makes of what was seen."""
        policy = self._policy
        if policy.disorder is None or not self._newest:
            return given
        if policy.partition is None:
            seen = max(self._newest[None] - policy.disorder, MIN_TIME)
            if given.cti != MIN_TIME:  # a CTI in the data asks for all the promise there is
                return given.merge(Progress(max(given.cti, seen)))
            return given.merge(Progress(_rounded(seen, policy.period)))
        scoped = {}
        for value, newest in self._newest.items():
            time = _rounded(newest - policy.disorder, policy.period)
            if time > self._progress.of((value,)):
                scoped[(value,)] = time
        made = Progress(MIN_TIME, (policy.partition,), scoped) if scoped else NO_PROGRESS
        if policy.low_watermark is not None:
            period, lag = policy.low_watermark
            made = made.merge(Progress(_rounded(max(self._newest.values()) - lag, period)))
        return given.merge(made)

    # ------------------------------------------------------------------------------------------------------- state

    def snapshot(self) -> Slices:
        notes = json.dumps([list(self._newest.items()), self._batches, self.ledger.count])
        return {
            "live": slice_of_delta(self._live),
            "claims": self._claims.to_rows(),
            "progress": slice_of_progress([self._progress]),
            "notes": pa.RecordBatch.from_arrays([pa.array([notes])], names=["notes"]),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._live = delta_of_slice(slices["live"])
        self._claims = Claims.from_rows(slices["claims"], self.schema)
        self._progress = progress_of_slice(slices["progress"])[0]
        newest, self._batches, self.ledger.count = json.loads(slices["notes"].column(0)[0].as_py())
        self._newest = dict(newest)

    def state_size(self) -> StateSize:
        return StateSize(len(self._live) + len(self._claims), self._live.nbytes)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in schema)


def _row(batch: Batch, at: int) -> str:
    return str(batch.payload.slice(at, 1).to_pylist()[0])


def _shown(time: int) -> str:
    return "infinity" if time == INFINITY else str(time)


def _first(bad: Bools, error: Any) -> None:
    if bad.any():
        raise error(int(np.argmax(bad)))


def _minus(times: Times, ticks: int) -> Times:
    return np.where(times == MIN_TIME, MIN_TIME, times - ticks)


def _rounded(time: int, period: int | None) -> int:
    return time if period is None or time <= MIN_TIME else time // period * period


def _running_before(sync: Times, before: int) -> Times:
    """The largest of `before` and all earlier elements."""
    running = np.empty(len(sync), np.int64)
    running[0] = before
    np.maximum.accumulate(sync[:-1], out=running[1:])
    np.maximum(running, before, out=running)
    return running


def _running_before_by(sync: Times, code: Codes, before: Times) -> Times:
    """The same within each partition: by sorting the elements of a partition together, in order of arrival."""
    order = np.argsort(code, kind="stable")
    times, codes = sync[order], code[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    # A running maximum over all partitions at once: lift each partition above the one before it by rank.
    ranks = np.unique(np.concatenate([times, before]), return_inverse=True)
    values, rank = ranks[0], ranks[1]
    lifted = codes * len(values) + rank[: len(times)]
    base = codes * len(values) + rank[len(times) :][codes]
    previous = np.empty(len(order), np.int64)
    previous[0] = base[0]
    previous[1:] = np.where(first[1:], base[1:], lifted[:-1])
    running = np.maximum.accumulate(np.maximum(previous, base))
    result = np.empty(len(order), np.int64)
    result[order] = values[running - codes * len(values)]
    return result

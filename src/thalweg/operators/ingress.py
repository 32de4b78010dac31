"""Ingress: where a stream enters. Checks every element, deals with late ones, and turns observation into promises.

A batch is checked whole before any of it is applied: a refused batch leaves no trace, and `admit` takes several batches or
none. Checks: columns as declared; times in range; lifetimes that end after they start; adjusts of rows that are there when
their turn comes; CTIs that do not go back, for all rows or for a group.

An element is late when its sync time lies before the promise made so far. The promise before an element is the largest of

    the latest CTI in the data, for all rows or for its group
    the largest sync time before it minus `disorder`                       (of its partition, if the source has one)
    with low_watermark (period, lag): (largest sync time of all - lag), rounded down to the period

Policies: `error` refuses the batch; `drop` and `side` leave the element out; `adjust` moves it to the promise, or leaves
it out when nothing of it remains. Every late element is written to the ledger with what became of it. A later adjust
that speaks of a row that was moved is applied to the row as it is; of a row that was left out, it is left out too.

State: rows that may still be adjusted (none for a source declared insert-only), rows that are not as their source
believes, the newest time per partition, and the entries of the ledger that nobody has taken yet. All of it but the
newest times and the ledger is made of values that are replaced, never changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import (
    InputError,
    LateEventError,
    LifetimeError,
    MalformedElementError,
    ProgressError,
    SchemaChangeError,
    TimeRangeError,
    UnknownRowError,
    did_you_mean,
)
from thalweg.model.batch import Batch, column_of
from thalweg.model.delta import Delta, Weights
from thalweg.model.progress import NO_PROGRESS, Progress, Scope, pack_values, progress_of_text, progress_text, unpack_values
from thalweg.model.rows import Bools, Codes, Rows, encode
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times
from thalweg.operators.base import Operator, Slices, StateSize, delta_of_slice, slice_of_delta
from thalweg.operators.claims import Claims, Rewritten, rewrite_late
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
        entries, self.tables = self.entries(schema), []
        return entries

    def entries(self, schema: pa.Schema) -> pa.Table:
        empty = (
            Batch.empty(schema)
            .to_table()
            .append_column("_promise", pa.array([], pa.int64()))
            .append_column("_action", pa.array([], pa.string()))
        )
        return pa.concat_tables([empty, *self.tables])


Groups = tuple[list[Scope], Codes]
"""The groups that a batch speaks of, and which of them each row is in."""


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

    def admit(self, batches: Sequence[Batch]) -> list[Batch]:
        """What `process` makes of each of these batches; when one of them is refused, all are."""
        if len(batches) == 1:
            return [self.process(0, batches[0])]
        before = self._live, self._claims, self._progress, self._batches, self.ledger.count
        newest, noted = dict(self._newest), len(self.ledger.tables)
        try:
            return [self.process(0, batch) for batch in batches]
        except InputError:
            self._live, self._claims, self._progress, self._batches, self.ledger.count = before
            self._newest = newest
            del self.ledger.tables[noted:]
            raise

    def process(self, port: int, batch: Batch) -> Batch:
        if self._policy.trusted:
            self._progress = self._progress.merge(batch.progress)
            return batch.with_progress(self._progress)
        batch = self._checked(batch)
        given = self._given(batch.progress)
        parts = self._parts(batch)
        promise = self._promises(batch, parts)
        late = batch.sync < promise
        rewritten: Rewritten | None = None
        if late.any() or (batch.is_adjust is not None and len(self._claims)):
            if late.any() and self._policy.late == "error":
                self._refuse_late(batch, promise, int(np.argmax(late)))
            rewritten = rewrite_late(batch, promise, self._policy.late, self._claims, adjustable=self._tracks)
        admitted = batch if rewritten is None else rewritten.batch
        live = self._track(admitted, None if rewritten is None else rewritten.rows)
        # Nothing was changed until here; from here on nothing can fail.
        if live is not None:
            self._live = live
        if rewritten is not None:
            self._claims = rewritten.claims
            self.ledger.note(*rewritten.notes)
        self._batches += 1
        self._see(batch, parts)
        self._progress = self._progress.merge(self._promise_now(given, parts))
        if len(self._live):
            self._live = self._live.filter((self._live.end >= self._progress.cti) & (self._progress.cti != INFINITY))
        if len(self._claims):
            self._claims = self._claims.still_open(self._progress.cti)
        return admitted.with_progress(self._progress)

    def _refuse_late(self, batch: Batch, promise: Times, at: int) -> None:
        raise LateEventError(
            f"{self._place(at)}: {_row(batch, at)} changes time {batch.sync[at]}, before the promise {promise[at]} of its source. "
            "Give the source more disorder=, or a policy late='drop', 'adjust' or 'side'."
        )

    def _track(self, batch: Batch, rows: Codes | None) -> Delta | None:
        """The rows that may still be adjusted, after this batch. `rows` says where its elements stood when it came."""
        if not self._tracks or not len(batch):
            return None
        live = Delta.concat([self._live, Delta.of_batch(batch)], self.schema)
        if batch.is_adjust is None or batch.new_end is None:
            return live
        code, size = encode([*live.payload.columns, live.start, live.end], len(live))
        # The changes of a batch stand behind the rows there were: what adjusts take, then what arrives. An adjust takes first.
        takes, gives = np.flatnonzero(batch.is_adjust), np.flatnonzero(~batch.is_adjust | (batch.new_end > batch.start))
        turn = np.concatenate([np.full(len(self._live), -1), takes * 2, gives * 2 + 1])
        begin = len(self._live)
        missing = _first_missing(code, live.weight, turn, code[begin : begin + len(takes)], size)
        if missing is not None:
            at = missing // 2
            raise UnknownRowError(
                f"{self._place(at if rows is None else int(rows[at]))}: adjust of a row that is not there: {_row(batch, at)} over "
                f"[{batch.start[at]}, {_shown(int(batch.end[at]))}). Insert the row first, and give the end it has now."
            )
        total = np.zeros(size, np.int64)
        np.add.at(total, code, live.weight)
        someone = np.empty(size, np.int64)
        someone[code[::-1]] = np.arange(len(live) - 1, -1, -1)
        keep = np.sort(someone[total > 0])
        kept = live.take(keep)
        return Delta(kept.payload, kept.start, kept.end, total[code[keep]])

    # ------------------------------------------------------------------------------------------------------ checks

    def _place(self, at: int | None) -> str:
        return f"source {self._name!r}, batch {self._batches}" + ("" if at is None else f", row {at}")

    def _checked(self, batch: Batch) -> Batch:
        """The batch, if everything about its elements is as it should be; its times as int64."""
        if batch.schema != self.schema and not batch.schema.equals(self.schema, check_metadata=False):
            raise SchemaChangeError(
                f"{self._place(None)}: the columns are {_columns(batch.schema)}, but the source declared {_columns(self.schema)}. "
                "Nothing of the batch was applied."
            )
        batch = self._shaped(batch)
        if not len(batch):
            return batch
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
            self._check_adjusts(batch, np.where(batch.is_adjust, batch.new_end, batch.end))
        return batch

    def _check_adjusts(self, batch: Batch, new_end: Times) -> None:
        assert batch.is_adjust is not None
        if not self._tracks:
            at = int(np.argmax(batch.is_adjust))
            raise MalformedElementError(f"{self._place(at)}: an adjust, but the source is declared insert_only.")
        self._check_range(new_end, "new end", infinite=True)
        _first(
            new_end < batch.start,
            lambda at: LifetimeError(
                f"{self._place(at)}: {_row(batch, at)} would end at {new_end[at]}, before its start {batch.start[at]}."
            ),
        )

    def _shaped(self, batch: Batch) -> Batch:
        """One start and one end for each row of payload, as int64; `is_adjust` only where something is adjusted."""
        rows = batch.payload.num_rows
        controls: dict[str, Any] = {"start": batch.start, "end": batch.end}
        if batch.is_adjust is not None:
            controls |= {"new end": batch.new_end, "kind": batch.is_adjust}
        for what, values in controls.items():
            if not isinstance(values, np.ndarray) or values.shape != (rows,) or (what == "kind" and values.dtype != np.bool_):
                shape = "none" if values is None else f"{np.size(values)} ({np.asarray(values).dtype})"
                raise MalformedElementError(f"{self._place(None)}: {rows} rows of payload need {rows} values of {what}; got {shape}.")
        if batch.is_adjust is not None and not batch.is_adjust.any():
            batch = Batch(batch.payload, batch.start, batch.end, progress=batch.progress)
        if batch.start.dtype == batch.end.dtype == np.int64 and (batch.new_end is None or batch.new_end.dtype == np.int64):
            return batch
        start, end = self._ticks(batch.start, "start"), self._ticks(batch.end, "end")
        new_end = None if batch.new_end is None else self._ticks(batch.new_end, "new end")
        return Batch(batch.payload, start, end, new_end, batch.is_adjust, batch.progress)

    def _ticks(self, times: Times, what: str) -> Times:
        if not np.issubdtype(times.dtype, np.integer):
            raise TimeRangeError(f"{self._place(None)}: the {what} must be whole ticks (int64); it is {times.dtype}.")
        if times.dtype == np.uint64:
            _first(
                times > INFINITY,
                lambda at: TimeRangeError(f"{self._place(at)}: the {what} {times[at]} is outside the range of the clock."),
            )
        return times.astype(np.int64, copy=False)

    def _check_range(self, times: Times, what: str, *, infinite: bool) -> None:
        fine = (times > MIN_TIME) & (times < MAX_TIME)
        if infinite:
            fine |= times == INFINITY
        _first(~fine, lambda at: TimeRangeError(f"{self._place(at)}: the {what} {times[at]} is outside the range of the clock."))

    # ------------------------------------------------------------------------------------------------ CTIs that came

    def _given(self, given: Progress) -> Progress:
        """The promises that came with a batch, if they can be kept: times of the clock that do not go back, columns that exist."""
        if given is NO_PROGRESS:
            return given
        cti = self._promised(given.cti, self._progress.cti, "the CTI")
        if not given.scoped:
            return given if type(given.cti) is int else Progress(cti)
        columns, scopes = self._scopes(given)
        scoped = {
            scope: self._promised(time, self._progress.of(scope), f"the CTI of {dict(zip(columns, scope, strict=True))}")
            for scope, time in zip(scopes, given.scoped.values(), strict=True)
        }
        return Progress(cti, columns, scoped)

    def _promised(self, time: Any, known: int, what: str) -> int:
        if not isinstance(time, (int, np.integer)):
            raise TimeRangeError(f"{self._place(None)}: {what} is {time!r}; a time is a whole number of ticks.")
        ticks = int(time)
        if not (MIN_TIME <= ticks < MAX_TIME or ticks == INFINITY):
            raise TimeRangeError(f"{self._place(None)}: {what} is {ticks}, outside the range of the clock.")
        if MIN_TIME != ticks < known and self._policy.disorder is None:
            raise ProgressError(f"{self._place(None)}: {what} is {ticks}, which goes back behind {_shown(known)}.")
        return ticks

    def _scopes(self, given: Progress) -> tuple[tuple[str, ...], list[Scope]]:
        """The columns that promises for groups speak of, and the groups, in values as the columns have them."""
        columns = given.scope_columns
        for name in columns:
            if name not in self.schema.names:
                raise SchemaChangeError(
                    f"{self._place(None)}: a CTI for the column {name!r}, which the source does not have"
                    f"{did_you_mean(str(name), self.schema.names)} Columns here: {', '.join(self.schema.names)}."
                )
        if self._policy.partition is not None:
            known: tuple[str, ...] = (self._policy.partition,)
        else:
            known = self._progress.scope_columns if self._progress.scoped else columns
        if not columns or columns != known or any(len(scope) != len(columns) for scope in given.scoped):
            raise MalformedElementError(
                f"{self._place(None)}: CTIs for groups must all be over the same columns, here {', '.join(known) or 'one at least'}; "
                f"got {', '.join(columns) or 'none'} with {list(given.scoped)[:3]}."
            )
        values = []
        for name, column in zip(columns, zip(*given.scoped, strict=True), strict=True):
            kind = self.schema.field(name).type
            try:
                values.append(_keys(column_of(column, kind)))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
                raise SchemaChangeError(
                    f"{self._place(None)}: a CTI for {list(column)[:3]} of the column {name!r}, which is {kind}: {reason}."
                ) from reason
        return columns, list(zip(*values, strict=True))

    # ---------------------------------------------------------------------------------------------------- promises

    def _parts(self, batch: Batch) -> Groups | None:
        """The partitions of a batch, where they have clocks of their own."""
        if self._policy.partition is None or self._policy.disorder is None or not len(batch):
            return None
        return _groups(batch, (self._policy.partition,))

    def _promises(self, batch: Batch, parts: Groups | None) -> Times:
        """The promise that holds just before each element."""
        size, known, policy = len(batch), self._progress, self._policy
        promise: Times = np.full(size, known.cti)
        if not size:
            return promise
        if known.scoped:
            groups, code = parts if parts is not None else _groups(batch, known.scope_columns)
            promise = np.array([known.of(group) for group in groups], np.int64)[code]
        if policy.disorder is None:
            return promise
        sync = _observed(batch)
        if parts is None:
            newest = _running_before(sync, self._newest.get(None, MIN_TIME))
            return np.asarray(np.maximum(promise, _minus(newest, policy.disorder)), np.int64)
        groups, code = parts
        before = np.array([self._newest.get(value, MIN_TIME) for (value,) in groups], np.int64)
        promise = np.maximum(promise, _minus(_running_before_by(sync, code, before), policy.disorder))
        if policy.low_watermark is not None:
            period, lag = policy.low_watermark
            newest = _running_before(sync, max(self._newest.values(), default=MIN_TIME))
            low = np.where(newest == MIN_TIME, MIN_TIME, (_minus(newest, lag)) // period * period)
            promise = np.maximum(promise, low)
        return promise

    def _see(self, batch: Batch, parts: Groups | None) -> None:
        if not len(batch) or self._policy.disorder is None:
            return
        sync = _observed(batch)
        if parts is None:
            self._newest[None] = max(self._newest.get(None, MIN_TIME), int(sync.max()))
            return
        groups, code = parts
        newest = np.full(len(groups), MIN_TIME)
        np.maximum.at(newest, code, sync)
        for (value,), time in zip(groups, newest.tolist(), strict=True):
            self._newest[value] = max(self._newest.get(value, MIN_TIME), time)

    def _promise_now(self, given: Progress, parts: Groups | None) -> Progress:
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
        for group in [] if parts is None else parts[0]:
            time = _rounded(self._newest[group[0]] - policy.disorder, policy.period)
            if time > self._progress.of(group):
                scoped[group] = time
        made = Progress(MIN_TIME, (policy.partition,), scoped) if scoped else NO_PROGRESS
        if policy.low_watermark is not None:
            period, lag = policy.low_watermark
            made = made.merge(Progress(_rounded(max(self._newest.values()) - lag, period)))
        return given.merge(made)

    # ------------------------------------------------------------------------------------------------------- state

    def snapshot(self) -> Slices:
        newest = [pack_values(list(self._newest)), list(self._newest.values())]
        slices = {
            "live": slice_of_delta(self._live),
            "claims": self._claims.to_rows(),
            "progress": _text(progress_text(self._progress), "progress"),
            "notes": _text(json.dumps([newest, self._batches, self.ledger.count]), "notes"),
        }
        if self.ledger.tables:
            slices["ledger"] = self.ledger.entries(self.schema).combine_chunks().to_batches()[0]
        return slices

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._live = delta_of_slice(slices["live"])
        self._claims = Claims.from_rows(slices["claims"], self.schema)
        self._progress = progress_of_text(slices["progress"].column(0)[0].as_py())
        (values, times), self._batches, self.ledger.count = json.loads(slices["notes"].column(0)[0].as_py())
        self._newest = dict(zip(unpack_values(values), times, strict=True))
        self.ledger.tables = [pa.Table.from_batches([slices["ledger"]])] if "ledger" in slices else []

    def state_size(self) -> StateSize:
        return StateSize(len(self._live) + len(self._claims), self._live.nbytes)


def _text(text: str, name: str) -> Rows:
    return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=[name])


def _groups(batch: Batch, columns: Sequence[str]) -> Groups:
    arrays = [batch.payload.column(name) for name in columns]
    code, size = encode(arrays, len(batch))
    someone = np.empty(size, np.int64)
    someone[code] = np.arange(len(batch))
    which = pa.array(someone)
    return list(zip(*(_keys(array.take(which)) for array in arrays), strict=True)), code


def _keys(values: pa.Array) -> list[Any]:
    """Values as dictionary keys; there is one NaN."""
    keys: list[Any] = values.to_pylist()
    return [math.nan if key is not None and math.isnan(key) else key for key in keys] if pa.types.is_floating(values.type) else keys


def _first_missing(code: Codes, weight: Weights, turn: Codes, taken: Codes, size: int) -> int | None:
    """The first turn at which a row is taken that is not there then. Only the rows that are taken at all are looked at."""
    concerned = np.zeros(size, np.bool_)
    concerned[taken] = True
    among = np.flatnonzero(concerned[code])
    order = among[np.lexsort((turn[among], code[among]))]
    group, change = code[order], weight[order]
    running = np.cumsum(change)
    begins = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    before = (running - change)[begins]
    there = running - np.repeat(before, np.diff(np.append(begins, len(order))))
    bad = turn[order[there < 0]]
    return int(bad.min()) if len(bad) else None


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in schema)


def _row(batch: Batch, at: int) -> str:
    return str(batch.payload.slice(at, 1).to_pylist()[0])


def _shown(time: int) -> str:
    return "infinity" if time == INFINITY else str(time)


def _first(bad: Bools, error: Any) -> None:
    if bad.any():
        raise error(int(np.argmax(bad)))


def _observed(batch: Batch) -> Times:
    """How new each element shows its source to be. An end that is and stays infinite says nothing."""
    sync = batch.sync
    return sync if batch.is_adjust is None else np.where(sync == INFINITY, MIN_TIME, sync)


def _minus(times: Times, ticks: int) -> Times:
    return np.maximum(times, MIN_TIME + ticks) - ticks


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

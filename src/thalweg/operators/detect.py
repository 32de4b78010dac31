"""Detect: runs of events that a regular pattern recognises.

    R' = {(t, s + within, keys + registers) | a run of events from s to t matches}    (see `plan.nodes.detect`)

Null is a key like any other; conditions that are null are false; ends of events do not matter. A
late or corrected event changes the instances of its key that begin less than `within` before it, or
at it: those are found again, before and after. Where instances must not overlap, which of them may
begin depends on all earlier ones, so that the whole key is found again, as far as it is held.

State: events that an instance may still need, that is less than `within` before the CTI. Where
instances must not overlap, also the place from which on the next one of a key may begin, while that
place is among them. The CTI passes as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta, Weights
from thalweg.model.ordering import on_one_axis, rank_values
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, empty_rows, encode
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    rename_scopes,
    slice_of_progress,
)
from thalweg.operators.frames import evaluate_mask, frame_of
from thalweg.operators.instances import Events, find, reachable
from thalweg.operators.key_numbers import KeyNumbers
from thalweg.operators.time_slices import TimeSlices
from thalweg.plan.nodes import Detect

__all__ = ["DetectKernel"]


class DetectKernel(Operator):
    """
    >>> import thalweg as tw
    >>> s = tw.source("s", {"v": "int64"})
    >>> rising = tw.then(tw.event("true", keep={"top": "v"}), tw.event("v > top", keep={"top": "v"}))
    >>> query = s.detect(rising, within=10, registers={"top": "int64"})
    >>> tw.table(query, {"s": [tw.point({"v": v}, t) for t, v in enumerate([3, 1, 4])]})
    [(2, 11, {'top': 4})]
    """

    def __init__(self, node: Detect) -> None:
        self.schema = node.schema
        self._node = node
        self._held = TimeSlices(node.input.schema)
        self._resume_keys = tuple(f"key{n}" for n in range(len(node.keys)))
        types = [node.input.schema.field(key).type for key in node.keys]
        columns = [*zip(self._resume_keys, types, strict=True)]
        place = [("time", pa.int64()), ("skip", pa.int64())]
        self._resume = empty_rows(pa.schema([*columns, *place]))
        self._progress = NO_PROGRESS

    def process(self, port: int, batch: Batch) -> Batch:
        answer = Delta.empty(self.schema)
        if len(batch):
            changes = Delta.of_batch(batch)
            # Only starts count: a change of an end is none.
            end = changes.start + self._node.within
            delta = Delta(changes.payload, changes.start, end, changes.weight).consolidate()
            if len(delta):
                answer = self._revise(delta)
                self._held.add(delta)
        settled = self._progress.cti
        self._progress = self._progress.advance(batch.progress)
        if self._progress.cti > settled:
            self._forget(self._progress.cti)
        return answer.to_batch(self._promise())

    def _promise(self) -> Progress:
        return rename_scopes(
            Progress(self._progress.cti, self._progress.scope_columns, self._progress.scoped),
            {name: name for name in self._node.keys},
        )

    # ------------------------------------------------------------------------------------ changes

    def _revise(self, delta: Delta) -> Delta:
        """The matches that come and go with a change, which is not held yet."""
        keys = KeyNumbers.of(delta.payload, self._node.keys)
        code = keys.numbers(delta.payload)
        since, until = np.full(len(keys), INFINITY), np.full(len(keys), MIN_TIME)
        np.minimum.at(since, code, delta.start)
        np.maximum.at(until, code, delta.start)
        within = self._node.within
        first, last = since - within + 1, until
        if not self._node.overlap:
            first, last = np.full(len(keys), MIN_TIME), np.full(len(keys), INFINITY)
        low, high = int(first.min()), min(int(last.max()), INFINITY - within) + within
        held = self._held.overlapping(low, high)
        known = keys.numbers(held.payload)
        needed = (known >= 0) & (held.start >= first[known])
        needed &= held.start - within < last[known]
        held = held.filter(needed)
        whole = Delta.concat([held, delta], self._held.schema)
        before = np.concatenate([held.weight, np.zeros(len(delta), np.int64)])
        parts = []
        for weight, sign in ((whole.weight, 1), (before, -1)):
            line = self._line(whole, weight, keys)
            parts.append(self._matches(line, keys, first, last, sign))
        return Delta.concat(parts, self.schema)

    def _line(self, rows: Delta, weight: Weights, keys: KeyNumbers) -> _Line:
        """Rows as events, ordered by key, start and all columns; equal ones as often as they
        occur."""
        alike, size = encode([*rows.payload.columns, rows.start], len(rows))
        total = np.zeros(size, np.int64)
        np.add.at(total, alike, weight)
        representative = np.empty(size, np.int64)
        representative[alike] = np.arange(len(rows))
        distinct = rows.take(representative)
        code = keys.numbers(distinct.payload)
        ranks = [rank_values(column) for column in distinct.payload.columns]
        order = np.lexsort((*reversed(ranks), distinct.start, code))
        unit = np.repeat(order, total[order])
        events = distinct.take(unit)
        make = _Line.of_sets if self._node.simultaneous == "set" else _Line.of_events
        return make(events.payload, code[unit], events.start)

    def _matches(
        self, line: _Line, keys: KeyNumbers, first: Times, last: Times, sign: int
    ) -> Delta:
        if not len(line.time):
            return Delta.empty(self.schema)
        if self._node.overlap:
            inside = (line.time >= first[line.key]) & (line.time <= last[line.key])
            found = find(self._node, self._events(line), np.flatnonzero(inside))
            keep = np.ones(len(found.first), np.bool_)
        else:
            begin = self._begin(line, keys)
            open_ = np.arange(len(line.time)) >= begin[line.key]
            found = find(self._node, self._events(line), np.flatnonzero(open_))
            keep = self._walk(line, begin, found.alive)[found.first]
        start, first_time = line.time[found.last], line.time[found.first]
        groups = line.rows.take(pa.array(line.row[found.first]))
        payload = pa.RecordBatch.from_arrays(
            [*(groups.column(name) for name in self._node.keys), *found.registers.columns],
            schema=self.schema,
        )
        end = first_time + self._node.within
        return Delta(payload, start, end, np.full(len(start), sign)).filter(keep)

    def _events(self, line: _Line) -> Events:
        columns = dict(zip(line.rows.schema.names, line.rows.columns, strict=True))
        if self._node.simultaneous == "sequence":
            return Events(line.key, line.time, {**columns, "_start": pa.array(line.time)})
        frame = frame_of(line.rows, line.time[line.slot])
        true = []
        for event in self._node.automaton.events:
            some = np.zeros(len(line.time), np.bool_)
            some[line.slot[evaluate_mask(event.condition, frame)]] = True
            true.append(~some if event.absent else some)
        return Events(line.key, line.time, {"_start": pa.array(line.time)}, tuple(true))

    # --------------------------------------------------------------- instances that do not overlap

    def _begin(self, line: _Line, keys: KeyNumbers) -> Codes:
        """For each key the position from which on an instance may begin."""
        numbers = np.arange(len(keys))
        begin = np.searchsorted(line.key, numbers, "left")
        if self._resume.num_rows:
            known = keys.numbers(self._resume, self._resume_keys)
            mine = np.flatnonzero(known >= 0)
            time, skip = (self._resume.column(name).to_numpy()[mine] for name in ("time", "skip"))
            places, resumed = on_one_axis((line.key, line.time), (known[mine], time))
            begin[known[mine]] = np.searchsorted(places, resumed, "left") + skip
        return np.minimum(begin, np.searchsorted(line.key, numbers, "right"))

    @staticmethod
    def _walk(line: _Line, begin: Codes, alive: Codes) -> Bools:
        """The positions at which an instance may begin: the next one after the last is over."""
        position = np.arange(len(line.time))
        ends = np.searchsorted(line.key, np.arange(len(begin)), "right")
        return reachable(line.key, begin[begin < ends], np.maximum(position, alive) + 1)

    # -------------------------------------------------------------------------------------- state

    def _forget(self, cti: int) -> None:
        """Events that no instance needs any more are gone."""
        if cti == INFINITY:
            self._held, self._resume = TimeSlices(self._held.schema), self._resume.slice(0, 0)
            return
        if not self._node.overlap:
            self._settle(cti)
        self._held.purge(cti)

    def _settle(self, cti: int) -> None:
        """For the keys that lose events: from where on their next instance may begin."""
        held = self._held.overlapping(MIN_TIME, INFINITY)
        leaving = held.filter(held.end <= cti)
        if not len(leaving):
            return
        keys = KeyNumbers.of(leaving.payload, self._node.keys)
        mine = held.filter(keys.numbers(held.payload) >= 0)
        line = self._line(mine, mine.weight, keys)
        begin = self._begin(line, keys)
        open_ = np.flatnonzero(np.arange(len(line.time)) >= begin[line.key])
        alive = find(self._node, self._events(line), open_).alive
        walked = self._walk(line, begin, alive)
        # The last instance that began before the events that stay: what follows it is next.
        settled = np.flatnonzero(walked & (line.time + self._node.within <= cti))
        over = np.maximum(settled, alive[settled])
        after = np.full(len(keys), -1)
        np.maximum.at(after, line.key[settled], over)
        which = np.flatnonzero(after >= 0)
        at = after[which]
        places = on_one_axis((line.key, line.time))[0]
        tied = at - np.searchsorted(places, places[at], "left")
        entries = pa.RecordBatch.from_arrays(
            [
                *keys.rows.take(pa.array(which)).columns,
                pa.array(line.time[at]),
                pa.array(tied + 1),
            ],
            schema=self._resume.schema,
        )
        stays = line.time[at] + self._node.within > cti
        others = self._resume.filter(pa.array(keys.numbers(self._resume, self._resume_keys) < 0))
        self._resume = concat_rows([others, entries.filter(pa.array(stays))], self._resume.schema)

    def snapshot(self) -> Slices:
        return {
            **self._held.snapshot("events"),
            "resume": self._resume,
            "progress": slice_of_progress([self._progress]),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._held.restore("events", slices)
        self._resume = slices["resume"]
        self._progress = progress_of_slice(slices["progress"])[0]

    def state_size(self) -> StateSize:
        return self._held.size() + StateSize(self._resume.num_rows, self._resume.nbytes)


@dataclass(frozen=True, slots=True)
class _Line:
    """Events, or sets of events of one time, ordered by key and time: `row` is one row of each.
    `slot` says which of them each row belongs to."""

    rows: Rows
    key: Codes
    time: Times
    row: Codes
    slot: Codes

    @classmethod
    def of_events(cls, rows: Rows, key: Codes, time: Times) -> _Line:
        each = np.arange(len(time))
        return cls(rows, key, time, each, each)

    @classmethod
    def of_sets(cls, rows: Rows, key: Codes, time: Times) -> _Line:
        new = np.ones(len(time), np.bool_)
        new[1:] = (key[1:] != key[:-1]) | (time[1:] != time[:-1])
        row = np.flatnonzero(new)
        return cls(rows, key[row], time[row], row, np.cumsum(new) - 1)

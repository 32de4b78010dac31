"""Detect: runs of events that a regular pattern recognises.

    R' = {(t, s + within, keys + registers) | a run of events from s to t matches}

The patterns and their meaning are in `plan.nodes.detect`.

Null is a key like any other; conditions that are null are false; ends of events do not matter. A
late or corrected event changes the instances of its key that begin less than `within` before it, or
at it: those are found again, before and after. Where instances must not overlap, which of them may
begin depends on all earlier ones, so that the whole key is found again, as far as it is held.

State: events that an instance may still need, that is less than `within` before the CTI. Where
instances must not overlap, also the place from which on the next one of a key may begin, while that
place is among them. The CTI passes as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta, Weights
from thalweg.model.order import dense_ranks
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, distinct_codes, encode, take_column, take_rows
from thalweg.model.sorting import distinct, on_one_axis, representatives, sort_pairs
from thalweg.model.time import INFINITY, MIN_TIME, Times, least
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    rename_scopes,
    slice_of_progress,
)
from thalweg.operators.frames import evaluate_mask, frame_of
from thalweg.operators.indexed_arrangements import IndexedArrangements
from thalweg.operators.patterns.instances import Events, Matcher, reachable
from thalweg.plan.nodes import Detect
from thalweg.state import Arrangement, Hits, KeyIndex

__all__ = ["DetectKernel"]


class DetectKernel(Operator):
    """
    >>> import thalweg as tw
    >>> s = tw.source("s", {"v": "int64"})
    >>> event = tw.event("true", keep={"top": "v"})
    >>> rising = tw.then(event, tw.event("v > top", keep={"top": "v"}))
    >>> query = s.detect(rising, within=10, registers={"top": "int64"})
    >>> tw.table(query, {"s": [tw.point({"v": v}, t) for t, v in enumerate([3, 1, 4])]})
    [(2, 11, {'top': 4})]
    """

    def __init__(self, node: Detect) -> None:
        self.schema = node.schema
        self._node = node
        self._by_sets = node.simultaneous == "set"
        """Whether events of one time are read together."""
        fields = [node.input.schema.field(key) for key in node.keys]
        self._index = KeyIndex(fields)
        self._held = Arrangement(node.input.schema, self._groups, what="detect")
        # The place from which on the next instance of a key may begin: its time is the start, and
        # how many events of that time lie before it is the mark.
        self._resume = Arrangement(pa.schema(fields), self._groups, marks=1, what="detect")
        self._state = IndexedArrangements(
            self._index, {"events": self._held, "resume": self._resume}
        )
        self._matcher = Matcher(node)
        self._progress = NO_PROGRESS

    def _groups(self, rows: Rows) -> Codes:
        columns = [rows.column(name) for name in self._node.keys]
        return self._index.numbers(columns, rows.num_rows)

    def process(self, port: int, batch: Batch) -> Batch:
        answer = Delta.empty(self.schema)
        if len(batch):
            changes = Delta.of_batch(batch)
            # Only starts count: a change of an end is none.
            end = changes.start + self._node.within
            delta = Delta(changes.payload, changes.start, end, changes.weight)
            if least(delta.weight) < 0:
                delta = delta.consolidate()
            if len(delta):
                group = self._groups(delta.payload)
                answer = self._revise(delta, group)
                self._held.apply(delta, group)
        settled = self._progress.cti
        self._progress = self._progress.advance(batch.progress)
        if self._progress.cti > settled:
            self._forget(settled, self._progress.cti)
        self._state.tidy()
        return answer.to_batch(self._promise())

    def _promise(self) -> Progress:
        return rename_scopes(
            Progress(self._progress.cti, self._progress.scope_columns, self._progress.scoped),
            {name: name for name in self._node.keys},
        )

    # ------------------------------------------------------------------------------------ changes

    def _revise(self, delta: Delta, group: Codes) -> Delta:
        """The matches that come and go with a change, which is not held yet."""
        keys, code = distinct_codes(group)
        first, last = np.full(len(keys), MIN_TIME), np.full(len(keys), INFINITY)
        within, settled = self._node.within, self._progress.cti
        since, until = np.full(len(keys), settled), last
        if self._node.overlap:
            first, last = np.full(len(keys), INFINITY), np.full(len(keys), MIN_TIME)
            np.minimum.at(first, code, delta.start - within + 1)
            np.maximum.at(last, code, delta.start)
            # Events end `within` after they start.
            since, until = np.maximum(first - 1 + within, settled), last + within
        found = self._held.find(keys, since, until)
        held = found.delta()
        whole = Delta.concat([held, delta], self._held.schema)
        codes = np.concatenate([found.owner, code])
        weights = [whole.weight]
        # The keys after the change, and behind them the same keys before it: found in one pass.
        # Matches that were over before the first change stay, so that where all events are earlier
        # only the keys after the change are needed.
        if not self._node.overlap or (held.start >= self._changed_from(first)[found.owner]).any():
            weights.append(np.concatenate([held.weight, np.zeros(len(delta), np.int64)]))
        line = self._line(whole, codes, weights, len(keys))
        twice = (np.concatenate([part, part]) for part in (keys, first, last))
        return self._matches(line, *twice)

    def _changed_from(self, first: Times) -> Times:
        """The first change of each key, from the first instance that it may change."""
        return first + (self._node.within - 1)

    def _line(self, rows: Delta, code: Codes, weights: Sequence[Weights], keys: int = 0) -> _Line:
        """Rows as events, ordered by key, start and all columns; equal ones as often as they occur.
        Of several weights each gives a line; the codes of the next one go on after `keys` more."""
        order = sort_pairs(code, rows.start)
        key, start = code[order], rows.start[order]
        if ((key[1:] == key[:-1]) & (start[1:] == start[:-1])).any():
            rows, code, weights = _each_once(rows, code, weights)
            ranks = [dense_ranks(column) for column in rows.payload.columns]
            order = np.lexsort((*reversed(ranks), rows.start, code))
        # A removal of a row that was never there is refused when the change is applied.
        units = [np.repeat(order, np.maximum(weight[order], 0)) for weight in weights]
        unit = np.concatenate(units)
        begin = np.repeat(np.arange(len(units)) * keys, [len(part) for part in units])
        key, time = code[unit] + begin, rows.start[unit]
        if self._by_sets:
            return _Line.of_sets(take_rows(rows.payload, unit), key, time)
        return _Line(rows.payload, key, time, unit, unit)

    def _matches(self, line: _Line, keys: Codes, first: Times, last: Times) -> Delta:
        """The matches of keys, of which the second half are the keys before a change: their
        matches are taken back."""
        if not len(line.time):
            return Delta.empty(self.schema)
        if self._node.overlap:
            inside = (line.time >= first[line.key]) & (line.time <= last[line.key])
            found = self._matcher.find(self._events(line), inside.nonzero()[0])
            keep = line.time[found.last] >= self._changed_from(first)[line.key[found.first]]
        else:
            begin = self._begin(line, keys, self._progress.cti)
            open_ = np.arange(len(line.time)) >= begin[line.key]
            found = self._matcher.find(self._events(line), open_.nonzero()[0])
            keep = self._walk(line, begin, found.alive)[found.first]
        if not len(found.first):
            return Delta.empty(self.schema)
        rows = line.row[found.first]
        groups = [take_column(line.rows.column(name), rows) for name in self._node.keys]
        payload = pa.RecordBatch.from_arrays([*groups, *found.registers], schema=self.schema)
        end = line.time[found.first] + self._node.within
        weight = np.where(2 * line.key[found.first] < len(keys), 1, -1)
        return Delta(payload, line.time[found.last], end, weight).filter(keep)

    def _events(self, line: _Line) -> Events:
        if not self._by_sets:
            columns = {name: line.rows.column(name) for name in self._matcher.columns}
            return Events(line.key, line.time, columns, line.row)
        frame = frame_of(line.rows, line.time[line.slot])
        true = []
        for event in self._node.automaton.events:
            present = np.zeros(len(line.time), np.bool_)
            present[line.slot[evaluate_mask(event.condition, frame)]] = True
            true.append(~present if event.absent else present)
        return Events(line.key, line.time, {}, line.row, tuple(true))

    # --------------------------------------------------------------- instances that do not overlap

    def _begin(self, line: _Line, keys: Codes, since: int) -> Codes:
        """For each key the position from which on an instance may begin; the events of the line end
        after `since`."""
        numbers = np.arange(len(keys))
        begin = np.searchsorted(line.key, numbers, "left")
        resume = self._resume_of(keys, since)
        if len(resume):
            places, resumed = on_one_axis((line.key, line.time), (resume.owner, resume.start))
            begin[resume.owner] = np.searchsorted(places, resumed, "left") + resume.mark(0)
        return np.minimum(begin, np.searchsorted(line.key, numbers, "right"))

    def _resume_of(self, keys: Codes, since: int) -> Hits:
        return self._resume.of_groups(keys, since)

    @staticmethod
    def _walk(line: _Line, begin: Codes, alive: Codes) -> Bools:
        """The positions at which an instance may begin: the next one after the last is over."""
        position = np.arange(len(line.time))
        ends = np.searchsorted(line.key, np.arange(len(begin)), "right")
        return reachable(line.key, begin[begin < ends], np.maximum(position, alive) + 1)

    # -------------------------------------------------------------------------------------- state

    def _forget(self, before: int, cti: int) -> None:
        """Forget events that no instance needs any more."""
        if cti == INFINITY:
            self._state.clear()
            return
        if not self._node.overlap:
            self._settle(before, cti)
        self._held.purge(cti)
        self._resume.purge(cti)

    def _settle(self, before: int, cti: int) -> None:
        """For the keys that lose events: from where on their next instance may begin."""
        keys = distinct(self._held.ending(cti).group)
        if not len(keys):
            return
        found = self._held.of_groups(keys, before)
        held = found.delta()
        line = self._line(held, found.owner, (held.weight,))
        begin = self._begin(line, keys, before)
        open_ = np.flatnonzero(np.arange(len(line.time)) >= begin[line.key])
        alive = self._matcher.find(self._events(line), open_).alive
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
        # Where no instance began since, the place that is held stays.
        replaced = self._resume_of(keys, before)
        replaced = replaced.filter(after[replaced.owner] >= 0)
        replaced.set_weight(np.zeros(len(replaced), np.int64))
        time = line.time[at]
        stays = time + self._node.within > cti
        payload = pa.RecordBatch.from_arrays(
            self._index.columns(keys[which[stays]]), schema=self._resume.schema
        )
        time = time[stays]
        entries = Delta(payload, time, time + self._node.within, np.ones(len(time), np.int64))
        self._resume.add(entries, keys[which[stays]], (tied[stays] + 1,))

    def snapshot(self) -> Slices:
        return {**self._state.snapshot(), "progress": slice_of_progress([self._progress])}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._state.restore(slices)
        self._progress = progress_of_slice(slices["progress"])[0]
        for held in (self._held, self._resume):
            held.purge(self._progress.cti)

    def state_size(self) -> StateSize:
        return self._state.size()


@dataclass(frozen=True, slots=True)
class _Line:
    """Events, or sets of events of one time, ordered by key and time: `row` is one row of each. The
    rows of sets are in order too, and `slot` says which of them each row belongs to."""

    rows: Rows
    key: Codes
    time: Times
    row: Codes
    slot: Codes

    @classmethod
    def of_sets(cls, rows: Rows, key: Codes, time: Times) -> _Line:
        new = np.ones(len(time), np.bool_)
        new[1:] = (key[1:] != key[:-1]) | (time[1:] != time[:-1])
        row = np.flatnonzero(new)
        return cls(rows, key[row], time[row], row, np.cumsum(new) - 1)


def _each_once(
    rows: Delta, code: Codes, weights: Sequence[Weights]
) -> tuple[Delta, Codes, Sequence[Weights]]:
    """Equal rows, whatever their ends, as one with the sums of their weights."""
    alike, size = encode([*rows.payload.columns, rows.start], len(rows))
    totals = tuple(np.zeros(size, np.int64) for _ in weights)
    for total, weight in zip(totals, weights, strict=True):
        np.add.at(total, alike, weight)
    representative = representatives(alike, size)
    return rows.take(representative), code[representative], totals

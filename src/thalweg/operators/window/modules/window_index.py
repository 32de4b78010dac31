"""The window index: every window of modules that is not closed, by group and time.

Windows lie in two arrangements (see `state.arrangement`) under the number of their group: waiting
windows over [start, the time at which they may answer), windows that have answered over [start, the
promise that closes them). So the windows that a change touches, those that may answer now and those
that a promise closes are found by search, and the earliest open window is known. As endpoints
appear and disappear windows split, merge and vanish; the kernel removes their entries and adds new
ones. An entry has the number of events in its window (`events`). The answer of a window is kept in
a separate arrangement: its rows, or a checksum where computing them again is cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.window.modules.window_entries import (
    Answered,
    Entries,
    FoundWindows,
    HeldBack,
)
from thalweg.operators.window.partitions import Partitions
from thalweg.state import Arrangement, Hits

__all__ = ["WindowIndex"]

_NUMBERS = ("id", "end", "closes", "events", "recomputed", "checksum", "failed")
_OWN = _ID, _START, _END, _WINDOW_END = tuple(
    internal(name) for name in ("window", "start", "end", "window_end")
)
_NONE = np.empty(0, np.int64)


class WindowIndex:
    """With `stepped` the module works in steps: windows have states, which are not saved."""

    def __init__(
        self, keys: pa.Schema, partitions: Partitions, answers: pa.Schema, *, stepped: bool
    ) -> None:
        self._partitions, self._keys, self._stepped = partitions, keys, stepped
        numbers = [pa.field(internal(name), pa.int64()) for name in _NUMBERS]
        self._schema = pa.schema([*keys, *numbers])
        own = [pa.field(name, pa.int64()) for name in _OWN]
        self._answer_schema = answers
        self._waiting = Arrangement(self._schema, partitions.of_rows, what="windows")
        self._out = Arrangement(self._schema, partitions.of_rows, what="windows")
        self._kept = Arrangement(
            pa.schema([*own, *answers]), _window_of, marks=1, hashed=True, what="answers"
        )
        self._states: dict[int, Any] = {}
        self._next = 0

    def clear(self) -> None:
        for held in (self._waiting, self._out, self._kept):
            held.clear()
        self._states = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._out)

    def make(
        self, partition: Codes, start: Times, end: Times, closes: Times, events: Codes
    ) -> Entries:
        """New entries for windows that have not answered."""
        size = len(start)
        numbers = np.arange(self._next, self._next + size)
        self._next += size
        return Entries(
            self._key_rows(partition),
            partition,
            numbers,
            start,
            end,
            closes,
            events,
            recomputed=np.zeros(size, np.bool_),
            checksum=np.zeros(size, np.int64),
            failed=np.zeros(size, np.bool_),
            state=np.full(size, None, object),
        )

    def _key_rows(self, partition: Codes) -> Rows:
        columns = self._partitions.named(partition) or [pa.array(np.ones(len(partition), np.bool_))]
        return pa.RecordBatch.from_arrays(columns, schema=self._keys)

    # --------------------------------------------------------------------------------------------
    # finding

    def find(self, partition: Codes, since: Times, until: Times) -> FoundWindows:
        """For each probe the windows of its partition that overlap [since, until)."""
        waiting, out = (
            held.find(partition, np.maximum(since, held.purged), until)
            for held in (self._waiting, self._out)
        )
        found = self._found(waiting, out)
        return found.filter(found.entries.end > since[found.owner])

    def inside(self, partition: Codes, low: Times, high: Times) -> FoundWindows:
        """For each probe the windows of its partition that lie in [low, high)."""
        found = []
        for held in (self._waiting, self._out):
            hits = held.find(partition, np.maximum(low, held.purged), high)
            end: Times = hits.column(internal("end")).to_numpy()
            owner = hits.owner
            found.append(hits.filter((hits.start >= low[owner]) & (end <= high[owner])))
        return self._found(*found)

    def overlap(self, partition: Codes, since: Times, until: Times) -> Bools:
        """For each probe whether a window of its partition overlaps [since, until)."""
        some = np.zeros(len(partition), np.bool_)
        for held in (self._waiting, self._out):
            found = held.find(partition, np.maximum(since, held.purged), until)
            end: Times = found.column(internal("end")).to_numpy()
            some[found.owner[end > since[found.owner]]] = True
        return some

    def of(self, partition: Codes) -> FoundWindows:
        """All windows of some partitions."""
        size = len(partition)
        return self.find(partition, np.full(size, MIN_TIME), np.full(size, INFINITY))

    def beginning_before(self, time: int) -> Entries:
        """The windows of all partitions that begin before a time."""
        held = (self._waiting, self._out)
        return self._found(*(windows.between(windows.purged, time) for windows in held)).entries

    def waiting_before(self, time: int) -> FoundWindows:
        """The windows that wait and begin before a time."""
        found = self._waiting.between(self._waiting.purged, time)
        return self._found(found, Hits(self._schema, _NONE, []))

    def first(self) -> int:
        """The start of the earliest window."""
        return min(self._waiting.first(), self._out.first())

    def first_waiting(self) -> int:
        """The start of the earliest window that has not answered."""
        return self._waiting.first()

    def _found(self, waiting: Hits, out: Hits) -> FoundWindows:
        both = Hits(
            self._schema,
            np.concatenate([waiting.owner, out.owner]),
            [*waiting.parts, *out.parts],
        )
        return FoundWindows(self._entries(both, both.group), both.owner, waiting, out)

    def _entries(self, found: Hits, partition: Codes) -> Entries:
        payload = found.payload()
        width = len(self._keys)
        keys = pa.RecordBatch.from_arrays(payload.columns[:width], schema=self._keys)
        number = {name: payload.column(width + at).to_numpy() for at, name in enumerate(_NUMBERS)}
        state = np.full(len(partition), None, object)
        if self._stepped:
            for at, window in enumerate(number["id"].tolist()):
                state[at] = self._states.get(window)
        return Entries(
            keys,
            partition,
            number["id"],
            found.start,
            number["end"],
            number["closes"],
            number["events"],
            number["recomputed"].astype(np.bool_),
            number["checksum"],
            number["failed"].astype(np.bool_),
            state,
        )

    # --------------------------------------------------------------------------------------------
    # changing

    def wait(self, entries: Entries, until: Times) -> None:
        """Add windows that may answer at a time."""
        self._put(self._waiting, entries, until)

    def put_out(self, entries: Entries, answered: Answered) -> None:
        """Add windows that have answered, with the answers that are kept."""
        self._put(self._out, entries, entries.closes)
        if len(answered.window) and entries.recomputed.any():
            answered = answered.filter(~np.isin(answered.window, entries.id[entries.recomputed]))
        if not len(answered.window):
            return
        order = np.argsort(entries.id)
        at = order[np.searchsorted(entries.id[order], answered.window)]
        rows = answered.rows
        payload = pa.RecordBatch.from_arrays(
            [
                *map(pa.array, (answered.window, rows.start, rows.end, entries.end[at])),
                *rows.payload.columns,
            ],
            schema=self._kept.schema,
        )
        held = Delta(payload, entries.start[at], entries.closes[at], rows.weight)
        self._kept.add(held, answered.window, (answered.out.astype(np.int64),))

    def _put(self, held: Arrangement, entries: Entries, until: Times) -> None:
        size = len(entries)
        if not size:
            return
        numbers = [pa.array(getattr(entries, name).astype(np.int64)) for name in _NUMBERS]
        payload = pa.RecordBatch.from_arrays([*entries.keys.columns, *numbers], schema=self._schema)
        rows = Delta(payload, entries.start, until, np.ones(size, np.int64))
        held.add(rows, entries.partition)
        if self._stepped:
            for window, state in zip(entries.id.tolist(), entries.state, strict=True):
                if state is not None:
                    self._states[window] = state

    def remove(self, found: FoundWindows) -> None:
        """Forget windows and their answers."""
        if len(found.out):
            self._remove_answers(found.entries.id[len(found.waiting) :])
        for held, hits in ((self._waiting, found.waiting), (self._out, found.out)):
            if len(hits):
                hits.set_weight(np.zeros(len(hits), np.int64))
                held.drop(MIN_TIME)
        self._forget_states(found.entries.id)

    def _forget_states(self, windows: Codes) -> None:
        if self._states:
            for window in windows.tolist():
                self._states.pop(window, None)

    def take_ready(self, until: int) -> Entries:
        """Remove and return the windows that may answer at a time or earlier."""
        found = self._waiting.release(until)
        return self._entries(found, found.group)

    def close(self, cti: int) -> tuple[Codes, Times, Times]:
        """Forget the windows that have answered and that a promise closes; returns their
        partitions, starts and ends."""
        found = self._out.release(cti)
        self._kept.drop(cti)
        if self._states:
            self._forget_states(found.column(internal("id")).to_numpy())
        return found.group, found.start, found.column(internal("end")).to_numpy()

    # --------------------------------------------------------------------------------------------
    # answers

    def answers_of(self, windows: Codes) -> Answered:
        """The kept answers of some windows, by id."""
        return self._answered(self._find_answers(windows))

    def held_back(self) -> HeldBack:
        """The answers that were not emitted."""
        every = self._kept.between(self._kept.purged, INFINITY)
        back = every.filter(every.mark(0) == 0) if len(every) else every
        ends: Times = back.column(_WINDOW_END).to_numpy()
        return HeldBack(self._answered(back), ends, back.end, back)

    def _find_answers(self, windows: Codes) -> Hits:
        size = len(windows)
        return self._kept.find(windows, np.full(size, MIN_TIME), np.full(size, INFINITY))

    def _answered(self, found: Hits) -> Answered:
        payload = found.payload()
        window, start, end = (column.to_numpy() for column in payload.columns[:3])
        rows = pa.RecordBatch.from_arrays(payload.columns[len(_OWN) :], schema=self._answer_schema)
        out = found.mark(0).astype(np.bool_) if len(found) else np.empty(0, np.bool_)
        return Answered(Delta(rows, start, end, found.weight), window, out)

    def _remove_answers(self, windows: Codes) -> None:
        found = self._find_answers(windows)
        if len(found):
            found.set_weight(np.zeros(len(found), np.int64))
            self._kept.drop(MIN_TIME)

    # --------------------------------------------------------------------------------------------
    # state

    def groups(self) -> Codes:
        return np.union1d(self._waiting.groups(), self._out.groups())

    def renumber(self, moved: Codes) -> None:
        self._waiting.renumber(moved)
        self._out.renumber(moved)

    def snapshot(self) -> Slices:
        mark = pa.RecordBatch.from_arrays([pa.array([self._next])], names=["next"])
        return {
            **self._waiting.snapshot("waiting"),
            **self._out.snapshot("out"),
            **self._kept.snapshot("answers"),
            "next": mark,
        }

    def restore(self, slices: Mapping[str, Rows], answered: int, cti: int) -> None:
        """Restore the index, without windows that could answer at `answered` or earlier, or that
        `cti` closes: slices may still have them."""
        self._states = {}
        self._waiting.restore("waiting", slices)
        self._waiting.drop(answered)
        self._out.restore("out", slices)
        self._out.drop(cti)
        self._kept.restore("answers", slices)
        self._kept.drop(cti)
        self._next = int(slices["next"].column(0)[0].as_py())

    def size(self) -> StateSize:
        windows = self._waiting.size() + self._out.size()
        return windows + StateSize(0, self._kept.size().bytes)


def _window_of(rows: Rows) -> Codes:
    windows: Codes = rows.column(_ID).to_numpy()
    return windows

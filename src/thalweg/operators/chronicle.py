"""Chronicle: each right row, in the order of time, takes the earliest left row that waits.

    R' = {(s2, s2 + 1, result(p1, p2)) | (p2, s2) takes (p1, s1, e1)}      (see `plan.nodes.chronicle`)

Null keys match nothing; equal rows are served as often as they occur; a change of an end on the
right is none. A late or corrected row changes who takes whom from its own time on, until the same
left rows wait as before: a batch matches that busy period of its keys again, not the whole key.
Which left rows waited when the busy period began follows from the rows before it: the kernel looks
back until the answer is the same whether none or all of the earlier left rows had been taken. That
is soon where the line empties now and then. Where for long exactly as many left rows come as right
rows, it may be all that is held of the key.

State: left rows that end at or after the CTI, the smaller of both, and were not taken before it;
right rows from the CTI on. The CTI is the smaller of both.
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
from thalweg.model.rows import Bools, Codes, Rows, encode, encode_together
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.fifo import serve
from thalweg.operators.frames import evaluate_columns
from thalweg.operators.join import TakenSide, pair_frame
from thalweg.operators.key_numbers import KeyNumbers
from thalweg.operators.matching import keyed_sides
from thalweg.operators.time_slices import TimeSlices
from thalweg.plan.nodes import Chronicle

__all__ = ["ChronicleKernel"]

_SIDES = ("left", "right")
_FIRST_LOOK = 64
"""The first look around a change is this part of the longest wait."""
_WIDER = 4
"""Each further look is this much wider."""


class ChronicleKernel(Operator):
    """
    >>> import thalweg as tw
    >>> a, b = tw.source("a", {"x": "int64"}), tw.source("b", {"y": "int64"})
    >>> pairs = tw.sequence({"a": a, "b": b}, mode="chronicle", within=10)
    >>> rows = {"a": [tw.point({"x": 1}, 1), tw.point({"x": 2}, 2)], "b": [tw.point({"y": 5}, 5)]}
    >>> tw.table(pairs, rows)
    [(5, 6, {'a_x': 1, 'b_y': 5, 'a_time': 1, 'b_time': 5})]
    """

    ports = 2

    def __init__(self, node: Chronicle) -> None:
        self.schema = node.schema
        self._node = node
        self._sides = keyed_sides(
            (node.left.schema, node.right.schema), node.left_keys, node.right_keys, node.same
        )
        self._keys = (*self._sides[0].key_names, *node.same)
        self._held = [TimeSlices(side.schema) for side in self._sides]
        self._progress: list[Progress] = [NO_PROGRESS, NO_PROGRESS]
        self._needed = frozenset[str]().union(*(expr.columns() for _, expr in node.result))
        self.rematched = 0
        """How many rows have been matched to answer changes, each time anew; what changes cost."""

    def process(self, port: int, batch: Batch) -> Batch:
        answer = Delta.empty(self.schema)
        if len(batch):
            delta = self._changes(port, Delta.of_batch(batch))
            if len(delta):
                answer = self._revise(port, delta)
                self._held[port].add(delta)
        settled = self._settled()
        self._progress[port] = self._progress[port].merge(batch.progress)
        if self._settled() > settled:
            self._forget(self._settled())
        return answer.to_batch(Progress(self._settled()))

    def _settled(self) -> int:
        return min(progress.cti for progress in self._progress)

    # ------------------------------------------------------------------------------------ changes

    def _changes(self, port: int, delta: Delta) -> Delta:
        """What a batch changes: rows with their keys, points on the right, and no left row that was
        taken before the CTI."""
        keyed = self._sides[port].project(delta, only_matchable=True)
        if port == 1:
            points = Delta(keyed.payload, keyed.start, keyed.start + 1, keyed.weight)
            return points.consolidate()
        keyed = keyed.consolidate()
        old = keyed.start < self._settled()
        if not old.any():
            return keyed
        kept = self._still_held(keyed.filter(old))
        return Delta.concat([keyed.filter(~old), kept], keyed.schema)

    def _still_held(self, delta: Delta) -> Delta:
        """Changes of ends, for the rows that are still held. Where some of several equal rows were
        taken, the others change."""
        held = self._held[0].overlapping(int(delta.start.min()), INFINITY)
        known, asked, size = encode_together(
            [*held.payload.columns, pa.array(held.start)],
            [*delta.payload.columns, pa.array(delta.start)],
            (len(held), len(delta)),
        )
        present, leaving = np.zeros(size, np.int64), np.zeros(size, np.int64)
        np.add.at(present, known, held.weight)
        leaves = delta.weight < 0
        np.add.at(leaving, asked[leaves], -delta.weight[leaves])
        share = np.minimum(present, leaving)[asked]
        weight = np.where(leaves, -share, np.minimum(delta.weight, share))
        return Delta(delta.payload, delta.start, delta.end, weight).filter(weight != 0)

    def _revise(self, port: int, delta: Delta) -> Delta:
        """The pairs that come and go with a change of one side, which is not held yet."""
        look = self._first_look(delta)
        parts: list[Delta] = []
        while len(look):
            left, right = self._lines(port, delta, look)
            before = _match(left, right, left.before, right.before, look)
            after = _match(left, right, left.after, right.after, look)
            unsure = (before.unsure | after.unsure) & (look.begin > self._settled())
            # While it is not known who waited at first, it cannot be seen who waits at last.
            differs = _waiting_differs(left, before, after, len(look))
            restless = differs & ~unsure & (look.end < INFINITY)
            done = ~(unsure | restless)
            parts += [
                self._pairs(left, right, after, done, 1),
                self._pairs(left, right, before, done, -1),
            ]
            look = look.widen(unsure, restless, self._last_start()).filter(~done)
        return Delta.concat(parts, self.schema)

    def _first_look(self, delta: Delta) -> _Look:
        """The keys of a change, and when each of them changes."""
        keys = KeyNumbers.of(delta.payload, self._keys)
        code = keys.numbers(delta.payload)
        settled = self._settled()
        # A row from before the CTI only changes its end.
        when = np.where(delta.start < settled, delta.end, delta.start)
        since, until = np.full(len(keys), INFINITY), np.full(len(keys), MIN_TIME)
        np.minimum.at(since, code, when)
        np.maximum.at(until, code, when)
        step = np.full(len(keys), max(self._node.longest // _FIRST_LOOK, 1))
        return _Look(keys, since, until, since - step, np.minimum(until, INFINITY - step) + step)

    def _last_start(self) -> int:
        """From here on nothing is held."""
        starts = [part.start.max() for held in self._held for part in held.parts()]
        return int(max(starts, default=MIN_TIME)) + 1

    # ----------------------------------------------------------------------------------- matching

    def _lines(self, port: int, delta: Delta, look: _Look) -> tuple[_Line, _Line]:
        """Both sides around a change, in the order in which they are served."""
        begin, end = int(look.begin.min()), int(look.end.max())
        lines = []
        for side, held in enumerate(self._held):
            rows = held.overlapping(begin, end)
            change = delta if side == port else Delta.empty(held.schema)
            both = Delta.concat([rows, change], held.schema)
            changed = np.arange(len(both)) >= len(rows)
            line = _Line(
                both,
                look.keys.numbers(both.payload),
                np.where(changed, 0, both.weight),
                both.weight,
            )
            lines.append(line.around(look, points=side == 1).in_order(self._payload_width(side)))
            self.rematched += len(lines[-1].key)
        return lines[0], lines[1]

    def _payload_width(self, side: int) -> int:
        return len(self._sides[side].payload_schema)

    def _pairs(self, left: _Line, right: _Line, match: _Match, keys: Bools, weight: int) -> Delta:
        """The pairs of some keys, from where the change begins."""
        wanted = match.changed & keys[right.key[match.right]]
        at = match.left[wanted], match.right[wanted]
        if not len(at[0]):
            return Delta.empty(self.schema)
        one, two = left.rows, right.rows
        sides = (
            TakenSide(one.payload, one.start, at[0]),
            TakenSide(two.payload, two.start, at[1]),
        )
        frame = pair_frame(*sides, self._needed, len(at[0]))
        start = two.start[at[1]]
        payload = evaluate_columns(self._node.result, frame, self.schema)
        return Delta(payload, start, start + 1, np.full(len(start), weight))

    # -------------------------------------------------------------------------------------- state

    def _forget(self, cti: int) -> None:
        """Right rows before the CTI have taken their left rows for good."""
        if cti == INFINITY:
            self._held = [TimeSlices(side.schema) for side in self._sides]
            return
        rights = self._held[1].overlapping(MIN_TIME, cti)
        rights = rights.filter(rights.start < cti)
        if len(rights):
            look = _Look.of_all(KeyNumbers.of(rights.payload, self._keys), cti)
            lefts = self._held[0].overlapping(int(rights.start.min()), cti)
            left, right = (
                _Line(rows, look.keys.numbers(rows.payload), rows.weight, rows.weight)
                .around(look, points=side == 1)
                .in_order(self._payload_width(side))
                for side, rows in enumerate((lefts, rights))
            )
            match = _match(left, right, left.after, right.after, look)
            taken = left.rows.take(match.left)
            self._held[0].add(
                Delta(taken.payload, taken.start, taken.end, -np.ones(len(taken), np.int64))
            )
            self._held[1].purge(cti)
        self._held[0].purge(cti - 1)

    def snapshot(self) -> Slices:
        held = {
            name: rows
            for side, held in zip(_SIDES, self._held, strict=True)
            for name, rows in held.snapshot(side).items()
        }
        return {**held, "progress": slice_of_progress(self._progress)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        for side, held in zip(_SIDES, self._held, strict=True):
            held.restore(side, slices)
        self._progress = progress_of_slice(slices["progress"])

    def state_size(self) -> StateSize:
        return self._held[0].size() + self._held[1].size()


@dataclass(frozen=True, slots=True)
class _Look:
    """Keys, when each of them changes (`since` to `until`), and the time around it that is looked
    at (`begin` to `end`)."""

    keys: KeyNumbers
    since: Times
    until: Times
    begin: Times
    end: Times

    @classmethod
    def of_all(cls, keys: KeyNumbers, end: int) -> _Look:
        """Whole keys, as far as `end`."""
        first, last = np.full(len(keys), MIN_TIME), np.full(len(keys), end)
        return cls(keys, first, last, first, last)

    def __len__(self) -> int:
        return len(self.since)

    def widen(self, back: Bools, ahead: Bools, beyond: int) -> _Look:
        """A wider look, where it is asked for; nothing is held from `beyond` on."""
        begin = np.where(back, self.since - (self.since - self.begin) * _WIDER, self.begin)
        end = np.where(ahead, self.until + (self.end - self.until) * _WIDER, self.end)
        return _Look(
            self.keys, self.since, self.until, begin, np.where(end > beyond, INFINITY, end)
        )

    def filter(self, mask: Bools) -> _Look:
        times = (self.since, self.until, self.begin, self.end)
        return _Look(self.keys.filter(mask), *(values[mask] for values in times))


@dataclass(frozen=True, slots=True)
class _Line:
    """Rows of one side with the number of their key, and how often each is there before and after a
    change."""

    rows: Delta
    key: Codes
    before: Weights
    after: Weights

    def around(self, look: _Look, *, points: bool) -> _Line:
        """The rows that are alive in the time that is looked at; points begin in it."""
        known = self.key >= 0
        begin, end = look.begin[self.key], look.end[self.key]
        inside = self.rows.start >= begin if points else self.rows.end > begin
        return self._take(np.flatnonzero(known & inside & (self.rows.start < end)))

    def in_order(self, width: int) -> _Line:
        """Equal rows as one, ordered by key, start, end and then by all columns."""
        rows = self.rows
        alike, size = encode([*rows.payload.columns, rows.start, rows.end], len(rows))
        representative = np.empty(size, np.int64)
        representative[alike] = np.arange(len(rows))
        before, after = np.zeros(size, np.int64), np.zeros(size, np.int64)
        np.add.at(before, alike, self.before)
        np.add.at(after, alike, self.after)
        distinct = self._take(representative)
        ranks = [rank_values(column) for column in distinct.rows.payload.columns[:width]]
        order = np.lexsort((*reversed(ranks), distinct.rows.end, distinct.rows.start, distinct.key))
        line = distinct._take(order)
        return _Line(line.rows, line.key, before[order], after[order])

    def _take(self, which: Codes) -> _Line:
        return _Line(self.rows.take(which), self.key[which], self.before[which], self.after[which])


@dataclass(frozen=True, slots=True)
class _Match:
    """Pairs of positions in both lines; by key, whether they depend on what came before; the left
    rows that wait in the end, as often as they do."""

    left: Codes
    right: Codes
    changed: Bools
    unsure: Bools
    waiting: Codes


def _match(left: _Line, right: _Line, lefts: Weights, rights: Weights, look: _Look) -> _Match:
    """Serve the right rows, each as often as `rights` says."""
    waiting, asking = (
        np.repeat(np.arange(len(lefts)), lefts),
        np.repeat(np.arange(len(rights)), rights),
    )
    key, asked = left.key[waiting], right.key[asking]
    starts, ends, times, begins, finals = on_one_axis(
        (key, left.rows.start[waiting]),
        (key, left.rows.end[waiting]),
        (asked, right.rows.start[asking]),
        (np.arange(len(look)), look.begin),
        (np.arange(len(look)), look.end),
    )
    low, high = np.searchsorted(ends, times, "right"), np.searchsorted(starts, times, "right")
    none, all_ = (
        np.searchsorted(key, np.arange(len(look)), "left"),
        np.searchsorted(starts, begins, "left"),
    )
    expired = np.searchsorted(ends, finals, "right")
    item, first = _serve_keys(low, high, asked, none, expired)
    other, other_first = _serve_keys(low, high, asked, all_, expired)
    changed = right.rows.start[asking] >= look.since[asked]
    unsure = first != other_first
    unsure[asked[(item != other) & changed]] = True
    paired = item >= 0
    return _Match(
        waiting[item[paired]],
        asking[paired],
        changed[paired],
        unsure,
        waiting[np.arange(len(waiting)) >= first[key]],
    )


def _serve_keys(
    low: Codes, high: Codes, asked: Codes, initial: Codes, expired: Codes
) -> tuple[Codes, Codes]:
    """For each request the item it takes, or -1; for each key the first item that waits in the
    end. Of each key the items before `initial` had been taken."""
    item, left = serve(np.maximum(low, initial[asked]), high)
    first = np.maximum(initial, expired)
    last = np.flatnonzero(np.append(asked[1:] != asked[:-1], True)) if len(asked) else asked
    first[asked[last]] = np.maximum(first[asked[last]], left[last])
    return item, first


def _waiting_differs(left: _Line, before: _Match, after: _Match, keys: int) -> Bools:
    """For each key, whether other left rows wait after the change than before it."""
    size = len(left.key)
    counts = np.bincount(before.waiting, minlength=size) != np.bincount(
        after.waiting, minlength=size
    )
    differs = np.zeros(keys, np.bool_)
    differs[left.key[counts]] = True
    return differs

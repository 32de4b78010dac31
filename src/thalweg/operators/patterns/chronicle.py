"""Chronicle: each right row, in the order of time, takes the earliest left row that waits.

    R' = {(s2, s2 + 1, result(p1, p2)) | (p2, s2) takes (p1, s1, e1)}   (see `plan.nodes.chronicle`)

Null keys match nothing; equal rows are served as often as they occur; a change of an end on the
right is none. A late or corrected row changes the pairs from its own time on, until the same left
rows wait as before: a batch matches that busy period of its keys again, not the whole key. Each
left row is held with the time at which it leaves the queue, so that the queue at the begin of the
busy period follows from the state.

State: left rows that wait at the CTI or later, held until they are taken or end; right rows from
the CTI on. Both in an arrangement by key. The CTI is the smaller of both.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, distinct_codes, encode_together
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest, least
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.joining.keyed_state import KeyedState
from thalweg.operators.joining.matching import keyed_sides
from thalweg.operators.joining.pairs import PairProjection, TakenSide
from thalweg.operators.patterns.chronicle_change import LeftChange
from thalweg.operators.patterns.chronicle_queues import (
    Look,
    Match,
    Queue,
    Requests,
    leaves_untaken,
    match_queues,
    waiting_differs,
)
from thalweg.plan.nodes import Chronicle
from thalweg.state import Hits

__all__ = ["ChronicleKernel"]

_FIRST_LOOK = 64
"""The first look behind a change is this part of the longest wait."""


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
        # A left row is held over the time it is in the queue; its own end is a mark.
        self._state = KeyedState(self._sides, node.same, marks=(1, 0), what="chronicle")
        self._left, self._right = self._state.held
        self._widths = [len(side.payload_schema) for side in self._sides]
        self._progress: list[Progress] = [NO_PROGRESS, NO_PROGRESS]
        self._result = PairProjection(node.result, node.schema, self._sides[0].schema.names)
        self._latest = MIN_TIME
        """No row that is held starts later."""
        self.rematched = 0
        """How many rows have been matched to answer changes, each time anew; what changes cost."""

    def process(self, port: int, batch: Batch) -> Batch:
        answer = Delta.empty(self.schema)
        if len(batch):
            delta = self._changes(port, Delta.of_batch(batch))
            if len(delta):
                answer = self._revise(port, delta)
        settled = self._settled()
        self._progress[port] = self._progress[port].merge(batch.progress)
        if self._settled() > settled:
            self._forget(self._settled())
        self._state.tidy()
        return answer.to_batch(Progress(self._settled()))

    def _settled(self) -> int:
        return min(progress.cti for progress in self._progress)

    # ------------------------------------------------------------------------------------ changes

    def _changes(self, port: int, delta: Delta) -> Delta:
        """What a batch changes: rows with their keys, points on the right, and no left row that was
        taken before the CTI."""
        keyed = self._sides[port].project(delta, only_matchable=True)
        if port == 1:
            keyed = Delta(keyed.payload, keyed.start, keyed.start + 1, keyed.weight)
        if len(keyed) and least(keyed.weight) < 0:
            keyed = keyed.consolidate()
        if port == 1:
            return keyed
        old = keyed.start < self._settled()
        if not old.any():
            return keyed
        kept = self._still_held(keyed.filter(old))
        return Delta.concat([keyed.filter(~old), kept], keyed.schema)

    def _still_held(self, delta: Delta) -> Delta:
        """Changes of ends, for the rows that are still held. Where some of several equal rows were
        taken, the others change."""
        held = self._queued(delta).distinct()[0].delta()
        row, change, size = encode_together(
            [*held.payload.columns, pa.array(held.start)],
            [*delta.payload.columns, pa.array(delta.start)],
            (len(held), len(delta)),
        )
        present, leaving = np.zeros(size, np.int64), np.zeros(size, np.int64)
        np.add.at(present, row, held.weight)
        leaves = delta.weight < 0
        np.add.at(leaving, change[leaves], -delta.weight[leaves])
        share = np.minimum(present, leaving)[change]
        weight = np.where(leaves, -share, np.minimum(delta.weight, share))
        return Delta(delta.payload, delta.start, delta.end, weight).filter(weight != 0)

    def _queued(self, rows: Delta) -> Hits:
        """For each left row those of equal start and columns that are in the queue at the CTI or
        later."""
        since = np.full(len(rows), self._settled())
        found = self._left.find(self._state.groups(rows.payload), since, rows.start + 1)
        found = found.filter(found.start == rows.start[found.owner])
        return found.equal_to(rows.payload)

    def _leaving(self, rows: Delta) -> Hits:
        """The rows that a change takes away; of equal ones those that leave the queue first."""
        found = self._queued(rows)
        found = found.filter(found.mark(0) == rows.end[found.owner])
        order = sort_pairs(found.owner, found.end)
        owner = found.owner[order]
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.searchsorted(owner, owner)
        taken = found.filter(rank < -rows.weight[found.owner])
        missing = np.bincount(taken.owner, minlength=len(rows)) < -rows.weight
        if missing.any():
            at = int(np.argmax(missing))
            row = rows.payload.slice(at, 1).to_pylist()[0]
            raise UnknownRowError(f"chronicle: a row that is not held is taken away: {row}.")
        return taken

    # ------------------------------------------------------------------------------------ matching

    def _revise(self, port: int, delta: Delta) -> Delta:
        """The pairs that a change of one side adds and removes; holds the change."""
        group = self._state.groups(delta.payload)
        settled = self._settled()
        # A row from before the CTI only changes its end.
        when = np.where(delta.start < settled, delta.end, delta.start)
        change = LeftChange.none(self._left.schema)
        if port == 0:
            change = LeftChange.adding(delta, group)
            old = np.flatnonzero(delta.weight < 0)
            if len(old):
                removed = self._leaving(delta.take(old))
                # Where a row has been taken already, that is matched again with its new end.
                np.minimum.at(when, old[removed.owner], removed.end - 1)
                change = change.and_removing(removed)
                removed.set_weight(np.zeros(len(removed), np.int64))
        self._latest = max(self._latest, greatest(delta.start))
        look = self._first_look(group, when)
        if port == 0 and not self._has_requests(look):
            self._enqueue(delta, group)
            return Delta.empty(self.schema)
        parts: list[Delta] = []
        while len(look):
            left, found = self._waiting(change, look)
            right = self._requests((delta, group) if port == 1 else None, look)
            self.rematched += len(left.key) + len(right.key)
            before, after = match_queues(left, right, look)
            done = look.end == INFINITY
            if not done.all():
                done |= ~waiting_differs(left, before, after, len(look))
            parts.append(self._changed_pairs(left, right, before, after, done))
            self._move(left, right, after, found, look, done)
            look = look.widen(self._latest).filter(~done)
        if port == 1:
            self._right.apply(delta, group)
        return Delta.concat(parts, self.schema)

    def _has_requests(self, look: Look) -> bool:
        """Whether these keys have a right row at or after their first change."""
        return len(self._right.find(look.group, look.since, np.full(len(look), INFINITY))) > 0

    def _enqueue(self, delta: Delta, group: Codes) -> None:
        """Hold new left rows of keys without right rows that could take them."""
        change = LeftChange.adding(delta, group)
        rows, ones = change.rows, np.ones(len(change.group), np.int64)
        queued = Delta(rows.payload, rows.start, leaves_untaken(rows.end), ones)
        self._left.add(queued, change.group, (rows.end,))

    def _first_look(self, group: Codes, when: Times) -> Look:
        """The keys of a change, and when each of them changes. While few rows are held, all that
        follow are looked at: one look at them costs less than a second one."""
        keys, code = distinct_codes(group)
        since, until = np.full(len(keys), INFINITY), np.full(len(keys), MIN_TIME)
        np.minimum.at(since, code, when)
        np.maximum.at(until, code, when)
        if self._left.is_small and self._right.is_small:
            return Look(keys, since, until, np.full(len(keys), INFINITY))
        step = max(self._node.longest // _FIRST_LOOK, 1)
        return Look(keys, since, until, np.minimum(until, INFINITY - step) + step)

    def _waiting(self, change: LeftChange, look: Look) -> tuple[Queue, Hits]:
        """The left rows that are in the queue during a look, and where they are held."""
        found = self._left.find(look.group, look.since, look.end)
        own, key = change.during(look)
        held = found.delta()
        rows = Delta.concat(
            [Delta(held.payload, held.start, found.mark(0), held.weight), own.rows],
            self._left.schema,
        )
        size = len(found)
        there = np.ones(size, np.bool_)
        queue = Queue.in_order(
            rows,
            np.concatenate([found.owner, key]),
            np.concatenate([held.end, own.leaves]),
            np.concatenate([there, own.removed]),
            np.concatenate([there, ~own.removed]),
            np.concatenate([np.arange(size), np.full(len(key), -1)]),
            self._widths[0],
        )
        return queue, found

    def _requests(self, change: tuple[Delta, Codes] | None, look: Look) -> Requests:
        """The right rows that take left ones during a look; a change of them is not held yet."""
        found = self._right.find(look.group, look.since, look.end)
        rows, key = found.delta(), found.owner
        size = len(rows)
        if change is not None:
            delta, group = change
            which, number = look.contains(group, delta.end, delta.start)
            inside = delta if len(which) == len(delta) else delta.take(which)
            rows = Delta.concat([rows, inside], rows.schema)
            key = np.concatenate([key, number])
        return Requests.in_order(rows, key, np.arange(len(rows)) >= size, self._widths[1])

    def _move(
        self, left: Queue, right: Requests, after: Match, found: Hits, look: Look, done: Bools
    ) -> None:
        """Hold the left rows of some keys until the time at which they leave the queue now."""
        end, leaves = left.end, left.leaves.copy()
        over = end <= look.end[left.key]
        leaves[over] = leaves_untaken(end[over])
        taken = after.taken >= 0
        leaves[taken] = right.start[after.taken[taken]] + 1
        in_keys = done[left.key]
        held = left.place >= 0
        moved = in_keys & left.after & (~held | (leaves != left.leaves))
        stale = np.zeros(len(found), np.bool_)
        stale[left.place[moved & held]] = True
        moved_from = found.filter(stale)
        moved_from.set_weight(np.zeros(len(moved_from), np.int64))
        which = moved.nonzero()[0]
        rows = left.rows.take(left.order[which])
        ones = np.ones(len(which), np.int64)
        queued = Delta(rows.payload, rows.start, leaves[which], ones)
        self._left.add(queued, look.group[left.key[which]], (rows.end,))

    def _changed_pairs(
        self, left: Queue, right: Requests, before: Match, after: Match, keys: Bools
    ) -> Delta:
        """The pairs of some keys that are added and removed."""
        changed = (before.taken != after.taken) & keys[left.key]
        added = (changed & (after.taken >= 0)).nonzero()[0]
        removed = (changed & (before.taken >= 0)).nonzero()[0]
        lefts = np.concatenate([added, removed])
        if not len(lefts):
            return Delta.empty(self.schema)
        rights = np.concatenate([after.taken[added], before.taken[removed]])
        sides = (
            TakenSide(left.rows.payload, left.rows.start, left.order[lefts]),
            TakenSide(right.rows.payload, right.rows.start, right.order[rights]),
        )
        start = right.start[rights]
        payload = self._result.of(sides, len(lefts))
        weight = np.where(np.arange(len(lefts)) < len(added), 1, -1)
        return Delta(payload, start, start + 1, weight)

    # -------------------------------------------------------------------------------------- state

    def _forget(self, cti: int) -> None:
        """Right rows before the CTI have taken their left rows for good."""
        if cti == INFINITY:
            self._state.clear()
            return
        self._left.purge(cti)
        self._right.purge(cti)

    def snapshot(self) -> Slices:
        return {**self._state.snapshot(), "progress": slice_of_progress(self._progress)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._state.restore(slices)
        self._progress = progress_of_slice(slices["progress"])
        starts = [held.all().start for held in self._state.held]
        self._latest = max(int(start.max(initial=MIN_TIME)) for start in starts)
        if self._settled() > MIN_TIME:
            self._forget(self._settled())

    def state_size(self) -> StateSize:
        return self._state.size()

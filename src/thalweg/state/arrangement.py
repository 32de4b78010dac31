"""An arrangement: weighted rows held by group and by time.

New rows wait in a small unsorted tail. When that is full they are sorted into slots (see `slots`),
each of a few runs (see `runs`). So

    a group is found by search in a few dozen runs, whatever the number of rows
    a CTI drops whole slots, and rewrites a run only when half of it has ended
    a micro-batch writes the tail, now and then some runs, and a patch for weights that changed

Rows that have ended may still be held for a while; `find` does not return them where `since` is at
or after the time up to which the arrangement was purged, as it is in every legal stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows, encode, used_codes
from thalweg.model.sorting import representatives
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest, least
from thalweg.state.columns import RowColumns
from thalweg.state.hits import Hits, joined
from thalweg.state.overlaps import overlapping_pairs
from thalweg.state.patches import PatchLog
from thalweg.state.runs import Run
from thalweg.state.saving import read_arrangement, write_arrangement
from thalweg.state.search import (
    ended,
    latest_end_before,
    occurrence,
    of_groups,
    of_lifetime,
    overlapping,
    soonest_end_after,
)
from thalweg.state.slices import Slices, StateSize
from thalweg.state.slots import SlotTable

__all__ = ["Arrangement"]

_TAIL = 256
"""The most rows that wait unsorted."""
_SMALL = 16
"""A tail of at most this many rows drops a row as soon as it has ended."""
_BITS = 30
"""Bits of the end that a run is sorted by, besides the group."""
_BULK = 4_096
"""From this number of probes on, probes and rows are sorted together instead of searched."""


class Arrangement:
    """
    >>> held = Arrangement(pa.schema([("v", pa.int64())]), lambda rows: rows.column(0).to_numpy())
    >>> rows = pa.RecordBatch.from_pydict({"v": [1, 1, 2]})
    >>> delta = Delta(rows, np.array([0, 5, 0]), np.array([4, 9, 9]), np.ones(3, np.int64))
    >>> held.apply(delta, np.array([1, 1, 2]))
    >>> held.find(np.array([1]), np.array([4]), np.array([100])).start
    array([5])
    >>> held.purge(4), len(held)
    (1, 2)
    """

    def __init__(
        self,
        schema: pa.Schema,
        group_of: Callable[[Rows], Codes],
        *,
        marks: int = 0,
        hashed: bool = False,
        what: str = "",
    ) -> None:
        """`group_of` computes the groups of rows after a restart. With `hashed` groups are 62-bit
        hashes instead of small numbers. `marks` is how many whole numbers are kept beside each row;
        `what` names the operator in messages."""
        self.schema = schema
        self._group_of = group_of
        self._marks = marks
        self._hashed = hashed
        self._what = what
        self._slots = SlotTable(0 if hashed else _BITS)
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._slots.clear()
        self._tail: Run | None = None
        self._patches = PatchLog()
        self._purged = MIN_TIME

    # --------------------------------------------------------------------------------------------
    # change

    def apply(
        self,
        delta: Delta,
        group: Codes,
        marks: tuple[Times, ...] = (),
        *,
        by_marks: bool = False,
        strict: bool = True,
    ) -> None:
        """Add rows and remove rows (see `remove`), with `by_marks` only rows of equal marks."""
        if not len(delta):
            return
        if least(delta.weight) > 0:
            self.add(delta, group, marks)
            return
        new = delta.weight > 0
        size, count = len(delta), int(np.count_nonzero(new))
        sought = marks if by_marks else ()
        if size <= _TAIL and new[size - count :].all():  # a batch's delta has additions last
            cut = size - count
            self.add(delta.slice(cut, size), group[cut:], tuple(mark[cut:] for mark in marks))
            sought = tuple(mark[:cut] for mark in sought)
            self.remove(delta.slice(0, cut), group[:cut], sought, strict=strict)
            return
        if count:
            self.add(delta.filter(new), group[new], tuple(mark[new] for mark in marks))
        old = ~new
        sought = tuple(mark[old] for mark in sought)
        self.remove(delta.filter(old), group[old], sought, strict=strict)

    def add(self, delta: Delta, group: Codes, marks: tuple[Times, ...] = ()) -> None:
        """Add rows of positive weight."""
        if not len(delta):
            return
        rows = RowColumns(group, delta.start, delta.end, delta.weight, marks, delta.payload)
        tail = self._tail
        if tail is None:
            # Weights and marks are changed in place later, which must not change the batch.
            own = tuple(mark.copy() for mark in marks)
            weight = delta.weight.copy()
            rows = RowColumns(group, delta.start, delta.end, weight, own, delta.payload)
        elif len(tail) + len(rows) <= _TAIL:
            tail.extend(rows)
            return
        else:
            rows = RowColumns.concat([tail.living(), rows])
        if len(rows) <= _TAIL:
            self._tail = Run.unsorted(rows)
            return
        self._tail = None
        self._slots.add(rows)

    def remove(
        self, delta: Delta, group: Codes, marks: tuple[Times, ...] = (), *, strict: bool = True
    ) -> None:
        """Take rows away: the weights of `delta` are negative. A row is taken only if its
        first marks equal `marks` too. Unless `strict`, a row that is not there is ignored."""
        if len(delta) <= _TAIL:
            found = self.find_equal(delta, group, marks)
            if _is_one_to_one(found, len(delta)):
                rest = found.weight + delta.weight
                if least(rest) >= 0:
                    found.set_weight(rest)
                    return
        delta, group, marks = _each_once(delta, group, marks)
        found = self.find_equal(delta, group, marks)
        left = -delta.weight
        weight = found.weight.copy()
        rank = occurrence(found.owner)
        for turn in range(int(rank.max(initial=-1)) + 1):  # equal rows may be held in several runs
            hit = (rank == turn).nonzero()[0]
            taken = np.minimum(weight[hit], left[found.owner[hit]])
            weight[hit] -= taken
            left[found.owner[hit]] -= taken
        if strict and left.any():
            at = int(np.argmax(left > 0))
            raise UnknownRowError(
                f"{self._what}: adjust of a row that was never inserted: "
                f"{delta.payload.slice(at, 1).to_pylist()[0]} over [{delta.start[at]}, "
                f"{delta.end[at]})."
            )
        found.set_weight(weight)

    def groups(self) -> Codes:
        """The groups that have a row."""
        groups = [run.rows.group for run in self._runs()]
        if self._hashed:
            return np.unique(np.concatenate(groups)) if groups else _NONE
        return used_codes(groups)

    def renumber(self, moved: Codes) -> None:
        """Change the numbers of groups to `moved[old]`; the order of groups stays."""
        for run in self._runs():
            run.renumber(moved)

    # --------------------------------------------------------------------------------------------
    # find

    def find(self, group: Codes, since: Times, until: Times) -> Hits:
        """For each probe the rows of its group that end after `since` and start before `until`."""
        if not len(group) or self.is_empty():
            return Hits(self.schema, _NONE, [])
        near = self._near(since, until)
        if len(group) > _BULK:
            return self._find_many(near, group, since, until)
        return self._hits(near, lambda run: overlapping(run, group, since, until))

    def of_groups(self, group: Codes, after: int = MIN_TIME) -> Hits:
        """For each probe the rows of its group that end after a time."""
        size = len(group)
        if size > _BULK:
            return self.find(group, np.full(size, after), np.full(size, INFINITY))
        runs = self._runs(after) if size else ()
        return self._hits(runs, lambda run: of_groups(run, group, after))

    def _hits(self, runs: Iterable[Run], search: Callable[[Run], tuple[Codes, Codes]]) -> Hits:
        """The hits of a search in some runs, which returns pairs (probe, position) for a run."""
        owners: list[Codes] = []
        parts: list[tuple[Run, Codes]] = []
        for run in runs:
            owner, at = search(run)
            if len(at):
                owners.append(owner)
                parts.append((run, at))
        return Hits(self.schema, joined(owners), parts)

    def _of_no_probe(self, parts: Iterable[tuple[Run, Codes]]) -> Hits:
        """Hits for rows at some positions, which no probe has found."""
        found = [(run, at) for run, at in parts if len(at)]
        return Hits(self.schema, np.zeros(sum(len(at) for _, at in found), np.int64), found)

    def _near(self, since: Times, until: Times) -> list[Run]:
        """The runs that may have a row between the earliest and the latest time of the probes."""
        if not self._slots.slots:
            return [] if self._tail is None else [self._tail]
        low, high = least(since), greatest(until)
        return [run for run in self._runs(low) if run.first < high]

    def _find_many(self, near: list[Run], group: Codes, since: Times, until: Times) -> Hits:
        if not near:
            return Hits(self.schema, _NONE, [])
        alive = [(run.rows.weight != 0).nonzero()[0] for run in near]
        groups, start, end = (
            np.concatenate([getattr(r.rows, name)[at] for r, at in zip(near, alive, strict=True)])
            for name in ("group", "start", "end")
        )
        if self._hashed:  # hashes are too large to be combined with a time
            code, _ = encode([np.concatenate([group, groups])], len(group) + len(groups))
            group, groups = code[: len(group)], code[len(group) :]
        owner, other = overlapping_pairs(group, since, until, groups, start, end)
        cuts = np.cumsum([0, *map(len, alive)])
        which = cuts.searchsorted(other, "right") - 1
        order = which.argsort(kind="stable")
        owner, other, which = owner[order], other[order], which[order]
        bounds = which.searchsorted(np.arange(len(near) + 1)).tolist()
        parts = [
            (run, at[other[begin:end] - cut])
            for run, at, cut, (begin, end) in zip(
                near, alive, cuts.tolist(), pairwise(bounds), strict=False
            )
            if end > begin
        ]
        return Hits(self.schema, owner, parts)

    def find_equal(self, rows: Delta, group: Codes, marks: tuple[Times, ...] = ()) -> Hits:
        """For each row the held rows of equal lifetime, equal payload in the columns of `rows`, and
        equal first `marks`."""
        found = self._of_lifetime(group, rows.start, rows.end)
        for at, mark in enumerate(marks):
            found = found.filter(found.mark(at) == mark[found.owner])
        return found.equal_to(rows.payload)

    def _of_lifetime(self, group: Codes, start: Times, end: Times) -> Hits:
        """For each probe the rows of its group that start and end at its times."""
        runs = self._runs(least(end) - 1)
        if len(group) <= _BULK:
            return self._hits(runs, lambda run: of_lifetime(run, group, start, end))
        # Many binary searches are faster in sorted order.
        order = group.argsort(kind="stable")
        groups, starts, ends = group[order], start[order], end[order]
        found = self._hits(runs, lambda run: of_lifetime(run, groups, starts, ends))
        return Hits(self.schema, order[found.owner], found.parts)

    def last_end_before(self, group: Codes, times: Times) -> Times:
        """For each probe the latest end before a time of a row of its group; MIN_TIME: none."""
        if len(group) > _BULK:
            return _in_order(self._last_end_before, group, times)
        return self._last_end_before(group, times)

    def _last_end_before(self, group: Codes, times: Times) -> Times:
        latest = np.full(len(group), MIN_TIME)
        if not len(group):
            return latest
        high = greatest(times)
        for run in self._runs():
            if run.soonest < high:
                np.maximum(latest, latest_end_before(run, group, times), out=latest)
        return latest

    def first_end_after(self, group: Codes, times: Times) -> Times:
        """For each probe the earliest end after a time of a row of its group; INFINITY: none. Rows
        without an end do not count."""
        if len(group) > _BULK:
            return _in_order(self._first_end_after, group, times)
        return self._first_end_after(group, times)

    def _first_end_after(self, group: Codes, times: Times) -> Times:
        soonest = np.full(len(group), INFINITY)
        if not len(group):
            return soonest
        for run in self._runs(least(times)):
            np.minimum(soonest, soonest_end_after(run, group, times), out=soonest)
        return soonest

    def between(self, since: int, until: int) -> Hits:
        """The rows of all groups that end after `since` and start before `until`."""
        near = (run for run in self._runs(since) if run.first < until)
        return self._of_no_probe((run, run.within(since, until)) for run in near)

    def all(self) -> Hits:
        """Every row."""
        return self._of_no_probe((run, run.rows.weight.nonzero()[0]) for run in self._runs())

    def __len__(self) -> int:
        tail = self._tail
        waiting = 0 if tail is None else int(np.count_nonzero(tail.alive(self._purged)))
        return waiting + sum(len(run) - run.dead for run in self._slots.runs())

    @property
    def purged(self) -> int:
        """Rows that end by this time are forgotten, though some may still be held."""
        return self._purged

    def is_empty(self) -> bool:
        return self._tail is None and not self._slots.slots

    @property
    def is_small(self) -> bool:
        """Whether all rows are in the tail: too few for it to pay to remove some of them."""
        return not self._slots.slots

    def first(self) -> int:
        """The earliest start of a row that is held."""
        until = self._purged
        return min((run.first_alive(until) for run in self._runs(until)), default=INFINITY)

    def least(self, columns: Sequence[str]) -> list[int] | None:
        """The smallest value of each of these columns of whole numbers without nulls, INFINITY for
        an empty column; None when a row is null in all of them."""
        lows = [INFINITY] * len(columns)
        for run in self._runs(self._purged):
            least = run.least(columns, self._purged)
            if least is None:
                return None
            lows = [min(pair) for pair in zip(lows, least, strict=True)]
        return lows

    def latest_end(self, before: int) -> int:
        """The latest end of the rows that start before a time; MIN_TIME: there is none."""
        latest = MIN_TIME
        for run in self._runs(self._purged):
            if run.first < before:
                early = run.alive(self._purged) & (run.rows.start < before)
                latest = max(latest, int(run.rows.end[early].max(initial=MIN_TIME)))
        return latest

    def _runs(self, after: int = MIN_TIME) -> Iterator[Run]:
        """The runs that may have a row which ends after a time."""
        if self._tail is not None and self._tail.last > after:
            yield self._tail
        if self._slots.slots:
            yield from self._slots.runs(after)

    # --------------------------------------------------------------------------------------------
    # time

    def purge(self, until: int) -> int:
        """Forget the rows that have ended by a time; returns how many were dropped."""
        tail, alive = self._drop_tail(until)
        count = 0 if tail is None else len(tail) - tail.dead - int(np.count_nonzero(alive))
        if self._slots.slots:
            count += sum(map(len, self._slots.drop(until)))
        return count

    def drop(self, until: int) -> list[RowColumns]:
        """Forget the rows that have ended by a time; returns the rows that were dropped now."""
        dropped: list[RowColumns] = []
        tail, alive = self._drop_tail(until)
        if tail is not None:
            dropped.append(tail.rows.aside((~alive & (tail.rows.weight != 0)).nonzero()[0]))
        if self._slots.slots:
            dropped += self._slots.drop(until)
        return [rows for rows in dropped if len(rows)]

    def _drop_tail(self, until: int) -> tuple[Run | None, Bools]:
        """Forget the rows of the tail that have ended; returns the tail before and which of its
        rows stayed, or None if it did not change. Like a run it is made anew when half of its rows
        have ended or were removed, a small tail as soon as a row has ended."""
        self._purged = max(self._purged, until)
        tail = self._tail
        if tail is None or (tail.soonest > until and 2 * tail.dead < len(tail)):
            return None, _NO_ROWS
        alive = tail.alive(until)
        living = alive.nonzero()[0]
        if 2 * len(living) > len(tail) > _SMALL:
            return None, _NO_ROWS
        self._tail = Run.unsorted(tail.rows.aside(living)) if len(living) else None
        return tail, alive

    def release(self, until: int) -> Hits:
        """The rows that have ended by a time and were not released before. They are forgotten, so
        the hits must not be changed."""
        found = self.ending(until)
        self.purge(until)
        return found

    def ending(self, until: int) -> Hits:
        """The rows that have ended by a time and are not forgotten yet."""
        purged = self._purged
        return self._of_no_probe((run, run.ending(purged, until)) for run in self._runs(purged))

    def drop_groups(self, group: Codes, until: Times) -> list[RowColumns]:
        """Forget the rows of some groups that have ended by a time of their group; returns the rows
        that were dropped now, of these groups or of others."""
        dropped = []
        for run in list(self._runs()):
            _, at = ended(run, group, until)
            if len(at):
                dropped.append(run.rows.take(at))
                Hits(self.schema, at, [(run, at)]).set_weight(np.zeros(len(at), np.int64))
        return dropped + self.drop(self._purged) if dropped else []

    # --------------------------------------------------------------------------------------------
    # snapshots

    def snapshot(self, name: str) -> Slices:
        """One slice for each run, the tail and each patch (see `saving`)."""
        if self._tail is not None and self._tail.dead:
            rows = self._tail.living()
            self._tail = Run.unsorted(rows) if len(rows) else None
        return write_arrangement(name, self._tail, self._slots, self._patches)

    def restore(self, name: str, slices: Mapping[str, Rows]) -> None:
        """The inverse of `snapshot`."""
        self.clear()
        self._tail = read_arrangement(
            name, slices, self.schema, self._groups_of, self._slots, self._patches
        )

    def _groups_of(self, rows: RowColumns) -> Codes:
        """The groups of restored rows."""
        return self._group_of(rows.payload)

    def size(self) -> StateSize:
        return StateSize(len(self), sum(run.rows.nbytes for run in self._runs()))


def _in_order(find: Callable[[Codes, Times], Times], group: Codes, times: Times) -> Times:
    """The results of many searches, made in sorted order, where each ends near the one before."""
    order = group.argsort()
    found = np.empty(len(group), np.int64)
    found[order] = find(group[order], times[order])
    return found


_NONE = np.empty(0, np.int64)
_NO_ROWS = np.empty(0, np.bool_)


def _is_one_to_one(found: Hits, probes: int) -> bool:
    """Whether each probe has found exactly one row, and all rows differ."""
    if len(found) != probes or len(found.parts) != 1:
        return False
    run, at = found.parts[0]
    if (found.owner[1:] <= found.owner[:-1]).any():
        return False
    hit = np.zeros(len(run), np.bool_)
    hit[at] = True
    return int(np.count_nonzero(hit)) == probes


def _each_once(
    delta: Delta, group: Codes, marks: tuple[Times, ...]
) -> tuple[Delta, Codes, tuple[Times, ...]]:
    """Equal rows as one with the sum of their weights."""
    if len(delta) == 1:
        return delta, group, marks
    code, size = encode([*delta.payload.columns, delta.start, delta.end, *marks], len(delta))
    if size == len(delta):
        return delta, group, marks
    representative = representatives(code, size)
    weight = np.zeros(size, np.int64)
    np.add.at(weight, code, delta.weight)
    rows = delta.take(representative)
    once = Delta(rows.payload, rows.start, rows.end, weight)
    return once, group[representative], tuple(mark[representative] for mark in marks)

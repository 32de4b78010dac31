"""An arrangement: weighted rows held by group and by time.

New rows wait in a small unsorted tail. When that is full they are sorted into slots, by how long
they last (classes of a factor of 64) and, within a class, by when they end; a slot is a power of two
wide, and where a class has come to spread over too many slots, neighbours are joined. A slot holds
few runs (see `runs`), each at least three times as long as the next: a new one is merged with those
that are not. So

    a group is found by search in a few dozen runs, whatever the number of rows
    a CTI drops whole slots, and rewrites a run only when half of it has ended
    a micro-batch writes the tail, now and then some runs, and a patch for weights that changed

Rows that have ended may still be held for a while; `find` does not return them where `since` is at
or after the time up to which the arrangement was purged, as it is in every legal stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from thalweg.errors import StateError, UnknownRowError
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, encode, encode_together
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.state.hits import Hits
from thalweg.state.overlaps import overlapping_pairs
from thalweg.state.patches import Patch, PatchLog
from thalweg.state.runs import Columns, Run, read_columns, write_columns
from thalweg.state.slices import Slices, StateSize

__all__ = ["Arrangement"]

_TAIL = 256
"""Rows that wait unsorted."""
_RATIO = 3
"""A run is at least so many times as long as the next one of its slot."""
_MOST = 16
"""Slots of one class; when there are more, they become twice as wide."""
_CLASS_BITS = 6
_ENDLESS = 20
"""The class of rows without an end: one slot."""
_BITS = 30
"""Bits of the end that a run is sorted by, besides the group."""
_SQUARE = 8_192
"""So many pairs of a probe and a row of the tail are simply compared."""
_BULK = 4_096
"""So many probes are not looked up one by one: both sides are sorted together."""


@dataclass(slots=True)
class _Slot:
    runs: list[Run] = field(default_factory=list)
    last: int = MIN_TIME


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
        """`group_of` finds the groups of rows again after a restart. With `hashed` groups are
        62-bit hashes instead of small numbers. `what` names the operator in messages."""
        self.schema = schema
        self._group_of = group_of
        self._marks = marks
        self._bits = 0 if hashed else _BITS
        self._what = what
        self._number = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._slots: dict[tuple[int, int], _Slot] = {}
        self._widths: dict[int, int] = {}
        self._tail: Run | None = None
        self._patches = PatchLog()
        self._purged = MIN_TIME

    # ----------------------------------------------------------------------------------------------
    # change

    def apply(self, delta: Delta, group: Codes, marks: tuple[Times, ...] = ()) -> None:
        """Add rows and take rows away. A row that is taken away and was never there is an error."""
        if not len(delta):
            return
        if int(delta.weight.min()) > 0:
            self.add(delta, group, marks)
            return
        comes = delta.weight > 0
        if comes.any():
            self.add(delta.filter(comes), group[comes], tuple(mark[comes] for mark in marks))
        goes = ~comes
        self.remove(delta.filter(goes), group[goes])

    def add(self, delta: Delta, group: Codes, marks: tuple[Times, ...] = ()) -> None:
        """Keep rows of positive weight."""
        if not len(delta):
            return
        rows = Columns(group, delta.start, delta.end, delta.weight, marks, delta.payload)
        if self._tail is None:
            # Weights and marks are changed in place, and those of a batch are not ours to change.
            own = tuple(mark.copy() for mark in marks)
            weight = delta.weight.copy()
            rows = Columns(group, delta.start, delta.end, weight, own, delta.payload)
        else:
            rows = Columns.concat([_living(self._tail), rows])
        if len(rows) <= _TAIL:
            self._tail = Run.unsorted(rows)
            return
        self._tail = None
        self._sort_in(rows)

    def remove(self, delta: Delta, group: Codes) -> None:
        """Take rows away: the weights of `delta` are negative."""
        delta, group = _each_once(delta, group)
        found = self.find(group, delta.end - 1, delta.start + 1)
        exact = (found.start == delta.start[found.owner]) & (found.end == delta.end[found.owner])
        found = found.filter(exact)
        asked, held, _ = encode_together(
            list(delta.payload.columns), list(found.payload().columns), (len(delta), len(found))
        )
        found = found.filter(asked[found.owner] == held)
        left = -delta.weight
        weight = found.weight.copy()
        rank = _rank(found.owner)
        for turn in range(int(rank.max(initial=-1)) + 1):  # equal rows may be held in several runs
            hit = np.flatnonzero(rank == turn)
            taken = np.minimum(weight[hit], left[found.owner[hit]])
            weight[hit] -= taken
            left[found.owner[hit]] -= taken
        if left.any():
            at = int(np.argmax(left > 0))
            raise UnknownRowError(
                f"{self._what}: adjust of a row that was never inserted: "
                f"{delta.payload.slice(at, 1).to_pylist()[0]} over [{delta.start[at]}, {delta.end[at]})."
            )
        found.set_weight(weight)

    def groups(self) -> Codes:
        """The groups that have a row."""
        found = [np.unique(run.rows.group) for run in self._runs()]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def renumber(self, moved: Codes) -> None:
        """Groups have got new numbers, in the same order: `moved` has the new one of each."""
        for run in self._runs():
            run.rows.group = moved[run.rows.group]
            high = run.place & ((1 << run.bits) - 1)
            run.place = (run.rows.group << run.bits) + high

    # ----------------------------------------------------------------------------------------------
    # find

    def find(self, group: Codes, since: Times, until: Times) -> Hits:
        """For each probe the rows of its group that end after `since` and start before `until`."""
        none = np.empty(0, np.int64)
        if not len(group):
            return Hits(self.schema, none, [])
        low, high = int(since.min()), int(until.max())
        near = [run for run in self._runs(low) if run.first < high]
        if len(group) > _BULK:
            return self._find_many(near, group, since, until)
        owners: list[Codes] = []
        parts: list[tuple[Run, Codes]] = []
        for run in near:
            owner, at = _candidates(run, group, since)
            if not len(at):
                continue
            rows = run.rows
            hit = (rows.ends(at) > since[owner]) & (rows.start[at] < until[owner])
            if run.dead:
                hit &= rows.weights(at) != 0
            if hit.all():
                owners.append(owner)
                parts.append((run, at))
            elif hit.any():
                owners.append(owner[hit])
                parts.append((run, at[hit]))
        owner = owners[0] if len(owners) == 1 else np.concatenate(owners) if owners else none
        return Hits(self.schema, owner, parts)

    def _find_many(self, near: list[Run], group: Codes, since: Times, until: Times) -> Hits:
        none = np.empty(0, np.int64)
        if not near:
            return Hits(self.schema, none, [])
        alive = [np.flatnonzero(run.rows.weight != 0) for run in near]
        groups, start, end = (
            np.concatenate([getattr(r.rows, name)[at] for r, at in zip(near, alive, strict=True)])
            for name in ("group", "start", "end")
        )
        if not self._bits:  # hashes are too large to be combined with a time
            code, _ = encode([np.concatenate([group, groups])], len(group) + len(groups))
            group, groups = code[: len(group)], code[len(group) :]
        owner, other = overlapping_pairs(group, since, until, groups, start, end)
        cuts = np.cumsum([0, *map(len, alive)])
        which = np.searchsorted(cuts, other, "right") - 1
        order = np.argsort(which, kind="stable")
        owner, other, which = owner[order], other[order], which[order]
        bounds = np.searchsorted(which, np.arange(len(near) + 1)).tolist()
        parts = [
            (run, at[other[begin:end] - cut])
            for run, at, cut, (begin, end) in zip(
                near, alive, cuts.tolist(), pairwise(bounds), strict=False
            )
            if end > begin
        ]
        return Hits(self.schema, owner, parts)

    def last_end_before(self, group: Codes, times: Times) -> Times:
        """For each probe the latest end before a time of a row of its group; MIN_TIME: none."""
        latest = np.full(len(group), MIN_TIME)
        if not len(group):
            return latest
        for run in self._runs():
            if run.soonest >= int(times.max()):
                continue
            rows = run.rows
            owner, at = _candidates(run, group, times - 1)
            hit = (rows.ends(at) < times[owner]) & (rows.weights(at) != 0)
            np.maximum.at(latest, owner[hit], rows.ends(at[hit]))
            if run.number:
                np.maximum(latest, _before(run, group, times - 1), out=latest)
        return latest

    def between(self, since: int, until: int) -> Hits:
        """The rows of all groups that end after `since` and start before `until`."""
        parts = []
        for run in self._runs(since):
            rows = run.rows
            if run.first < until:
                inside = (rows.end > since) & (rows.start < until) & (rows.weight != 0)
                if inside.any():
                    parts.append((run, np.flatnonzero(inside)))
        size = sum(len(at) for _, at in parts)
        return Hits(self.schema, np.zeros(size, np.int64), parts)

    def all(self) -> Hits:
        """Every row."""
        parts = [(run, np.flatnonzero(run.rows.weight != 0)) for run in self._runs()]
        parts = [(run, at) for run, at in parts if len(at)]
        size = sum(len(at) for _, at in parts)
        return Hits(self.schema, np.zeros(size, np.int64), parts)

    def __len__(self) -> int:
        return sum(len(run) - run.dead for run in self._runs())

    def is_empty(self) -> bool:
        return self._tail is None and not self._slots

    def first(self) -> int:
        """The earliest start of a row that is held."""
        until = self._purged
        return min((run.first_alive(until) for run in self._runs(until)), default=INFINITY)

    def least(self, columns: Sequence[str]) -> list[int] | None:
        """The smallest value of each of these columns of whole numbers, nulls left out; infinity
        when there is none. None when a row is null in all of them."""
        lows = [INFINITY] * len(columns)
        for run in self._runs(self._purged):
            least = run.least(columns, self._purged)
            if least is None:
                return None
            lows = [min(pair) for pair in zip(lows, least, strict=True)]
        return lows

    def latest_end(self, before: int) -> int:
        """The latest end of the rows that start before a time; MIN_TIME: there is none."""
        ends = [run.rows.end[run.rows.start < before] for run in self._runs(self._purged)]
        return max((int(part.max(initial=MIN_TIME)) for part in ends), default=MIN_TIME)

    def _runs(self, after: int = MIN_TIME) -> Iterator[Run]:
        """The runs that may have a row which ends after a time."""
        if self._tail is not None and self._tail.last > after:
            yield self._tail
        for slot in self._slots.values():
            if slot.last > after:
                yield from slot.runs

    # ----------------------------------------------------------------------------------------------
    # time

    def purge(self, until: int) -> int:
        """Forget rows that have ended by then; how many were dropped."""
        return sum(len(dropped) for dropped in self.drop(until))

    def drop(self, until: int) -> list[Columns]:
        """Forget rows that have ended by then; those that were dropped now."""
        self._purged = max(self._purged, until)
        dropped: list[Columns] = []
        if self._tail is not None and _is_stale(self._tail, until):
            self._tail = self._shortened(self._tail, until, dropped)
        for key in [k for k, s in self._slots.items() if any(_is_stale(r, until) for r in s.runs)]:
            slot = self._slots[key]
            if slot.last <= until:
                dropped += [_living(run) for run in slot.runs]
                del self._slots[key]
                continue
            kept = [
                self._shortened(run, until, dropped) if _is_stale(run, until) else run
                for run in slot.runs
            ]
            slot.runs = [run for run in kept if run is not None]
            if not slot.runs:
                del self._slots[key]
        return [rows for rows in dropped if len(rows)]

    def _shortened(self, run: Run, until: int, dropped: list[Columns]) -> Run | None:
        """The run without the rows that have ended; they are added to `dropped`."""
        alive = run.alive(until)
        dropped.append(run.rows.take(np.flatnonzero(~alive & (run.rows.weight != 0))))
        if not alive.any():
            return None
        rows = run.rows.take(np.flatnonzero(alive))
        if not run.number:
            return Run.unsorted(rows)
        return Run.of(rows, run.begin, run.bits + run.drop, self._bits, self._next())

    def _next(self) -> int:
        self._number += 1
        return self._number

    # ----------------------------------------------------------------------------------------------
    # slots

    def _sort_in(self, rows: Columns) -> None:
        classes = _class_of(rows.start, rows.end)
        for number in np.unique(classes).tolist():
            mask = classes == number
            self._sort_into(number, rows if mask.all() else rows.take(np.flatnonzero(mask)))

    def _sort_into(self, class_: int, rows: Columns) -> None:
        if class_ == _ENDLESS:
            self._widths[class_] = 0
            self._put(class_, 0, rows, INFINITY)
            return
        there = np.array([slot for known, slot in self._slots if known == class_], np.int64)
        if not len(there):
            span = int(rows.end.max()) - int(rows.end.min())
            self._widths[class_] = max(span // (_MOST // 2), 1).bit_length()
        width = self._widths[class_]
        while len(np.union1d(there, rows.end >> width)) > _MOST:
            width, there = width + 1, there >> 1
        if width != self._widths[class_]:
            self._widths[class_] = width
            keys = [key for key in self._slots if key[0] == class_]
            old = [_living(run) for key in keys for run in self._slots.pop(key).runs]
            rows = Columns.concat([*old, rows])
        slots = rows.end >> width
        for slot in np.unique(slots).tolist():
            mask = slots == slot
            part = rows if mask.all() else rows.take(np.flatnonzero(mask))
            self._put(class_, slot, part, slot << width)

    def _put(self, class_: int, number: int, rows: Columns, begin: int) -> None:
        slot = self._slots.setdefault((class_, number), _Slot())
        while slot.runs and len(slot.runs[-1]) <= _RATIO * len(rows):
            rows = Columns.concat([_living(slot.runs.pop()), rows])
        slot.runs.append(Run.of(rows, begin, self._widths[class_], self._bits, self._next()))
        slot.last = max(run.last for run in slot.runs)

    # ----------------------------------------------------------------------------------------------
    # snapshots

    def snapshot(self, name: str) -> Slices:
        """One slice for each run, the tail and each patch: `<name>/<class>/<width>/<slot>/<run>`,
        `<name>/tail`, `<name>/patch/<number>`."""
        slices: Slices = {}
        news: list[Patch] = []
        for (class_, slot), held in self._slots.items():
            for run in held.runs:
                patch = run.patch()
                if patch is not None:
                    news.append(Patch(np.full(len(patch[0]), run.number), *patch, number=0))
                elif run.written is None and run.patched:
                    run.number = self._next()
                key = f"{name}/{class_}/{self._widths[class_]}/{slot}/{run.number}"
                slices[key] = run.write()
        runs = {run.number for held in self._slots.values() for run in held.runs}
        if news:
            self._patches.add(_one_patch(news, self._next()), runs)
        if self._patches.patches:
            self._patches.forget(runs)
        slices |= {f"{name}/patch/{p.number}": p.write() for p in self._patches.patches}
        if self._tail is not None and self._tail.dead:
            rows = _living(self._tail)
            self._tail = Run.unsorted(rows) if len(rows) else None
        if self._tail is not None:
            if self._tail.touched is not None:
                self._tail.written, self._tail.touched = None, None
            if self._tail.written is None:
                self._tail.written = write_columns(self._tail.rows)
            slices[f"{name}/tail"] = self._tail.written
        return slices

    def restore(self, name: str, slices: Mapping[str, Rows]) -> None:
        """The inverse of `snapshot`."""
        self.clear()
        loaded: dict[int, tuple[tuple[int, int], Columns, Rows]] = {}
        for key, written in slices.items():
            owner, *place = key.split("/")
            if owner != name:
                continue
            if place[0] == "patch":
                self._patches.patches.append(Patch.read(written, int(place[1])))
                continue
            if len(place) not in (1, 4):
                raise StateError(f"{key!r} is no slice of an arrangement.")
            rows = read_columns(written, self.schema)
            rows.group = self._group_of(rows.payload)
            if place[0] == "tail":
                self._tail = Run.unsorted(rows)
                self._tail.written = written
                continue
            class_, width, slot, number = map(int, place)
            self._widths[class_] = width
            loaded[number] = ((class_, slot), rows, written)
        self._patches.patches.sort(key=lambda patch: patch.number)
        for patch in self._patches.patches:
            _apply_patch(patch, {number: rows for number, (_, rows, _) in loaded.items()})
        for number, (at, rows, written) in sorted(loaded.items(), key=lambda one: -len(one[1][1])):
            width = self._widths[at[0]]
            begin = INFINITY if at[0] == _ENDLESS else at[1] << width
            run = Run.of(rows, begin, width, self._bits, number)
            run.written = written
            held = self._slots.setdefault(at, _Slot())
            held.runs.append(run)
            held.last = max(held.last, run.last)
        used = [patch.number for patch in self._patches.patches]
        used += [int(patch.run.max()) for patch in self._patches.patches]
        self._number = max([0, *loaded, *used])

    def size(self) -> StateSize:
        return StateSize(len(self), sum(run.rows.nbytes for run in self._runs()))


def _living(run: Run) -> Columns:
    """The rows that have not been taken away."""
    return run.rows.take(np.flatnonzero(run.rows.weight)) if run.dead else run.rows


def _is_stale(run: Run, until: int) -> bool:
    """Whether it is worth to make a run anew: half of it has ended or was taken away."""
    return run.half <= until or 2 * run.dead >= len(run)


def _each_once(delta: Delta, group: Codes) -> tuple[Delta, Codes]:
    """Equal rows as one with the sum of their weights."""
    code, size = encode([*delta.payload.columns, delta.start, delta.end], len(delta))
    if size == len(delta):
        return delta, group
    representative = np.empty(size, np.int64)
    representative[code] = np.arange(len(delta))
    weight = np.zeros(size, np.int64)
    np.add.at(weight, code, delta.weight)
    rows = delta.take(representative)
    return Delta(rows.payload, rows.start, rows.end, weight), group[representative]


def _candidates(run: Run, group: Codes, since: Times) -> tuple[Codes, Codes]:
    """Pairs of a probe and a position at which its group may be."""
    if run.number:
        low, high = run.span(group, since)
        count = high - low
        total = int(count.sum())
        if not total:
            return count[:0], count[:0]
        return _spread(low, high)
    if len(group) * len(run) <= _SQUARE:
        probe, at = np.nonzero(group[:, None] == run.rows.group[None, :])
        return probe, at
    order = np.argsort(run.rows.group, kind="stable")
    ordered = run.rows.group[order]
    owner, at = _spread(np.searchsorted(ordered, group), np.searchsorted(ordered, group, "right"))
    return owner, order[at]


def _before(run: Run, group: Codes, since: Times) -> Times:
    """The latest end of the rows in front of those that `span` finds; MIN_TIME: there is none."""
    at = run.span(group, since)[0] - 1
    while True:
        inside = (at >= 0) & (run.rows.group[at] == group)
        dead = inside & (run.rows.weights(at) == 0)
        if not dead.any():
            return np.where(inside, run.rows.ends(at), MIN_TIME)
        at = np.where(dead, at - 1, at)


def _spread(low: Codes, high: Codes) -> tuple[Codes, Codes]:
    """Every position of [low, high) for each i: (which i, which position)."""
    count = np.maximum(high - low, 0)
    owner = np.repeat(np.arange(len(count)), count)
    return owner, low[owner] + np.arange(len(owner)) - (np.cumsum(count) - count)[owner]


def _rank(owner: Codes) -> Codes:
    """How many hits of the same probe stand before each hit."""
    order = np.argsort(owner, kind="stable")
    ordered = owner[order]
    rank = np.empty(len(owner), np.int64)
    rank[order] = np.arange(len(owner)) - np.searchsorted(ordered, ordered)
    return rank


def _class_of(start: Times, end: Times) -> Codes:
    endless = end == INFINITY
    duration = np.where(endless, 1, end - start)
    exponent = np.frexp(duration.astype(np.float64))[1].astype(np.int64)
    return np.where(endless, _ENDLESS, exponent // _CLASS_BITS)


def _one_patch(patches: list[Patch], number: int) -> Patch:
    return Patch(
        np.concatenate([patch.run for patch in patches]),
        np.concatenate([patch.position for patch in patches]),
        np.concatenate([patch.weight for patch in patches]),
        tuple(np.concatenate(marks) for marks in zip(*(p.marks for p in patches), strict=True)),
        number,
    )


def _apply_patch(patch: Patch, runs: Mapping[int, Columns]) -> None:
    for number in np.unique(patch.run).tolist():
        rows = runs.get(number)
        if rows is None:
            continue  # the run was merged into another, or dropped
        mine = patch.run == number
        rows.set_weights(patch.position[mine], patch.weight[mine])
        for mark, values in zip(rows.marks, patch.marks, strict=True):
            mark[patch.position[mine]] = values[mine]

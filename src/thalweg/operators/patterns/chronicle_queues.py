"""The queues of a chronicle: left rows that wait and right rows that take them, in order by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thalweg.model.delta import Delta, Weights
from thalweg.model.order import dense_ranks
from thalweg.model.rows import Bools, Codes
from thalweg.model.sorting import on_one_axis
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.patterns.fifo import serve

__all__ = [
    "Look",
    "Match",
    "Queue",
    "Requests",
    "leaves_untaken",
    "match_queues",
    "waiting_differs",
]

_WIDER = 4
"""Each further look is this much wider."""


@dataclass(frozen=True, slots=True)
class Look:
    """Keys by their group, when each of them changes (`since` to `until`), and the time up to which
    it is matched again."""

    group: Codes
    since: Times
    until: Times
    end: Times

    def __len__(self) -> int:
        return len(self.group)

    def widen(self, beyond: int) -> Look:
        """A wider look; nothing is held from `beyond` on."""
        end = self.until + (self.end - self.until) * _WIDER
        return Look(self.group, self.since, self.until, np.where(end > beyond, INFINITY, end))

    def contains(self, group: Codes, end: Times, start: Times) -> tuple[Codes, Codes]:
        """The rows of these keys that end after the beginning of the look and start before its end,
        and the number of their key."""
        key = np.minimum(np.searchsorted(self.group, group), len(self) - 1)
        inside = (self.group[key] == group) & (end > self.since[key]) & (start < self.end[key])
        which = np.flatnonzero(inside)
        return which, key[which]

    def filter(self, mask: Bools) -> Look:
        return Look(self.group[mask], self.since[mask], self.until[mask], self.end[mask])


@dataclass(frozen=True, slots=True)
class Queue:
    """Left rows, each by itself, ordered by key, start, end and then by all columns. `order` has
    the position of each in `rows`.

    `leaves` is when a row leaves the queue: after it was taken, or after its end. `class_` is equal
    for equal rows. `place` is the position of a row among those that are held, -1 for one that is
    added or removed now. `before` and `after` a change: whether it is in the queue.
    """

    rows: Delta
    order: Codes
    key: Codes
    start: Times
    end: Times
    leaves: Times
    before: Bools
    after: Bools
    place: Codes
    class_: Codes

    @classmethod
    def in_order(
        cls,
        rows: Delta,
        key: Codes,
        leaves: Times,
        before: Bools,
        after: Bools,
        place: Codes,
        width: int,
    ) -> Queue:
        """Of equal rows those that are added now are first, then those that leave first: the rows
        that are left over are the same before and after a change."""
        turn = np.where(before, leaves, MIN_TIME)
        order, new = _ordered(rows, key, width, turn)
        return cls(
            rows,
            order,
            key[order],
            rows.start[order],
            rows.end[order],
            leaves[order],
            before[order],
            after[order],
            place[order],
            new.cumsum() - 1,
        )


@dataclass(frozen=True, slots=True)
class Requests:
    """Right rows, equal ones as one, ordered by key, start and then by all columns; with the
    weight of each before and after a change. `order` has the position of one of each in `rows`."""

    rows: Delta
    order: Codes
    key: Codes
    start: Times
    before: Weights
    after: Weights

    @classmethod
    def in_order(cls, rows: Delta, key: Codes, changed: Bools, width: int) -> Requests:
        order, new = _ordered(rows, key, width)
        class_ = new.cumsum() - 1
        first = order[new]
        weight, late = rows.weight[order], changed[order]
        before, after = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
        np.add.at(before, class_[~late], weight[~late])
        np.add.at(after, class_, weight)
        return cls(rows, first, key[first], rows.start[first], before, after)


@dataclass(frozen=True, slots=True)
class Match:
    """For each left row the right row that takes it, or -1; and the left rows that still wait in
    the end."""

    taken: Codes
    waiting: Codes


def match_queues(left: Queue, right: Requests, look: Look) -> tuple[Match, Match]:
    """Serve the right rows with the left rows as they are before a change, and after it.

    Both are served at once: the keys after the change are numbered behind those before it."""
    keys = len(look)
    waiting, key, cut = _both(left.before.nonzero()[0], left.after.nonzero()[0], left.key, keys)
    each = np.arange(len(right.key))
    request, request_key, _ = _both(
        np.repeat(each, right.before), np.repeat(each, right.after), right.key, keys
    )
    numbers = np.arange(2 * keys)
    starts, ends, times, finals = on_one_axis(
        (key, left.start[waiting]),
        (key, left.end[waiting]),
        (request_key, right.start[request]),
        (numbers, np.concatenate([look.end, look.end])),
    )
    low, high = np.searchsorted(ends, times, "right"), np.searchsorted(starts, times, "right")
    item, left_after = serve(low, high)
    first = np.maximum(
        np.searchsorted(key, numbers, "left"), np.searchsorted(ends, finals, "right")
    )
    # Of each key the first item left after its last request, which is the largest.
    np.maximum.at(first, request_key, left_after)
    paired = (item >= 0).nonzero()[0]
    takes = np.full(len(waiting), -1)
    takes[item[paired]] = request[paired]
    waits = np.arange(len(waiting)) >= first[key]
    matches = []
    for part in (slice(0, cut), slice(cut, None)):
        taken = np.full(len(left.key), -1)
        taken[waiting[part]] = takes[part]
        matches.append(Match(taken, waiting[part][waits[part]]))
    return matches[0], matches[1]


def waiting_differs(left: Queue, before: Match, after: Match, keys: int) -> Bools:
    """For each key, whether other left rows wait after the change than before it."""
    size = int(left.class_[-1]) + 1 if len(left.class_) else 0
    counts = (np.bincount(left.class_[match.waiting], minlength=size) for match in (before, after))
    differs = np.zeros(keys, np.bool_)
    unlike = np.not_equal(*counts)
    differs[left.key[unlike[left.class_]]] = True
    return differs


def _both(before: Codes, after: Codes, key: Codes, keys: int) -> tuple[Codes, Codes, int]:
    """Positions before a change and then those after it, the keys of both, the latter numbered
    behind the former, and how many are before."""
    cut = len(before)
    rows = np.concatenate([before, after])
    numbers = key[rows]
    numbers[cut:] += keys
    return rows, numbers, cut


def leaves_untaken(end: Times) -> Times:
    """When a row that is never taken leaves the queue: a tick after its end, so that it differs
    from a row that was taken last before its end, and is found when its end is changed."""
    return np.where(end == INFINITY, INFINITY, end + 1)


def _ordered(rows: Delta, key: Codes, width: int, turn: Times | None = None) -> tuple[Codes, Bools]:
    """The order of rows by key, start, end, the first `width` columns and then `turn`; and in that
    order, which of them differ from the one before."""
    columns: tuple[Codes, ...] = (key, rows.start, rows.end)
    order = np.lexsort(tuple(reversed(columns)))
    new = _changes(columns, order)
    if not new.all():  # only where rows have the same times are the other columns looked at
        ranks = [dense_ranks(column) for column in rows.payload.columns[:width]]
        columns = (*columns, *ranks)
        last = () if turn is None else (turn,)
        order = np.lexsort((*last, *reversed(columns)))
        new = _changes(columns, order)
    return order, new


def _changes(columns: Sequence[Codes], order: Codes) -> Bools:
    """Which rows, in an order, differ from the row before them."""
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        sorted_ = column[order]
        new[1:] |= sorted_[1:] != sorted_[:-1]
    return new

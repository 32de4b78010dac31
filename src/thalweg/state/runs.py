"""A run: rows in columns, and an order by group and end in which the rows of a group are found.

The order is made when a group is first looked for: many runs are dropped before that. Groups,
lifetimes and payloads never change. The weight of a row may (0: removed), and so may its marks,
whole numbers that a kernel keeps beside each row. A run is written once; of a change only a patch
is written: positions, new weights, new marks. When a quarter of a run has been patched it is
written again, under a new number.

`place` is the search key of a row: the group, then as many bits of the end as fit into one int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from thalweg.model.delta import Weights
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest, least
from thalweg.state.columns import RowColumns, write_columns

__all__ = ["Run"]

_PATCHED = 4
"""A run is written again when more than one in this many rows has been patched."""


@dataclass(slots=True, eq=False)
class Run:
    """Rows. `begin` and `width` say which ends it may hold: [begin, begin + 2**width)."""

    rows: RowColumns
    begin: int
    drop: int
    """Low bits of the end that `place` leaves out."""
    bits: int
    """Bits of the end in `place`."""
    number: int
    first: int
    """The earliest start."""
    soonest: int
    """The earliest end."""
    last: int
    """The latest end."""
    dead: int
    """How many rows were removed."""
    written: Rows | None = None
    found_by: tuple[Codes, Codes] | None = None
    """Positions in the order of places, and the sorted places; made when they are first
    needed."""
    touched: Bools | None = None
    """Rows whose weight or marks changed since the last snapshot."""
    patched: int = 0
    first_after: tuple[int, int, int] = (0, 0, -1)
    """A cached result: a time, the earliest start of the rows alive after it, `dead` then."""
    end_order: tuple[Codes, Times] | None = None
    """Positions sorted by end, and the sorted ends; made when they are first needed."""
    least_starts: Times | None = None
    """By position in the order of ends: the earliest start from there on."""
    longest_found: int | None = None
    half: int | None = None
    """The time by which half of the rows have ended; found when it is first needed."""
    lows: dict[tuple[str, ...], tuple[tuple[int, int], list[int] | None]] = field(
        default_factory=dict
    )
    """By columns: cached smallest values, after the time and `dead` that they were found for."""

    @classmethod
    def of(cls, rows: RowColumns, begin: int, width: int, bits: int, number: int) -> Run:
        drop = max(width - bits, 0)
        ends = rows.end
        dead = len(rows) - int(np.count_nonzero(rows.weight))
        return cls(
            rows.compact(),
            begin,
            drop,
            width - drop,
            number,
            first=int(rows.start.min()),
            soonest=int(ends.min()),
            last=int(ends.max()),
            dead=dead,
        )

    @classmethod
    def unsorted(cls, rows: RowColumns) -> Run:
        """A few rows without order, under the number 0."""
        ends = rows.end
        soonest = least(ends)
        return cls(
            rows,
            0,
            0,
            0,
            0,
            first=least(rows.start),
            soonest=soonest,
            last=greatest(ends),
            dead=len(rows) - int(np.count_nonzero(rows.weight)),
        )

    def extend(self, more: RowColumns) -> None:
        """Append rows of positive weight to an unsorted run. Positions of rows stay; cached results
        are dropped."""
        self.first = min(self.first, least(more.start))
        self.soonest = min(self.soonest, least(more.end))
        self.last = max(self.last, greatest(more.end))
        self.rows.extend(more)
        self.written = self.touched = self.end_order = self.least_starts = self.half = None
        self.first_after = (0, 0, -1)
        self.lows.clear()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def order(self) -> Codes:
        """Positions in the order of places."""
        return self._by_place()[0]

    def _by_place(self) -> tuple[Codes, Codes]:
        if self.found_by is None:
            ends = self.rows.end
            place = (self.rows.group << self.bits) + ((ends - self.begin) >> self.drop)
            # Where the place leaves bits of the end out, rows of equal place are sorted by their
            # end.
            order = np.lexsort((ends, place)) if self.drop else place.argsort(kind="stable")
            self.found_by = (order, place[order])
        return self.found_by

    def renumber(self, moved: Codes) -> None:
        """Change the numbers of groups to `moved[old]`; the order of groups stays."""
        self.rows.group = moved[self.rows.group]
        if self.found_by is not None:
            order, place = self.found_by
            group = moved[place >> self.bits]
            self.found_by = order, (group << self.bits) + (place & ((1 << self.bits) - 1))

    def span(self, group: Codes, since: Times, until: Times | None = None) -> tuple[Codes, Codes]:
        """For each group the range in `order` of the rows that may end after `since` and start
        before `until`."""
        place = self._by_place()[1]
        if not self.bits:
            return place.searchsorted(group), place.searchsorted(group, "right")
        low = group << self.bits
        first = place.searchsorted(low + self._bits_of(since))
        if until is None or self.last == INFINITY:
            return first, place.searchsorted(low + (1 << self.bits))
        # A row that starts before `until` ends before `until` plus the longest duration.
        ends = np.minimum(until, self.last - self.longest) + self.longest
        return first, place.searchsorted(low + self._bits_of(ends), "right")

    def _bits_of(self, end: Times) -> Times:
        """The bits of an end in a place; an end outside the run is moved to its first or last."""
        inside = np.minimum(np.maximum(end, self.begin), self.last)
        bits: Times = (inside - self.begin) >> self.drop
        return bits

    @property
    def longest(self) -> int:
        """The longest lifetime of a row."""
        if self.longest_found is None:
            rows = self.rows
            same = rows.duration
            self.longest_found = same or greatest(rows.end - rows.start)
        return self.longest_found

    def span_at(self, group: Codes, end: Times) -> tuple[Codes, Codes]:
        """For each group the range in `order` of the rows that may end exactly at a time."""
        if not self.bits:
            return self.span(group, end)
        sorted_ = self._by_place()[1]
        place = (group << self.bits) + self._bits_of(end)
        return sorted_.searchsorted(place), sorted_.searchsorted(place, "right")

    def living(self) -> RowColumns:
        """The rows that have not been removed."""
        return self.rows.take(self.rows.weight.nonzero()[0]) if self.dead else self.rows

    def is_stale(self, until: int) -> bool:
        """Whether half of the rows have ended or were removed, so that the run is made anew."""
        if 2 * self.dead >= len(self) or self.last <= until:
            return True
        if self.soonest > until:
            return False
        if self.half is None:
            middle = len(self) // 2
            self.half = int(np.partition(self.rows.end, middle)[middle])
        return self.half <= until

    def ending(self, after: int, until: int) -> Codes:
        """The positions of rows with after < end <= until that have not been removed."""
        if self.soonest > until or self.last <= after:
            return np.empty(0, np.int64)
        order, ends = self._by_end()
        low, high = ends.searchsorted((after, until), "right").tolist()
        at = order[low:high]
        return at[self.rows.weights(at) != 0] if self.dead else at

    def within(self, since: int, until: int) -> Codes:
        """The positions of rows that end after `since`, start before `until` and have not been
        removed."""
        rows = self.rows
        if self.soonest > since:
            if self.last <= until and not self.dead:
                return np.arange(len(rows))
            inside = rows.start < until
        else:
            inside = (rows.end > since) & (rows.start < until)
        if self.dead:
            inside &= rows.weight != 0
        return inside.nonzero()[0]

    def _by_end(self) -> tuple[Codes, Times]:
        """Positions in the order of ends, and the ends in that order."""
        if self.end_order is None:
            ends = self.rows.end
            order = ends.argsort(kind="stable")
            self.end_order = (order, ends[order])
        return self.end_order

    def touch(self, at: Codes) -> None:
        """Note that weights or marks at these positions have changed."""
        if self.touched is None:
            self.touched = np.zeros(len(self), np.bool_)
        self.touched[at] = True

    def alive(self, until: int) -> Bools:
        """Which rows end after a time and have not been removed."""
        mask: Bools = self.rows.end > until
        if self.dead:
            mask &= self.rows.weight != 0
        return mask

    def first_alive(self, until: int) -> int:
        """The earliest start of the rows that are alive after a time."""
        if not self.dead and self.soonest > until:
            return self.first
        if (until, self.dead) != (self.first_after[0], self.first_after[2]):
            self.first_after = (until, self._first_start(until), self.dead)
        return self.first_after[1]

    def _first_start(self, until: int) -> int:
        if self.dead or not self.number:
            return int(self.rows.start[self.alive(until)].min(initial=INFINITY))
        # A promise moves often and a run never changes: the earliest start behind each end is found
        # once.
        order, ends = self._by_end()
        if self.least_starts is None:
            starts = self.rows.start[order]
            self.least_starts = np.minimum.accumulate(starts[::-1])[::-1]
        at = int(ends.searchsorted(until, "right"))
        return int(self.least_starts[at]) if at < len(ends) else INFINITY

    def least(self, columns: Sequence[str], until: int) -> list[int] | None:
        """The smallest value of each column without nulls, in the rows alive after a time; None
        when a row is null in all of these columns."""
        key = (until if self.soonest <= until else MIN_TIME, self.dead)
        found = self.lows.get(tuple(columns))
        if found is None or found[0] != key:
            some = bool(self.dead) or self.soonest <= until
            alive = self.alive(until).nonzero()[0] if some else None
            found = self.lows[tuple(columns)] = (key, self.rows.least(columns, alive))
        return found[1]

    def write(self) -> Rows:
        """The slice of this run: the same object until it is written anew."""
        if self.written is None:
            self.written, self.touched, self.patched = write_columns(self.rows), None, 0
        return self.written

    def patch(self) -> tuple[Codes, Weights, tuple[Times, ...]] | None:
        """The changes since the run was written, as positions, weights and marks. None when there
        are none, or so many that the run must be written again."""
        if self.touched is None or self.written is None:
            return None
        at = self.touched.nonzero()[0]
        self.touched = None
        self.patched += len(at)
        if _PATCHED * self.patched > len(self):
            self.written = None
            return None
        return at, self.rows.weights(at), tuple(mark[at] for mark in self.rows.marks)

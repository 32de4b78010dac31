"""A run: rows in columns, and an order by group and end in which the rows of a group are found.

The order is made when a group is first looked for: many runs are dropped before that. The rows
themselves never change. Their weight may (0: taken away), and so may their marks, whole
numbers that a kernel keeps beside each row. A run is written once; of a change only a patch is
written: positions, new weights, new marks. When a quarter of a run has been patched it is written
again, under a new number.

`place` is what a run is searched by: the group, then as many bits of the end as fit into one int64.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.delta import Weights
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, ones, take_column, take_rows
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest, least

__all__ = ["Columns", "Run", "read_columns", "write_columns"]

_INT64 = pa.int64().id
_PATCHED = 4
"""A run is written again when more than one in so many rows has been patched."""
_UNKNOWN = -1
_SPARE = 256
"""So many payloads that no row has any more are cheaper to keep than to leave out."""


class Columns:
    """Rows as they are held: lifetime, weight, marks and group of each, and the payload.

    A duration or the weight one that all rows share is not kept for each (`compact`). The payload
    of rows that are put `aside` is gathered when it is first read as a whole.
    """

    __slots__ = (
        "_end",
        "_from",
        "_payload",
        "_payload_bytes",
        "_weight",
        "duration",
        "group",
        "marks",
        "start",
    )

    def __init__(
        self,
        group: Codes,
        start: Times,
        end: Times | None,
        weight: Weights | None,
        marks: tuple[Times, ...],
        payload: Rows,
        duration: int = 0,
    ) -> None:
        self.group, self.start, self._end, self._weight = group, start, end, weight
        self.marks, self._payload, self.duration = marks, payload, duration
        self._from: Codes | None = None
        self._payload_bytes = _UNKNOWN

    def __len__(self) -> int:
        return len(self.start)

    @property
    def payload(self) -> Rows:
        return self.gathered()._payload

    @property
    def end(self) -> Times:
        return self.start + self.duration if self._end is None else self._end

    @property
    def weight(self) -> Weights:
        return np.ones(len(self), np.int64) if self._weight is None else self._weight

    def ends(self, at: Codes) -> Times:
        """The ends of some rows."""
        return self.start[at] + self.duration if self._end is None else self._end[at]

    def weights(self, at: Codes) -> Weights:
        """The weights of some rows."""
        return ones(len(at)) if self._weight is None else self._weight[at]

    def set_weights(self, at: Codes, weights: Weights) -> None:
        if self._weight is None:
            self._weight = np.ones(len(self), np.int64)
        self._weight[at] = weights

    def compact(self) -> Columns:
        """The same rows without what all of them share."""
        if self._weight is not None and (self._weight == 1).all():
            self._weight = None
        if self._end is not None and self._end[0] != INFINITY:
            duration = int(self._end[0] - self.start[0])
            if (self._end - self.start == duration).all():
                self._end, self.duration = None, duration
        return self

    def payload_at(self, at: Codes, names: Sequence[str] | None = None) -> Rows:
        """The payload of some rows, or some columns of it."""
        payload = self._payload if names is None else self._payload.select(list(names))
        return take_rows(payload, at if self._from is None else self._from[at])

    def column_at(self, name: str, at: Codes) -> pa.Array:
        """One column of the payload of some rows."""
        return take_column(self._payload.column(name), at if self._from is None else self._from[at])

    def least(self, names: Sequence[str], at: Codes | None) -> list[int] | None:
        """The smallest value of some columns of whole numbers, in some rows or in all, nulls left
        out; None when one of the rows is null in all columns."""
        columns = [self._payload.column(name) for name in names]
        if at is not None and self._from is not None:
            at = self._from[at]
        elif at is None:
            at = self._from
        if not any(column.null_count or column.type.id != _INT64 for column in columns):
            values = [column.to_numpy() for column in columns]
            some = values if at is None else [value[at] for value in values]
            return [least(value) if len(value) else INFINITY for value in some]
        columns = columns if at is None else [take_column(column, at) for column in columns]
        empty = [column.is_null().to_numpy(zero_copy_only=False) for column in columns]
        if np.logical_and.reduce(empty).any():
            return None
        return [_least_value(column) for column in columns]

    def take(self, which: Codes) -> Columns:
        """Some of the rows, in memory of their own."""
        return self.aside(which).gathered()

    def gathered(self) -> Columns:
        """The same rows with no other payloads beside theirs."""
        if self._from is not None:
            self._payload, self._from = take_rows(self._payload, self._from), None
            self._payload_bytes = _UNKNOWN
        return self

    def aside(self, which: Codes) -> Columns:
        """Some of the rows; they keep the payload of all in memory."""
        rows = Columns(
            self.group[which],
            self.start[which],
            None if self._end is None else self._end[which],
            None if self._weight is None else self._weight[which],
            tuple(mark[which] for mark in self.marks),
            self._payload,
            self.duration,
        )
        rows._from = which if self._from is None else self._from[which]
        return rows

    def slice(self, begin: int, end: int) -> Columns:
        """Rows that stand side by side, without copying them."""
        if begin == 0 and end == len(self):
            return self
        return Columns(
            self.group[begin:end],
            self.start[begin:end],
            None if self._end is None else self._end[begin:end],
            None if self._weight is None else self._weight[begin:end],
            tuple(mark[begin:end] for mark in self.marks),
            self.payload.slice(begin, end - begin),
            self.duration,
        )

    @classmethod
    def concat(cls, parts: list[Columns]) -> Columns:
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.group for part in parts]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
            np.concatenate([part.weight for part in parts]),
            tuple(np.concatenate(marks) for marks in zip(*(p.marks for p in parts), strict=True)),
            concat_rows([part.payload for part in parts], parts[0].payload.schema),
        )

    def extend(self, more: Columns) -> None:
        """Put more rows behind a few. Payloads that no row has any more stay until they are
        many."""
        if self._payload.num_rows > len(self) + _SPARE:
            self.gathered()
        payload = self._payload
        if self._from is not None:
            begin = payload.num_rows
            self._from = np.concatenate((self._from, np.arange(begin, begin + len(more))))
        self._payload = pa.concat_batches((payload, more.payload))
        self._payload_bytes = _UNKNOWN
        self._end = np.concatenate((self.end, more.end))
        self._weight = np.concatenate((self.weight, more.weight))
        self.group = np.concatenate((self.group, more.group))
        self.start = np.concatenate((self.start, more.start))
        if more.marks:
            self.marks = tuple(map(np.concatenate, zip(self.marks, more.marks, strict=True)))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows; groups, by which they are found, are not state: they follow from the
        payload."""
        self.gathered()
        if self._payload_bytes == _UNKNOWN:
            self._payload_bytes = int(self._payload.nbytes)
        kept = [c for c in (self.start, self._end, self._weight, *self.marks) if c is not None]
        return self._payload_bytes + sum(column.nbytes for column in kept)


@dataclass(slots=True, eq=False)
class Run:
    """Rows. `begin` and `width` say which ends it may hold: [begin, begin + 2**width)."""

    rows: Columns
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
    """Rows that were taken away."""
    written: Rows | None = None
    found_by: tuple[Codes, Codes] | None = None
    """Positions in the order of places, and the sorted places; made when they are first
    needed."""
    touched: Bools | None = None
    """Rows whose weight or marks changed since the last snapshot."""
    patched: int = 0
    first_after: tuple[int, int, int] = (0, 0, -1)
    """The earliest start of the rows alive after a time: the time, the start, the dead rows
    then."""
    end_order: tuple[Codes, Times] | None = None
    """Positions sorted by end, and the sorted ends; made when they are first needed."""
    least_starts: Times | None = None
    """Of each row in the order of ends, the earliest start of it and those behind it."""
    longest_found: int | None = None
    half: int | None = None
    """When this time has passed, half of the rows have ended; found when it is first needed."""
    lows: dict[tuple[str, ...], tuple[tuple[int, int], list[int] | None]] = field(
        default_factory=dict
    )
    """The smallest values of columns, with the time and the dead rows they were found for."""

    @classmethod
    def of(cls, rows: Columns, begin: int, width: int, bits: int, number: int) -> Run:
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
    def unsorted(cls, rows: Columns) -> Run:
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

    def extend(self, more: Columns) -> None:
        """Put rows of positive weight behind those of an unsorted run. Positions of rows stay; what
        was found out about all of them is forgotten."""
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
        """Groups have got new numbers, in the same order."""
        self.rows.group = moved[self.rows.group]
        if self.found_by is not None:
            order, place = self.found_by
            group = moved[place >> self.bits]
            self.found_by = order, (group << self.bits) + (place & ((1 << self.bits) - 1))

    def span(self, group: Codes, since: Times, until: Times | None = None) -> tuple[Codes, Codes]:
        """Of each group where in `order` the rows are that may end after a time, and start before
        another."""
        place = self._by_place()[1]
        if not self.bits:
            return place.searchsorted(group), place.searchsorted(group, "right")
        low = group << self.bits
        first = place.searchsorted(low + self._bits_of(since))
        if until is None or self.last == INFINITY:
            return first, place.searchsorted(low + (1 << self.bits))
        # What starts before a time ends no later than the longest of the rows allows.
        ends = np.minimum(until, self.last - self.longest) + self.longest
        return first, place.searchsorted(low + self._bits_of(ends), "right")

    def _bits_of(self, end: Times) -> Times:
        """The part of a place that stands for an end, or for the nearest that rows have."""
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
        """Of each group where in `order` the rows are that may end exactly at a time."""
        if not self.bits:
            return self.span(group, end)
        sorted_ = self._by_place()[1]
        place = (group << self.bits) + self._bits_of(end)
        return sorted_.searchsorted(place), sorted_.searchsorted(place, "right")

    def living(self) -> Columns:
        """The rows that have not been taken away."""
        return self.rows.take(self.rows.weight.nonzero()[0]) if self.dead else self.rows

    def is_stale(self, until: int) -> bool:
        """Whether it is worth to make the run anew: half of it has ended or was taken away."""
        if 2 * self.dead >= len(self) or self.last <= until:
            return True
        if self.soonest > until:
            return False
        if self.half is None:
            middle = len(self) // 2
            self.half = int(np.partition(self.rows.end, middle)[middle])
        return self.half <= until

    def ending(self, after: int, until: int) -> Codes:
        """The positions of rows with after < end <= until that have not been taken away."""
        if self.soonest > until or self.last <= after:
            return np.empty(0, np.int64)
        order, ends = self._by_end()
        low, high = ends.searchsorted((after, until), "right").tolist()
        at = order[low:high]
        return at[self.rows.weights(at) != 0] if self.dead else at

    def within(self, since: int, until: int) -> Codes:
        """The positions of rows that end after `since`, start before `until` and have not been
        taken away."""
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
        """The rows that end after a time and have not been taken away."""
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
        """The smallest value of each column in the rows alive after a time, nulls left out; None
        when one of the rows is null in all of them."""
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
        """What changed since the run was written: positions, weights, marks. None when nothing has,
        or so much that the run must be written again."""
        if self.touched is None or self.written is None:
            return None
        at = self.touched.nonzero()[0]
        self.touched = None
        self.patched += len(at)
        if _PATCHED * self.patched > len(self):
            self.written = None
            return None
        return at, self.rows.weights(at), tuple(mark[at] for mark in self.rows.marks)


def _least_value(column: pa.Array) -> int:
    low = pc.min(column).as_py()
    return INFINITY if low is None else int(low)


def write_columns(rows: Columns) -> Rows:
    """Rows as one record batch. A duration or a weight that all of them share is written once; the
    group is not, since it follows from the payload."""
    rows = Columns(
        rows.group, rows.start, rows.end, rows.weight, rows.marks, rows.payload
    ).compact()
    columns = {"_start": rows.start, "_end": rows._end, "_weight": rows._weight}
    kept = {name: values for name, values in columns.items() if values is not None}
    head = {
        "duration": rows.duration if rows._end is None else None,
        "plain": rows._weight is None,
        "marks": len(rows.marks),
    }
    kept |= {f"_mark{at}": mark for at, mark in enumerate(rows.marks)}
    fields = [pa.field(name, pa.int64()) for name in kept]
    schema = pa.schema(
        [*fields, *rows.payload.schema], metadata={b"thalweg": json.dumps(head).encode()}
    )
    arrays = [pa.array(values) for values in kept.values()]
    return pa.RecordBatch.from_arrays([*arrays, *rows.payload.columns], schema=schema)


def read_columns(written: Rows, schema: pa.Schema) -> Columns:
    """The inverse of `write_columns`, by position: no name of a payload column is special. Groups
    are all 0."""
    head = json.loads((written.schema.metadata or {})[b"thalweg"])
    columns = list(written.columns)
    start = columns.pop(0).to_numpy()
    end = start + head["duration"] if head["duration"] is not None else columns.pop(0).to_numpy()
    weight = np.ones(len(start), np.int64) if head["plain"] else columns.pop(0).to_numpy().copy()
    marks = tuple(columns.pop(0).to_numpy().copy() for _ in range(head["marks"]))
    payload = pa.RecordBatch.from_arrays(columns, schema=schema)
    return Columns(np.zeros(len(start), np.int64), start, end, weight, marks, payload)

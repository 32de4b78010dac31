"""Rows in slices of time: held so that a batch touches, and a CTI drops, whole slices.

Rows are told apart by how long they last, in classes of a factor of eight, and within a class by
when they end. A slice is a power of two wide; where a class has come to spread over too many
slices, neighbours are joined. So a class has a few dozen slices whatever the clock's unit, and a
row that lasts for long does not widen the slices of those that do not.

State written down has one part for each slice, `<name>/<class>/<width>/<number>/<duration>`: the
same object as long as the slice is not touched, so that only the others are written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.delta import Delta, Weights
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import INFINITY, Times
from thalweg.operators.base import Slices, StateSize

__all__ = ["Part", "TimeSlices"]

_MOST = 48
"""Slices of one class; when there are more, they become twice as wide."""
_CLASS_BITS = 3
_ENDLESS = 30
"""The class of rows without an end: one slice."""


@dataclass(slots=True)
class Part:
    """One slice. What all its rows have in common, a duration or the weight one, is not kept for
    each."""

    payload: Rows
    start: Times
    end: Times | None
    weight: Weights | None
    duration: int
    first: int
    """The earliest start of a row."""
    soonest: int
    """The earliest end of a row."""
    last: int
    """The latest end of a row."""
    written: Rows | None = None

    @classmethod
    def of(cls, rows: Delta) -> Part:
        first, soonest, last = int(rows.start.min()), int(rows.end.min()), int(rows.end.max())
        duration = soonest - int(rows.start[int(rows.end.argmin())])
        even = last != INFINITY and bool((rows.end - rows.start == duration).all())
        weight = None if (rows.weight == 1).all() else rows.weight
        return cls(
            rows.payload,
            rows.start,
            None if even else rows.end,
            weight,
            duration,
            first,
            soonest,
            last,
        )

    @property
    def rows(self) -> Delta:
        end = self.start + self.duration if self.end is None else self.end
        return Delta(
            self.payload,
            self.start,
            end,
            np.ones(len(self.start), np.int64) if self.weight is None else self.weight,
        )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def nbytes(self) -> int:
        kept = (self.start, *(times for times in (self.end, self.weight) if times is not None))
        return int(self.payload.nbytes) + sum(times.nbytes for times in kept)

    @property
    def mark(self) -> str:
        """What the written form leaves out: the duration that all rows have."""
        return "-" if self.end is not None else str(self.duration)

    def write(self) -> Rows:
        if self.written is None:
            times = {"_start": self.start, "_end": self.end, "_weight": self.weight}
            kept = {name: pa.array(values) for name, values in times.items() if values is not None}
            names = [*kept, *self.payload.schema.names]
            self.written = pa.RecordBatch.from_arrays(
                [*kept.values(), *self.payload.columns], names=names
            )
        return self.written

    @classmethod
    def read(cls, written: Rows, mark: str) -> Part:
        times = {
            name: written.column(name).to_numpy()
            for name in ("_start", "_end", "_weight")
            if name in written.schema.names
        }
        payload = pa.RecordBatch.from_arrays(
            written.columns[len(times) :], names=written.schema.names[len(times) :]
        )
        start = times["_start"]
        end = times["_end"] if mark == "-" else start + int(mark)
        part = cls.of(
            Delta(payload, start, end, times.get("_weight", np.ones(len(start), np.int64)))
        )
        part.written = written
        return part


class TimeSlices:
    """
    >>> held = TimeSlices(pa.schema([("v", pa.int64())]))
    >>> rows = pa.RecordBatch.from_pydict({"v": [1, 2, 3]})
    >>> held.add(Delta(rows, np.array([0, 5, 100]), np.array([4, 9, 104]), np.ones(3, np.int64)))
    >>> held.purge(50)
    >>> len(held), held.overlapping(100, 101).payload.column("v").to_pylist()
    (1, [3])
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._classes: dict[int, dict[int, Part]] = {}
        self._widths: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self.parts()))

    def parts(self) -> Iterator[Part]:
        for slices in self._classes.values():
            yield from slices.values()

    def add(self, delta: Delta) -> None:
        """Keep rows; those that the changes take away are gone."""
        if not len(delta):
            return
        classes = _class_of(delta.start, delta.end)
        for number in np.unique(classes).tolist():
            mask = classes == number
            self._add(number, delta if mask.all() else delta.filter(mask))

    def _add(self, class_: int, delta: Delta) -> None:
        slices = self._classes.setdefault(class_, {})
        if not slices:
            span = int(delta.end.max()) - int(delta.end.min())
            self._widths[class_] = max(span // (_MOST // 4), 1).bit_length()
        width = self._widths[class_]
        there = np.fromiter(slices, np.int64, len(slices))
        while len(np.union1d(there, delta.end >> width)) > _MOST:
            width, there = width + 1, there >> 1
        if width != self._widths[class_]:
            self._widths[class_] = width
            delta = Delta.concat([*(part.rows for part in slices.values()), delta], self.schema)
            slices.clear()
        self._put(slices, delta, delta.end >> width)

    def _put(self, slices: dict[int, Part], delta: Delta, number: Codes) -> None:
        low, high = int(number.min()), int(number.max())
        if low == high:
            self._append(slices, low, delta)
            return
        order = np.argsort(number, kind="stable")
        ordered, sorted_ = delta.take(order), number[order]
        cuts = [0, *(np.flatnonzero(sorted_[1:] != sorted_[:-1]) + 1).tolist(), len(sorted_)]
        for begin, end in pairwise(cuts):
            self._append(slices, int(sorted_[begin]), _cut(ordered, begin, end))

    def _append(self, slices: dict[int, Part], number: int, delta: Delta) -> None:
        known = slices.get(number)
        rows = delta if known is None else Delta.concat([known.rows, delta], self.schema)
        if (delta.weight < 0).any():
            rows = rows.consolidate()
        if len(rows):
            slices[number] = Part.of(rows)
        else:
            slices.pop(number, None)

    def overlapping(self, start: int, end: int) -> Delta:
        """The rows of all slices that may have something in [start, end)."""
        return Delta.concat([part.rows for part in self.near(start, end)], self.schema)

    def near(self, start: int, end: int) -> list[Part]:
        """The slices that may have something in [start, end)."""
        return [part for part in self.parts() if part.first < end and part.last > start]

    def purge(self, until: int) -> None:
        """Forget the rows that have ended by then."""
        for slices in self._classes.values():
            for number in [n for n, part in slices.items() if part.soonest <= until]:
                part = slices[number]
                if part.last <= until:
                    del slices[number]
                else:
                    rows = part.rows
                    slices[number] = Part.of(rows.filter(rows.end > until))

    def least(self, columns: Sequence[str]) -> list[int] | None:
        """The smallest value of each of these columns of whole numbers, nulls left out; infinity
        when there is none. None when a row is null in all of them."""
        lows = [INFINITY] * len(columns)
        for part in self.parts():
            values = [part.payload.column(column) for column in columns]
            if _all_null(values):
                return None
            lows = [min(low, _least(column)) for low, column in zip(lows, values, strict=True)]
        return lows

    def first(self) -> int:
        """The earliest start."""
        return min((part.first for part in self.parts()), default=INFINITY)

    def snapshot(self, name: str) -> Slices:
        return {
            f"{name}/{class_}/{self._widths[class_]}/{number}/{part.mark}": part.write()
            for class_, slices in self._classes.items()
            for number, part in slices.items()
        }

    def restore(self, name: str, slices: Mapping[str, Rows]) -> None:
        self._classes, self._widths = {}, {}
        for key, rows in slices.items():
            mine, *marks = key.split("/")
            if mine == name:
                class_, width, number = map(int, marks[:3])
                self._classes.setdefault(class_, {})[number] = Part.read(rows, marks[3])
                self._widths[class_] = width

    def size(self) -> StateSize:
        return StateSize(len(self), sum(part.nbytes for part in self.parts()))


def _class_of(start: Times, end: Times) -> Codes:
    endless = end == INFINITY
    duration = np.where(endless, 1, end - start)
    exponent = np.frexp(duration.astype(np.float64))[1].astype(np.int64)
    return np.where(endless, _ENDLESS, exponent // _CLASS_BITS)


def _cut(delta: Delta, begin: int, end: int) -> Delta:
    return Delta(
        delta.payload.slice(begin, end - begin),
        delta.start[begin:end],
        delta.end[begin:end],
        delta.weight[begin:end],
    )


def _least(column: pa.Array) -> int:
    least = pc.min(column).as_py()
    return INFINITY if least is None else int(least)


def _all_null(columns: Sequence[pa.Array]) -> bool:
    """Whether some row has no value in any of the columns."""
    if not all(column.null_count for column in columns):
        return False
    empty = [column.is_null().to_numpy(zero_copy_only=False) for column in columns]
    return bool(np.logical_and.reduce(empty).any())

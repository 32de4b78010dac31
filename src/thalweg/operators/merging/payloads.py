"""The payloads of the rows that a merge holds, each once, found by slot.

Payloads lie in chunks that never change. New rows become a chunk; chunks of about one size are
merged, so there are few or logarithmically many, and each row is copied logarithmically often. A chunk
whose rows are mostly gone is written anew without them, so that at most about half of what is held
is of no use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Codes, Rows, concat_rows, copy_rows, empty_rows, take_rows
from thalweg.model.sorting import inverse_order
from thalweg.operators.merging.digest_table import as_slice, grown

__all__ = ["Payloads"]

_LARGEST = 64 << 20
"""Chunks are merged up to this many bytes; one text column of a chunk stays far below 2 GiB."""
_MANY, _FEW = 4_096, 16
"""Chunks of many rows are not merged as long as there are few chunks."""
_SPARSE = 4
"""Rows that follow each other are looked for among so many places for each of them."""


@dataclass(slots=True)
class _Chunk:
    rows: Rows
    slots: Codes
    live: int
    gone: int = 0
    """All rows of the places before this one are gone; see `Payloads.first`."""

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + self.slots.nbytes


class Payloads:
    """Rows of a schema by slot.

    >>> payloads = Payloads(pa.schema([("v", pa.int64())]))
    >>> payloads.add(np.array([0, 1, 2]), pa.RecordBatch.from_pydict({"v": [7, 8, 9]}))
    >>> payloads.remove(np.array([1]))
    >>> payloads.take(np.array([2, 0])).to_pydict()
    {'v': [9, 7]}
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._numbers: dict[int, _Chunk] = {}
        self._next = 0
        self._chunk = np.full(64, -1, np.int64)
        self._place = np.zeros(64, np.int64)

    @property
    def nbytes(self) -> int:
        held = sum(chunk.nbytes for chunk in self._numbers.values())
        return held + self._chunk.nbytes + self._place.nbytes

    def add(self, slots: Codes, rows: Rows) -> None:
        """New rows with their slots. They are copied: nothing larger is held with them."""
        if not len(slots):
            return
        size = len(self._chunk)
        while size <= int(slots.max()):
            size *= 2
        self._chunk, self._place = grown(self._chunk, size, -1), grown(self._place, size)
        parts, count, bytes_ = [(slots, rows)], len(slots), int(rows.nbytes)
        while self._numbers:  # the newest chunks, as long as one is not twice as large
            number = next(reversed(self._numbers))
            chunk = self._numbers[number]
            if chunk.live >= 2 * count or bytes_ + chunk.nbytes > _LARGEST:
                break
            if count >= _MANY and len(self._numbers) < _FEW:
                break
            count, bytes_ = count + chunk.live, bytes_ + chunk.nbytes
            parts.append(self._living(number))
            del self._numbers[number]
        if len(parts) == 1:
            self._put(slots, copy_rows(rows))
            return
        parts.reverse()
        self._put(
            np.concatenate([own for own, _ in parts]),
            concat_rows([part for _, part in parts], self.schema),
        )

    def _put(self, slots: Codes, rows: Rows) -> None:
        number = self._next
        self._next += 1
        self._numbers[number] = _Chunk(rows, slots, len(slots))
        where = as_slice(slots)
        self._chunk[where] = number
        self._place[where] = np.arange(len(slots))

    def _living(self, number: int) -> tuple[Codes, Rows]:
        chunk = self._numbers[number]
        if chunk.live == len(chunk.slots):
            return chunk.slots, chunk.rows
        # a slot that was handed out again has its row in another chunk
        which = np.flatnonzero(self._chunk[as_slice(chunk.slots)] == number)
        along = as_slice(which)
        if isinstance(along, slice):
            return chunk.slots[along], chunk.rows.slice(along.start, len(which))
        return chunk.slots[which], take_rows(chunk.rows, which)

    def remove(self, slots: Codes) -> None:
        """Rows that are gone."""
        if not len(slots):
            return
        where = as_slice(slots)
        numbers = self._chunk[where]
        first, last = int(numbers.min()), int(numbers.max())
        if last - first < len(slots):
            often = np.bincount(numbers - first)
            found = first + np.flatnonzero(often)
            counts = often[found - first]
        else:
            found, counts = np.unique(numbers, return_counts=True)
        self._chunk[where] = -1
        for number, count in zip(found.tolist(), counts.tolist(), strict=True):
            chunk = self._numbers[number]
            chunk.live -= count
            if not chunk.live:
                del self._numbers[number]
            elif 2 * chunk.live < len(chunk.slots):
                kept, rows = self._living(number)
                self._numbers[number] = _Chunk(copy_rows(rows), kept.copy(), len(kept))
                self._place[as_slice(kept)] = np.arange(len(kept))

    def behind(self, slot: int) -> int:
        """The slot of the row that was added right after the one in a slot; -1 if none was, or
        if it is not known any more."""
        number = int(self._chunk[slot])
        if number < 0:
            return -1
        chunk, place = self._numbers[number], int(self._place[slot]) + 1
        if place < len(chunk.slots):
            return int(chunk.slots[place])
        later = next((other for other in self._numbers if other > number), -1)
        return int(self._numbers[later].slots[0]) if later >= 0 else -1

    def lying_at(self, slot: int, rows: Rows, positions: Codes | None = None) -> Codes | None:
        """The slots of the rows that are left of those added from the place of a slot on, if they
        are exactly these rows, or those at some positions; None otherwise.

        >>> payloads = Payloads(pa.schema([("v", pa.int64())]))
        >>> held = pa.RecordBatch.from_pydict({"v": [7, 8, 9]})
        >>> payloads.add(np.array([0, 1, 2]), held)
        >>> payloads.lying_at(1, held.slice(1)).tolist(), payloads.lying_at(1, held)
        ([1, 2], None)
        """
        first, begin = int(self._chunk[slot]), int(self._place[slot])
        if first < 0:
            return None
        if positions is None:
            positions = np.arange(rows.num_rows)
        found = []
        for number in self._numbers:  # in the order in which rows were added
            if number < first:
                continue
            same = self._living_from(number, begin, rows, positions)
            if same is None:
                return None
            found.append(same)
            positions, begin = positions[len(same) :], 0
            if not len(positions):
                return found[0] if len(found) == 1 else np.concatenate(found)
        return None

    def _living_from(self, number: int, begin: int, rows: Rows, positions: Codes) -> Codes | None:
        """The slots of the first of the rows at these positions, as many as a chunk has from a
        place on, if they are what is left there; None if others are, or hardly any."""
        chunk, count = self._numbers[number], len(positions)
        if chunk.live == len(chunk.slots):
            places = np.arange(begin, min(begin + count, len(chunk.slots)))
        else:
            reach = begin + _SPARSE * count
            slots = chunk.slots[begin:reach]
            places = begin + np.flatnonzero(self._chunk[as_slice(slots)] == number)[:count]
            if len(places) < count and reach < len(chunk.slots):
                return None
        if not _same_rows(chunk.rows, places, rows, positions[: len(places)]):
            return None
        return chunk.slots[places]

    def first(self, count: int) -> Codes:
        """At most so many slots: of the rows that are there, those that were added first."""
        if not self._numbers:
            return np.empty(0, np.int64)
        number, chunk = next(iter(self._numbers.items()))
        while True:  # every place is passed once, and a chunk has a row that is there
            slots = chunk.slots[chunk.gone : chunk.gone + _SPARSE * count]
            living = np.flatnonzero(self._chunk[as_slice(slots)] == number)
            if len(living):
                chunk.gone += int(living[0])
                return slots[living[:count]]
            chunk.gone += len(slots)

    def take(self, slots: Codes) -> Rows:
        """The rows of these slots, in this order."""
        if not len(slots):
            return empty_rows(self.schema)
        where = as_slice(slots)
        numbers = self._chunk[where]
        first = int(numbers[0])
        if (numbers == first).all():
            return self._rows_of(self._numbers[first], self._place[where])
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        parts = [
            take_rows(self._numbers[int(numbers[which[0]])].rows, self._place[slots[which]])
            for which in np.split(order, cuts)
        ]
        back = inverse_order(order)
        return take_rows(concat_rows(parts, self.schema), back)

    def _rows_of(self, chunk: _Chunk, places: Codes) -> Rows:
        along = as_slice(places)
        if not isinstance(along, slice):
            return take_rows(chunk.rows, places)
        rows = chunk.rows.slice(along.start, len(places))
        return rows if 2 * len(places) >= len(chunk.slots) else copy_rows(rows)


def _same_rows(held: Rows, places: Codes, rows: Rows, positions: Codes) -> bool:
    """Whether the rows at some places equal those at as many positions. Where both have the same
    gaps, rows that are gone lie between them: all are compared where they lie, without a copy."""
    if not len(places):
        return True
    first, span = int(places[0]), int(places[-1] - places[0]) + 1
    shift = int(positions[0]) - first
    if (positions - places == shift).all() and held.slice(first, span).equals(
        rows.slice(first + shift, span)
    ):
        return True
    if span == len(places) == positions[-1] - positions[0] + 1:
        return False
    return bool(take_rows(held, places).equals(take_rows(rows, positions)))

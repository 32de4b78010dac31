"""The payloads of the rows that a merge holds, each once, found by slot.

Payloads lie in chunks that never change. New rows become a chunk; chunks of about one size are
merged, so there are few or logarithmically many, and each row is copied logarithmically often. A
chunk of which most rows were dropped is written anew without them, so that at most about half of
the memory holds dropped rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Codes, Rows, concat_rows, copy_rows, empty_rows, take_rows
from thalweg.model.sorting import inverse_order
from thalweg.operators.merging.digest_table import grown
from thalweg.operators.merging.payload_chunk import Chunk, same_rows
from thalweg.operators.merging.slot_ranges import (
    Slots,
    as_slice,
    count_of,
    joined,
    listed,
    part_of,
    slot_at,
    where,
)

__all__ = ["Payloads"]

_LARGEST = 64 << 20
"""Chunks are merged up to this many bytes; one text column of a chunk stays far below 2 GiB."""
_MANY, _FEW = 4_096, 16
"""Chunks of many rows are not merged as long as there are few chunks."""
_SPARSE = 4
"""Places looked at for each of the rows that are looked for, where some rows were dropped."""


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
        self._chunks: dict[int, Chunk] = {}
        """Chunks, in the order in which rows were added."""
        self._next_number = 0
        self._chunk_of = np.full(64, -1, np.int64)
        """By slot: the number of the chunk; `~number` if the row was dropped."""
        self._place_of = np.zeros(64, np.int64)
        """By slot: the place in the chunk."""

    @property
    def nbytes(self) -> int:
        held = sum(chunk.nbytes for chunk in self._chunks.values())
        return held + self._chunk_of.nbytes + self._place_of.nbytes

    # ------------------------------------------------------------------------------------------
    # rows that come and go

    def add(self, slots: Slots, rows: Rows) -> None:
        """Add rows with their slots. They are copied, so that no larger buffer is kept alive."""
        count, bytes_ = count_of(slots), int(rows.nbytes)
        if not count:
            return
        self._make_room(slots)
        parts = [(slots, rows)]
        while self._chunks:  # merge with the newest chunks that are less than twice as large
            number = next(reversed(self._chunks))
            chunk = self._chunks[number]
            if chunk.live >= 2 * count or bytes_ + chunk.nbytes > _LARGEST:
                break
            if count >= _MANY and len(self._chunks) < _FEW:
                break
            count, bytes_ = count + chunk.live, bytes_ + chunk.nbytes
            parts.append(self._living(number))
            del self._chunks[number]
        if len(parts) == 1:
            self._put(self._next_number, slots, copy_rows(rows))
        else:
            parts.reverse()
            own = joined([own for own, _ in parts])
            self._put(self._next_number, own, concat_rows([part for _, part in parts], self.schema))
        self._next_number += 1

    def _make_room(self, slots: Slots) -> None:
        needed = slots.stop if isinstance(slots, slice) else int(slots.max()) + 1
        size = len(self._chunk_of)
        while size < needed:
            size *= 2
        self._chunk_of, self._place_of = (
            grown(self._chunk_of, size, -1),
            grown(self._place_of, size),
        )

    def _put(self, number: int, slots: Slots, rows: Rows) -> None:
        at = as_slice(slots)
        self._chunks[number] = Chunk(rows, at, int(rows.num_rows))
        self._chunk_of[at] = number
        self._place_of[at] = np.arange(rows.num_rows)

    def _living(self, number: int) -> tuple[Slots, Rows]:
        chunk = self._chunks[number]
        left = slice(chunk.dropped, len(chunk)) if chunk.whole else self._left(number)
        slots = part_of(chunk.slots, left)
        if isinstance(left, slice):
            return slots, chunk.rows.slice(left.start, count_of(left))
        return slots, take_rows(chunk.rows, left)

    def _left(self, number: int) -> Slots:
        return where(self._chunk_of[self._chunks[number].slots] == number)

    def remove(self, slots: Slots) -> None:
        """Drop rows."""
        if not count_of(slots):
            return
        at = as_slice(slots)
        counts = _counted(self._chunk_of[at])
        self._chunk_of[at] = ~self._chunk_of[at]
        for number, count in counts:
            chunk = self._chunks[number]
            chunk.live -= count
            if not chunk.live:
                del self._chunks[number]
            elif 2 * chunk.live < len(chunk):
                kept, rows = self._living(number)
                self._put(number, kept, copy_rows(rows))
            elif not (
                self._chunk_of[chunk.between(chunk.dropped, chunk.dropped + count)] == number
            ).any():
                chunk.dropped += count

    # ------------------------------------------------------------------------------------------
    # rows by the order in which they were added

    def behind(self, slot: int) -> int:
        """The slot of the row that was added right after that of `slot`; -1 if there is none or it
        is not known any more. The row may have been dropped."""
        number = int(self._chunk_of[slot])
        if number < 0:
            return -1
        place = int(self._place_of[slot]) + 1
        if place < len(self._chunks[number]):
            return self._slot_at(number, place)
        later = next((other for other in self._chunks if other > number), -1)
        return self._slot_at(later, 0) if later >= 0 else -1

    def left_from(self, slot: int) -> int:
        """The slot itself while its row is held; if the row was dropped together with all before it
        in its chunk, the slot of the first row left there; -1 if that is not known."""
        number = int(self._chunk_of[slot])
        if number >= 0:
            return slot
        chunk = self._chunks.get(~number)
        if chunk is None or int(self._place_of[slot]) >= chunk.dropped:
            return -1
        found = self._slot_at(~number, chunk.dropped)
        return found if int(self._chunk_of[found]) == ~number else -1

    def _slot_at(self, number: int, place: int) -> int:
        return slot_at(self._chunks[number].slots, place)

    def lying_at(self, slot: int, rows: Rows, positions: Slots | None = None) -> Slots | None:
        """The slots of the rows held from the place of a slot on, in the order in which they were
        added, if they equal these rows (those at `positions`, or all); None otherwise.

        >>> payloads = Payloads(pa.schema([("v", pa.int64())]))
        >>> held = pa.RecordBatch.from_pydict({"v": [7, 8, 9]})
        >>> payloads.add(np.array([0, 1, 2]), held)
        >>> payloads.lying_at(1, held.slice(1)).tolist(), payloads.lying_at(1, held)
        ([1, 2], None)
        """
        first, begin = int(self._chunk_of[slot]), int(self._place_of[slot])
        if first < 0:
            return None
        positions = slice(0, rows.num_rows) if positions is None else positions
        found: list[Slots] = []
        for number in self._chunks:
            if number < first:
                continue
            same = self._same_from(number, begin, rows, positions)
            if same is None:
                return None
            found.append(same)
            count, begin = count_of(same), 0
            positions = part_of(positions, slice(count, count_of(positions)))
            if not count_of(positions):
                return same if len(found) == 1 else joined(found)
        return None

    def _same_from(self, number: int, begin: int, rows: Rows, positions: Slots) -> Slots | None:
        """The slots of the rows that a chunk holds from place `begin` on, at most as many as there
        are positions, if they equal the first of these rows; None if not, or if few are left."""
        chunk, count = self._chunks[number], count_of(positions)
        places: Slots
        if chunk.whole:
            begin = max(begin, chunk.dropped)
            places = slice(begin, min(begin + count, len(chunk)))
        else:
            reach = begin + _SPARSE * count
            places = begin + np.flatnonzero(self._chunk_of[chunk.between(begin, reach)] == number)
            places = places[:count]
            if len(places) < count and reach < len(chunk):
                return None
        if not same_rows(chunk.rows, places, rows, part_of(positions, slice(0, count_of(places)))):
            return None
        return part_of(chunk.slots, places)

    def first(self, count: int) -> Codes:
        """The slots of the rows that were added first of all that are held, at most `count`."""
        if not self._chunks:
            return np.empty(0, np.int64)
        number, chunk = next(iter(self._chunks.items()))
        while True:  # every place is passed once, and a chunk has a row that is there
            slots = listed(chunk.between(chunk.dropped, chunk.dropped + _SPARSE * count))
            living = np.flatnonzero(self._chunk_of[slots] == number)
            if len(living):
                chunk.dropped += int(living[0])
                return slots[living[:count]]
            chunk.dropped += len(slots)

    # ------------------------------------------------------------------------------------------
    # rows by slot

    def take(self, slots: Slots) -> Rows:
        """The rows of these slots, in this order."""
        if not count_of(slots):
            return empty_rows(self.schema)
        at = as_slice(slots)
        numbers = self._chunk_of[at]
        first = int(numbers[0])
        if (numbers == first).all():
            return self._chunks[first].take(self._place_of[at])
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        place = self._place_of[at]
        parts = [
            take_rows(self._chunks[int(numbers[which[0]])].rows, place[which])
            for which in np.split(order, cuts)
        ]
        return take_rows(concat_rows(parts, self.schema), inverse_order(order))


def _counted(numbers: Codes) -> list[tuple[int, int]]:
    """The distinct values of a column of small numbers, each with its count."""
    first, last = int(numbers.min()), int(numbers.max())
    if first == last:
        return [(first, len(numbers))]
    if last - first < len(numbers):
        often = np.bincount(numbers - first)
        found = np.flatnonzero(often)
        return list(zip((first + found).tolist(), often[found].tolist(), strict=True))
    found, counts = np.unique(numbers, return_counts=True)
    return list(zip(found.tolist(), counts.tolist(), strict=True))

"""The payloads of the rows that a merge holds, each once, found by slot.

Payloads lie in chunks that never change. New rows become a chunk; chunks of about one size are
merged, so there are logarithmically many and each row is copied logarithmically often. A chunk
whose rows are mostly gone is written anew without them, so that at most about half of what is held
is of no use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Codes, Rows, concat_rows, empty_rows, take_rows
from thalweg.operators.merging.digest_table import grown

__all__ = ["Payloads"]

_LARGEST = 64 << 20
"""Chunks are merged up to this many bytes; one text column of a chunk stays far below 2 GiB."""


@dataclass(slots=True)
class _Chunk:
    rows: Rows
    slots: Codes
    live: int

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
        """New rows with their slots."""
        if not len(slots):
            return
        size = len(self._chunk)
        while size <= int(slots.max()):
            size *= 2
        self._chunk, self._place = grown(self._chunk, size, -1), grown(self._place, size)
        self._put(slots, rows)
        self._merge()

    def _put(self, slots: Codes, rows: Rows) -> None:
        number = self._next
        self._next += 1
        self._numbers[number] = _Chunk(rows, slots, len(slots))
        self._chunk[slots] = number
        self._place[slots] = np.arange(len(slots))

    def _merge(self) -> None:
        """Merge the newest chunks as long as the one before is not twice as large."""
        while len(self._numbers) > 1:
            *_, before, last = self._numbers
            one, two = self._numbers[before], self._numbers[last]
            if one.live >= 2 * two.live or one.nbytes + two.nbytes > _LARGEST:
                return
            older, newer = self._living(before), self._living(last)
            del self._numbers[before], self._numbers[last]
            self._put(
                np.concatenate([older[0], newer[0]]),
                concat_rows([older[1], newer[1]], self.schema),
            )

    def _living(self, number: int) -> tuple[Codes, Rows]:
        chunk = self._numbers[number]
        if chunk.live == len(chunk.slots):
            return chunk.slots, chunk.rows
        mine = self._chunk[chunk.slots] == number
        mine &= self._place[chunk.slots] == np.arange(len(chunk.slots))
        which = np.flatnonzero(mine)
        return chunk.slots[which], take_rows(chunk.rows, which)

    def remove(self, slots: Codes) -> None:
        """Rows that are gone."""
        if not len(slots):
            return
        numbers, counts = np.unique(self._chunk[slots], return_counts=True)
        self._chunk[slots] = -1
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            chunk = self._numbers[number]
            chunk.live -= count
            if not chunk.live:
                del self._numbers[number]
            elif 2 * chunk.live < len(chunk.slots):
                kept, rows = self._living(number)
                self._numbers[number] = _Chunk(rows, kept, len(kept))
                self._place[kept] = np.arange(len(kept))

    def lying_at(self, slot: int, behind: int, rows: Rows) -> Codes | None:
        """The slots of the rows that were added one behind the other from the place of a slot, or
        `behind` places after it, if they are exactly these rows; None otherwise.

        >>> payloads = Payloads(pa.schema([("v", pa.int64())]))
        >>> held = pa.RecordBatch.from_pydict({"v": [7, 8, 9]})
        >>> payloads.add(np.array([0, 1, 2]), held)
        >>> payloads.lying_at(0, 1, held.slice(1)).tolist(), payloads.lying_at(0, 1, held)
        ([1, 2], None)
        """
        first, begin = int(self._chunk[slot]), int(self._place[slot]) + behind
        if first < 0:
            return None
        found, done = [], 0
        for number, chunk in self._numbers.items():  # in the order in which rows were added
            if number < first:
                continue
            count = min(len(chunk.slots) - begin, rows.num_rows - done)
            if not chunk.rows.slice(begin, count).equals(rows.slice(done, count)):
                return None
            slots = chunk.slots[begin : begin + count]
            if chunk.live < len(chunk.slots):
                there = self._place[slots] == np.arange(begin, begin + count)
                if not (there & (self._chunk[slots] == number)).all():
                    return None
            found.append(slots)
            done, begin = done + count, 0
            if done == rows.num_rows:
                return found[0] if len(found) == 1 else np.concatenate(found)
        return None

    def take(self, slots: Codes) -> Rows:
        """The rows of these slots, in this order."""
        if not len(slots):
            return empty_rows(self.schema)
        numbers = self._chunk[slots]
        first = int(numbers[0])
        if (numbers == first).all():
            return take_rows(self._numbers[first].rows, self._place[slots])
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        parts = [
            take_rows(self._numbers[int(numbers[which[0]])].rows, self._place[slots[which]])
            for which in np.split(order, cuts)
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return take_rows(concat_rows(parts, self.schema), back)

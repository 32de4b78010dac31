"""Batches that repeat the rows of another input in the same order, as replicas of a plan send them.

Each input has a cursor into the order in which rows were added: the row after its last one. Where
the rows held from there on equal the next batch, their slots are found by comparing, which is far
cheaper than making digests.

An input without a cursor, or whose batch does not match there, gets a new cursor at a row that
starts when the first row of the batch does: one of the rows that are held longest, or for a large
batch any row. A cursor is a hint. Rows are compared in any case, so it is not saved.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Rows
from thalweg.model.time import Times
from thalweg.operators.merging.slot_ranges import Slots, as_slice
from thalweg.operators.merging.top_tier import TopTier

__all__ = ["RepeatedBatches"]

_MANY = 1_000
"""Rows in a batch for which looking for one of them is a small part of the work."""


class RepeatedBatches:
    """The cursor of each input into the rows of the top tier.

    >>> top, rows = TopTier(SCHEMA), pa.RecordBatch.from_pydict({"v": [7, 8, 9]}, SCHEMA)
    >>> slots, repeated = top.add_after_all(rows, np.array([1, 2, 3])), RepeatedBatches()
    >>> repeated.find(top, 0, rows.slice(1), np.array([2, 3]), None).tolist()
    [1, 2]
    """

    def __init__(self) -> None:
        self._cursor: dict[int, int] = {}
        """By column: the slot of the row added after the input's last one; -1: none was yet."""

    def sent(self, top: TopTier, column: int, last: int) -> None:
        """Note that the last row of an input's batch is in slot `last`."""
        self._cursor[column] = top.payloads.behind(last)

    def added(self, first: int) -> None:
        """Note that rows were added after all others, the first of them in slot `first`."""
        for column, slot in self._cursor.items():
            if slot < 0:
                self._cursor[column] = first

    def leave(self, column: int) -> None:
        """Forget an input."""
        self._cursor.pop(column, None)

    def find(
        self, top: TopTier, column: int, rows: Rows, start: Times, positions: Slots | None
    ) -> Slots | None:
        """The slots of the rows of a batch (at some positions, or all) with these starts, if they
        lie in this order at the input's cursor; None where they must be found by digest."""
        slot = self._cursor.get(column, -1)
        slot = -1 if slot < 0 else top.payloads.left_from(slot)
        if slot < 0 or int(top.start[slot]) != int(start[0]):
            slot = _starting_as(top, start)
        slots = None if slot < 0 else top.payloads.lying_at(slot, rows, positions)
        if slots is None:
            return None
        slots = as_slice(slots)
        return slots if (top.start[slots] == start).all() else None


def _starting_as(top: TopTier, starts: Times) -> int:
    """The slot of a row that starts when the first row of a batch does; -1 if there is none, or if
    it is not worth looking for. An input whose last rows were dropped is behind the others: its
    rows are among those that are held longest."""
    start = int(starts[0])
    if start > top.highest:
        return -1
    if len(starts) >= _MANY:
        return top.starting_at(start)
    slots = top.payloads.first(len(starts))
    same = np.flatnonzero(top.start[slots] == start)
    return int(slots[same[0]]) if len(same) else -1


SCHEMA = pa.schema([("v", pa.int64())])

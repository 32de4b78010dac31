"""Inputs in step: a batch that repeats, in the same order, rows which another input has sent.

Replicas of one plan mostly send such batches. Each input has a place in the order in which rows
were added: the one behind its last row. If what is left from there on are exactly the rows of the
next batch, they need not be looked for by digest, and comparing is far cheaper than making
digests.

An input without a place, or that is not in step, gets another one where a row starts as
the first one of its batch: among the rows that are held longest, or in a large batch wherever it
lies. A place is a hint. Rows are compared in any case, so it is not saved.
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
    """By input, where in the top tier its next rows may lie.

    >>> top, rows = TopTier(SCHEMA), pa.RecordBatch.from_pydict({"v": [7, 8, 9]}, SCHEMA)
    >>> slots, repeated = top.add_after_all(rows, np.array([1, 2, 3])), RepeatedBatches()
    >>> repeated.find(top, 0, rows.slice(1), np.array([2, 3]), None).tolist()
    [1, 2]
    """

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        """By column: the slot of the row behind the last one; -1 as long as there is none."""

    def sent(self, top: TopTier, column: int, last: int) -> None:
        """An input has sent the row in a slot, and no row after it."""
        self._next[column] = top.payloads.behind(last)

    def added(self, first: int) -> None:
        """Rows were added behind all others, the first of them in a slot."""
        for column, slot in self._next.items():
            if slot < 0:
                self._next[column] = first

    def leave(self, column: int) -> None:
        """There is no such input any more."""
        self._next.pop(column, None)

    def find(
        self, top: TopTier, column: int, rows: Rows, start: Times, positions: Slots | None
    ) -> Slots | None:
        """The slots of the rows of a batch, or of those at some positions, with their starts, if
        they lie in this order at the place of an input; None where rows have to be looked for."""
        slot = self._next.get(column, -1)
        slot = -1 if slot < 0 else top.payloads.left_from(slot)
        if slot < 0 or int(top.start[slot]) != int(start[0]):
            slot = _starting_as(top, start)
        slots = None if slot < 0 else top.payloads.lying_at(slot, rows, positions)
        if slots is None:
            return None
        slots = as_slice(slots)
        return slots if (top.start[slots] == start).all() else None


def _starting_as(top: TopTier, starts: Times) -> int:
    """The slot of a row that starts as the first one of a batch; -1 if there is none, or if it is
    not worth looking for. An input whose last rows were dropped is behind the others: what it sends
    is among the rows that are held longest."""
    start = int(starts[0])
    if start > top.highest:
        return -1
    if len(starts) >= _MANY:
        return top.starting_at(start)
    slots = top.payloads.first(len(starts))
    same = np.flatnonzero(top.start[slots] == start)
    return int(slots[same[0]]) if len(same) else -1


SCHEMA = pa.schema([("v", pa.int64())])

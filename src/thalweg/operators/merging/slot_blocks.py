"""Columns by slot, saved in blocks: a snapshot makes anew only the blocks in which something changed
since the last one. The others are the same objects, so that a store writes them once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from thalweg.model.rows import Bools, Codes, Rows
from thalweg.operators.merging.digest_table import grown
from thalweg.operators.merging.slot_ranges import Slots

__all__ = ["SlotBlocks", "saved_blocks"]

_SHIFT = 8
"""Slots in a block, as a power of two."""


class SlotBlocks:
    """
    >>> import pyarrow as pa
    >>> blocks = SlotBlocks("rows")
    >>> blocks.touch(np.array([3, 700]))
    >>> def rows(slots):
    ...     return pa.RecordBatch.from_arrays([pa.array(slots)], names=["_slot"])
    >>> first = blocks.save(np.array([3, 700]), rows)
    >>> blocks.touch(np.array([5]))
    >>> second = blocks.save(np.array([3, 5, 700]), rows)
    >>> [(name, second[name] is first[name]) for name in second]
    [('rows/0', False), ('rows/2', True)]
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed: Bools = np.zeros(1, np.bool_)
        self._saved: dict[int, Rows] = {}

    def touch(self, slots: Slots) -> None:
        """Something about the rows in these slots has changed."""
        blocks: Slots
        if isinstance(slots, slice):
            last = (slots.stop - 1) >> _SHIFT
            blocks = slice(slots.start >> _SHIFT, last + 1)
        elif len(slots):
            blocks = slots >> _SHIFT
            last = int(blocks.max())
        else:
            return
        if last >= len(self._changed):
            self._changed = grown(self._changed, 2 * last + 1)
        self._changed[blocks] = True

    def restore(self, slices: Mapping[str, Rows]) -> None:
        """Go on with blocks that were saved: they are not made anew before they change."""
        for part, rows in slices.items():
            name, _, block = part.partition("/")
            if name == self._name:
                self._saved[int(block)] = rows

    def save(self, used: Codes, rows: Callable[[Codes], Rows]) -> dict[str, Rows]:
        """A slice for each block that has rows; `used` are the slots in use, in order, and `rows`
        gives what is saved of some of them."""
        blocks = used >> _SHIFT
        for block in np.flatnonzero(self._changed).tolist():
            begin, end = np.searchsorted(blocks, [block, block + 1])
            if begin < end:
                self._saved[block] = rows(used[begin:end])
            else:
                self._saved.pop(block, None)
        self._changed[:] = False
        return {f"{self._name}/{block}": self._saved[block] for block in sorted(self._saved)}


def saved_blocks(slices: Mapping[str, Rows], name: str) -> Iterator[Rows]:
    """The slices that `SlotBlocks` of this name has saved."""
    return (rows for part, rows in slices.items() if part.startswith(f"{name}/"))

"""Window buffers in blocks: rows of a key, in order of time, on pages.

Pages are divided into blocks of equal size; a block holds consecutive rows of one buffer. It has a
location in the paged memory, a dequeue offset and an enqueue offset, and holds the rows between the
two. A buffer is a linked list of blocks: rows are enqueued in its last block and dequeued from its
first. A block is freed when its last row was dequeued, and a buffer that is cleared frees all its
blocks.

A row location is `block * rows a block + offset`; values are stored there.
"""

from __future__ import annotations

import numpy as np

from thalweg.freshness._arrays import Ints, enlarge
from thalweg.freshness.pages import PagedMemory

__all__ = ["BlockBuffers"]


class BlockBuffers:
    """
    >>> from thalweg.freshness.pages import PagePool
    >>> buffers = BlockBuffers(PagedMemory(PagePool(pages=2, locations=2)), block_rows=2)
    >>> buffers.grow(1)
    >>> [buffers.push(0) for _ in range(3)], buffers.memory.used
    ([0, 1, 2], 2)
    >>> buffers.pop(0), buffers.pop(0), buffers.memory.used, buffers.rows(0)
    (0, 1, 1, array([2]))
    """

    def __init__(self, memory: PagedMemory, block_rows: int) -> None:
        self.memory = memory
        self.block_rows = block_rows
        blocks = memory.pool.pages * memory.pool.locations
        self._next = np.full(blocks, -1, np.int64)
        self._dequeue = np.zeros(blocks, np.int64)
        self._enqueue = np.zeros(blocks, np.int64)
        self._first = np.empty(0, np.int64)
        self._last = np.empty(0, np.int64)
        self.count = np.empty(0, np.int64)
        """Per buffer: how many rows it holds."""
        self.left = 0
        """How many rows were removed so far."""

    def grow(self, buffers: int) -> None:
        if buffers > len(self.count):
            size = max(16, buffers, 2 * len(self.count))
            self._first = enlarge(self._first, size, -1)
            self._last = enlarge(self._last, size, -1)
            self.count = enlarge(self.count, size, 0)

    def push(self, buffer: int) -> int:
        """A location for a new last row, -1 if no page is left."""
        block = int(self._last[buffer])
        if block < 0 or self._enqueue[block] == self.block_rows:
            block = self._append_block(buffer)
            if block < 0:
                return -1
        offset = int(self._enqueue[block])
        self._enqueue[block] = offset + 1
        self.count[buffer] += 1
        return block * self.block_rows + offset

    def push_many(self, buffers: Ints, counts: Ints) -> Ints:
        """Locations for new last rows: `counts[i]` of them for the i-th of distinct buffers, in
        this order. There must be pages for them."""
        size = self.block_rows
        buffers, counts = buffers[counts > 0], counts[counts > 0]
        last = self._last[buffers]
        filled = np.where(last < 0, size, self._enqueue[last])
        added = -(-(filled + counts) // size) - 1
        blocks = self.memory.add(int(added.sum()))
        begin, first = np.cumsum(counts) - counts, np.cumsum(added) - added
        # A row's place, counted from the begin of its buffer's last block before the call.
        place = np.repeat(filled - begin, counts) + np.arange(int(counts.sum()))
        turn, offset = np.divmod(place, size)
        block = np.repeat(last, counts)
        later = np.flatnonzero(turn)
        block[later] = blocks[(np.repeat(first, counts) + turn - 1)[later]]
        self._chain(buffers, blocks, first, added)
        self._enqueue[self._last[buffers]] = filled + counts - added * size
        self.count[buffers] += counts
        locations: Ints = block * size + offset
        return locations

    def _chain(self, buffers: Ints, blocks: Ints, first: Ints, added: Ints) -> None:
        """Append new blocks to buffers: `added[i]` of them, from `blocks[first[i]]` on, to the i-th
        buffer."""
        if not len(blocks):
            return
        self._dequeue[blocks] = 0
        self._enqueue[blocks] = self.block_rows
        self._next[blocks] = np.append(blocks[1:], -1)
        growing = np.flatnonzero(added)
        buffers, first = buffers[growing], first[growing]
        ends = blocks[first + added[growing] - 1]
        last, begins = self._last[buffers], blocks[first]
        self._enqueue[last[last >= 0]] = self.block_rows
        self._next[last[last >= 0]] = begins[last >= 0]
        self._first[buffers[last < 0]] = begins[last < 0]
        self._next[ends] = -1
        self._last[buffers] = ends

    def pop(self, buffer: int) -> int:
        """Remove the first row; returns its location, -1 if there is none."""
        if not self.count[buffer]:
            return -1
        block = int(self._first[buffer])
        offset = int(self._dequeue[block])
        self._dequeue[block] = offset + 1
        self.count[buffer] -= 1
        self.left += 1
        if offset + 1 == self._enqueue[block]:
            self._free_first(buffer)
        return block * self.block_rows + offset

    def first(self, buffer: int) -> int:
        """The location of the first row of a buffer that is not empty."""
        block = int(self._first[buffer])
        return block * self.block_rows + int(self._dequeue[block])

    def pop_many(self, buffer: int, most: int) -> Ints:
        """Remove the first `most` rows, or all; returns their locations."""
        rows = self.rows(buffer, most)[:most]
        self.drop(buffer, len(rows))
        return rows

    def move(self, source: int, target: int) -> None:
        """Move all rows of `source` to `target`, which must be empty."""
        for array in (self._first, self._last, self.count):
            array[target] = array[source]
        self._first[source] = self._last[source] = -1
        self.count[source] = 0

    def drop(self, buffer: int, count: int) -> None:
        """Remove the first `count` rows."""
        self.count[buffer] -= count
        self.left += count
        while count > 0:
            block = int(self._first[buffer])
            held = int(self._enqueue[block] - self._dequeue[block])
            if held > count:
                self._dequeue[block] += count
                return
            count -= held
            self._free_first(buffer)

    def clear(self, buffer: int) -> None:
        self.drop(buffer, int(self.count[buffer]))

    def clear_many(self, buffers: Ints) -> None:
        """Remove all rows of distinct buffers."""
        self.left += int(self.count[buffers].sum())
        self.count[buffers] = 0
        while len(buffers := buffers[self._first[buffers] >= 0]):
            self._free_firsts(buffers)

    def drop_before(self, buffers: Ints, times: Ints, needed: Ints) -> None:
        """Remove the first rows of distinct buffers, as long as their time, `times[location]`, is
        before the time `needed` of the buffer. The loop is over the blocks of one buffer."""
        offsets = np.arange(self.block_rows)
        while True:
            held = self._first[buffers] >= 0
            buffers, needed = buffers[held], needed[held]
            if not len(buffers):
                return
            blocks = self._first[buffers]
            begin, end = self._dequeue[blocks], self._enqueue[blocks]
            older = times[blocks[:, None] * self.block_rows + offsets] < needed[:, None]
            older &= (offsets >= begin[:, None]) & (offsets < end[:, None])
            dropped = older.sum(axis=1)
            self._dequeue[blocks] = begin + dropped
            self.count[buffers] -= dropped
            self.left += int(dropped.sum())
            emptied = begin + dropped == end
            buffers, needed = buffers[emptied], needed[emptied]
            self._free_firsts(buffers)

    def rows(self, buffer: int, most: int | None = None) -> Ints:
        """The locations of all rows, in order, or of the blocks with the first `most` rows."""
        parts: list[Ints] = []
        block = int(self._first[buffer])
        missing = int(self.count[buffer]) if most is None else most
        while block >= 0 and missing > 0:
            missing -= int(self._enqueue[block] - self._dequeue[block])
            parts.append(
                np.arange(self._dequeue[block], self._enqueue[block]) + block * self.block_rows
            )
            block = int(self._next[block])
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def held(self) -> Ints:
        """The locations of all rows of all buffers, in no order."""
        counts = self._enqueue - self._dequeue
        blocks = np.flatnonzero(counts)
        counts = counts[blocks]
        first = blocks * self.block_rows + self._dequeue[blocks]
        begin = np.cumsum(counts) - counts
        held: Ints = np.repeat(first - begin, counts) + np.arange(int(counts.sum()))
        return held

    def first_rows(self) -> Ints:
        """The location of the first row of each buffer that has one."""
        blocks = self._first[self._first >= 0]
        first: Ints = blocks * self.block_rows + self._dequeue[blocks]
        return first

    def _append_block(self, buffer: int) -> int:
        block = self.memory.add_one()
        if block < 0:
            return -1
        self._dequeue[block] = self._enqueue[block] = 0
        self._next[block] = -1
        last = int(self._last[buffer])
        if last < 0:
            self._first[buffer] = block
        else:
            self._next[last] = block
        self._last[buffer] = block
        return block

    def _free_firsts(self, buffers: Ints) -> None:
        blocks = self._first[buffers]
        following = self._next[blocks]
        self._first[buffers] = following
        self._last[buffers[following < 0]] = -1
        self._dequeue[blocks] = self._enqueue[blocks] = 0
        self.memory.remove(blocks)

    def _free_first(self, buffer: int) -> None:
        block = int(self._first[buffer])
        following = int(self._next[block])
        self._first[buffer] = following
        if following < 0:
            self._last[buffer] = -1
        self._dequeue[block] = self._enqueue[block] = 0
        self.memory.remove_one(block)

"""Forks: one buffer that several operators read, each with a head of its own.

A batch is stored once. Taking it moves the head of one reader; it is freed when the last reader has
passed it. A reader that is added begins after all waiting batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import ClassVar

from thalweg.graph.arcs import cut
from thalweg.model.batch import Batch

__all__ = ["Reader", "SharedBuffer"]


class SharedBuffer:
    """Batches by their number, from `first`, and for each how many readers have yet to pass it."""

    __slots__ = ("_batches", "_left", "first", "readers")

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._left: deque[int] = deque()
        self.first = 0
        self.readers: list[Reader] = []

    @property
    def beyond(self) -> int:
        """The number of the next batch."""
        return self.first + len(self._batches)

    def put(self, batch: Batch, /) -> None:
        if self.readers:
            self._batches.append(batch)
            self._left.append(len(self.readers))

    def size(self) -> int:
        """How many batches are stored."""
        return len(self._batches)

    def add_reader(self) -> Reader:
        reader = Reader(self, self.beyond)
        self.readers.append(reader)
        return reader

    def at(self, number: int) -> Batch:
        return self._batches[number - self.first]

    def passed(self, number: int) -> None:
        """One reader has passed this batch."""
        left = self._left
        left[number - self.first] -= 1
        while left and not left[0]:
            left.popleft()
            self._batches.popleft()
            self.first += 1


class Reader:
    """The arc that one consumer sees: what stands ahead of its head, then everything in the buffer
    from its head on."""

    __slots__ = ("_ahead", "buffer", "head")
    shared: ClassVar[bool] = True

    def __init__(self, buffer: SharedBuffer, head: int) -> None:
        self.buffer = buffer
        self.head = head
        self._ahead: deque[Batch] = deque()
        """The rest of a batch of which slices were taken, or batches of a snapshot: for this reader
        alone."""

    def put(self, batch: Batch, /) -> None:
        """A batch for all readers."""
        self.buffer.put(batch)

    def size(self) -> int:
        return self.buffer.beyond - self.head + len(self._ahead)

    def peek(self) -> Batch:
        return self._ahead[0] if self._ahead else self.buffer.at(self.head)

    def take(self, most: int | None = None) -> Batch:
        if self._ahead:
            batch = self._ahead.popleft()
        else:
            batch = self.buffer.at(self.head)
            self.skip()
        if most is not None and len(batch.start) > most:
            batch, rest = cut(batch, most)
            self._ahead.appendleft(rest)
        return batch

    def skip(self) -> None:
        """Move the head by one batch."""
        self.head += 1
        self.buffer.passed(self.head - 1)

    def contents(self) -> Iterator[Batch]:
        """All batches that wait for this reader."""
        yield from self._ahead
        yield from map(self.buffer.at, range(self.head, self.buffer.beyond))

    def put_ahead(self, batch: Batch, /) -> None:
        """A batch for this reader alone, before everything in the buffer."""
        self._ahead.append(batch)

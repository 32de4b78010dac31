"""Arcs: the buffers between operators. One operator puts batches in at the tail, another takes them
from the front.

The graph uses an arc through the calls of `Arc`, so that other kinds of queue can replace it.
A batch may be taken in slices: the rest stays at the front, and its progress goes with the last
slice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import ClassVar, Protocol

from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS

__all__ = ["AppendBuffer", "Arc", "cut"]


class Arc(Protocol):
    """A queue of batches that one operator reads."""

    shared: ClassVar[bool]
    """Whether other operators read the same batches."""

    def put(self, batch: Batch, /) -> None:
        """Add a batch at the tail."""

    def take(self, most: int | None = None) -> Batch:
        """Remove the batch at the front, or a slice of at most `most` elements of it."""

    def peek(self) -> Batch:
        """The batch that `take` without a limit would return."""

    def size(self) -> int:
        """How many batches wait."""

    def put_ahead(self, batch: Batch, /) -> None:
        """Add a batch for this reader alone. It is taken before all batches that are put later; on
        a shared arc also before waiting batches."""

    def contents(self) -> Iterator[Batch]:
        """All batches that wait, which stay."""


class AppendBuffer(deque[Batch]):
    """The plain form: a double-ended queue."""

    __slots__ = ()
    shared: ClassVar[bool] = False

    put = put_ahead = deque.append
    size = deque.__len__
    contents = deque.__iter__

    def take(self, most: int | None = None) -> Batch:
        if most is None or len(self[0].start) <= most:
            return self.popleft()
        first, self[0] = cut(self[0], most)
        return first

    def peek(self) -> Batch:
        return self[0]


def cut(batch: Batch, at: int) -> tuple[Batch, Batch]:
    """The first `at` elements and the others; the promise holds after all of them."""

    return batch.between(0, at).with_progress(NO_PROGRESS), batch.between(at, len(batch))

"""What a queue was promised, and what it promises itself: rows leave in another order than they
came."""

from __future__ import annotations

from thalweg.model.batch import Batch
from thalweg.model.time import INFINITY, MIN_TIME

__all__ = ["QueuePromise"]


class QueuePromise:
    """
    >>> from thalweg.model.progress import Progress
    >>> import pyarrow as pa
    >>> promise = QueuePromise(disorder=None)
    >>> promise.note(Batch.empty(pa.schema([]), Progress(9)))
    >>> promise.advance(7), promise.advance(7), promise.advance(None)
    (7, None, 9)
    """

    def __init__(self, disorder: int | None) -> None:
        """`disorder` is how much earlier than the newest row a row may be when it arrives."""
        self._disorder = disorder
        self._input = MIN_TIME
        """What was promised to the queue."""
        self._output = MIN_TIME
        """What the queue promised last."""

    def note(self, batch: Batch) -> None:
        """Rows and a promise arrive."""
        self._input = max(self._input, batch.progress.cti)
        if len(batch) and self._disorder is not None:
            self._input = max(self._input, int(batch.start.max()) - self._disorder)

    def advance(self, held: int | None, size: int = 0) -> int | None:
        """The promise, if it is later than the last one, while `held` is the earliest start of a
        row that waits: windows of `size` that start up to that much before what is to come may
        still leave."""
        earliest = min(self._input, INFINITY if held is None else held)
        promise = earliest if earliest == INFINITY or not size else earliest - size + 1
        if promise <= self._output:
            return None
        self._output = promise
        return promise

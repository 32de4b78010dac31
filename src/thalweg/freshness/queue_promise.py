"""The promise of a queue, from the promises of its input and the rows that wait: rows leave a queue
in another order than they arrived."""

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
        """The latest promise of the input."""
        self._output = MIN_TIME
        """The latest promise of the queue."""

    def note(self, batch: Batch) -> None:
        """Update the promise of the input from a batch."""
        self._input = max(self._input, batch.progress.cti)
        if len(batch) and self._disorder is not None:
            self._input = max(self._input, int(batch.start.max()) - self._disorder)

    def advance(self, held: int | None, size: int = 0) -> int | None:
        """The promise of the queue, if it is later than the last one. `held` is the earliest start
        of a waiting row; windows of `size` may start up to that much before a row."""
        earliest = min(self._input, INFINITY if held is None else held)
        promise = earliest if earliest == INFINITY or not size else earliest - size + 1
        if promise <= self._output:
            return None
        self._output = promise
        return promise

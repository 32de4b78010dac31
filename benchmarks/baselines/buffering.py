"""Buffering: tuples wait in a buffer; when an extent ends, its aggregate is computed over the
buffered tuples.

What stream systems commonly do, in its best form for this machine: the buffer is one NumPy array,
an extent is a view of it without a copy, and all extents that a batch ends are reduced together.
The tuples must be in order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["BufferedMaximum"]

Values = npt.NDArray[np.int64]


class BufferedMaximum:
    """The maximum of the last `range_` tuples, every `slide` tuples; the first extents are
    partial.

    >>> buffer = BufferedMaximum(3, 2)
    >>> buffer.process(np.array([5, 1, 4])).tolist(), buffer.process(np.array([2])).tolist()
    ([5], [4])
    """

    def __init__(self, range_: int, slide: int) -> None:
        self._range, self._slide = range_, slide
        # Tuples before the first one never win.
        self._buffer: Values = np.full(range_, np.iinfo(np.int64).min)
        self._before = 0
        """How many tuples the next extent still lacks are counted from the last one that ended."""

    def process(self, values: Values) -> Values:
        """One more batch; the answers of the extents that have ended."""
        self._buffer = np.concatenate([self._buffer, values])
        ended = (self._before + len(values)) // self._slide
        first = len(self._buffer) - len(values) - self._before + self._slide - self._range
        self._before += len(values) - ended * self._slide
        answers = np.empty(0, np.int64)
        if ended:
            extents = np.lib.stride_tricks.sliding_window_view(self._buffer, self._range)
            answers = extents[first :: self._slide][:ended].max(axis=1)
        self._buffer = self._buffer[-(self._range + self._before) :]
        return answers

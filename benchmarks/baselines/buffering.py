"""Buffering: tuples wait in a buffer; when an extent ends, its aggregate is computed over the
buffered tuples.

What stream systems commonly do. The tuples must be in order. Written on the ground of this engine,
as the systems it stands for would be: tuples are Arrow rows, the aggregates are the engine's own,
and each extent is laid out, row by row of the buffer, before it is reduced.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Rows, concat_rows, empty_rows
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.groups import ranges
from thalweg.plan.aggregates import AggregateCall

__all__ = ["BufferedRows"]

_AT_ONCE = 4_000_000
"""Rows of extents that are laid out in one step."""


class BufferedRows:
    """An aggregate of the last `range_` tuples, every `slide` tuples."""

    def __init__(self, call: AggregateCall, schema: pa.Schema, range_: int, slide: int) -> None:
        self._arguments = ArgumentProjection((("answer", call),), (), schema)
        self._schema = pa.schema([("answer", call.type_in(schema))])
        self._range, self._slide = range_, slide
        self._buffer = empty_rows(self._arguments.schema)
        self._first = self._window = 0
        """The number of the first tuple in the buffer, and the next window to end."""

    def process(self, rows: Rows) -> list[pa.Array]:
        """One more batch; the answers of the extents that have ended."""
        times = np.zeros(rows.num_rows, np.int64)
        self._buffer = concat_rows(
            [self._buffer, self._arguments.project(rows, times)], self._arguments.schema
        )
        count = self._first + self._buffer.num_rows
        answers = []
        while (self._window + 1) * self._slide <= count:
            many = min(count // self._slide - self._window, max(_AT_ONCE // self._range, 1))
            end = (np.arange(self._window, self._window + many) + 1) * self._slide
            begin = np.maximum(end - self._range, 0)  # the first extents are partial
            cell, member = ranges(begin - self._first, end - begin)
            extents = self._buffer.take(pa.array(member))
            answers.append(
                self._arguments.reduce(
                    extents,
                    np.zeros(len(member), np.int64),
                    np.arange(len(member)),
                    cell,
                    many,
                    self._schema,
                )[0]
            )
            self._window += many
        needed = max((self._window + 1) * self._slide - self._range - self._first, 0)
        self._buffer, self._first = (
            self._buffer.slice(needed),
            self._first + min(needed, self._buffer.num_rows),
        )
        return answers

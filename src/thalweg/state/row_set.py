"""A row set: rows that are found by their own payload and lifetime, not by a key.

An arrangement whose groups are hashes of whole rows: a row that is adjusted or taken back is found
by one search, however many rows share a key or a time. Hashes only find candidates; rows are
compared themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.hashing import hash_rows
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import Times
from thalweg.state.arrangement import Arrangement
from thalweg.state.columns import RowColumns
from thalweg.state.hits import Hits

__all__ = ["RowSet"]

_FACTORS = tuple(map(np.uint64, (0x9FB21C651E98DF25, 0xD6E8FEB86659FD93, 0x9E3779B97F4A7C15)))


class RowSet(Arrangement):
    """
    >>> held = RowSet(pa.schema([("v", pa.int64())]), what="example")
    >>> payload, starts, ends = {"v": [1, 1]}, np.array([0, 5]), np.array([4, 9])
    >>> rows = Delta(pa.RecordBatch.from_pydict(payload), starts, ends, np.ones(2, np.int64))
    >>> held.change(rows)
    >>> held.find_rows(rows.take(np.array([1]))).start, len(held.find_rows(rows.negate()))
    (array([5]), 2)
    """

    def __init__(
        self, schema: pa.Schema, *, identity: int | None = None, marks: int = 0, what: str = ""
    ) -> None:
        """A row is identified by its lifetime and its first `identity` columns, or all."""
        super().__init__(schema, _no_groups, marks=marks, hashed=True, what=what)
        self._identity = schema.names[:identity]

    def _groups_of(self, rows: RowColumns) -> Codes:
        return self.groups_of(rows)

    def groups_of(self, rows: Delta | RowColumns) -> Codes:
        """The hash of each row."""
        columns = [rows.payload.column(at) for at in range(len(self._identity))]
        return identities(columns, rows.start, rows.end)

    def change(self, rows: Delta, marks: tuple[Times, ...] = (), *, strict: bool = True) -> None:
        """Add rows and remove rows. A row is removed only where its marks are equal too; unless
        `strict`, removals of rows that are not held are ignored."""
        if len(rows):
            self.apply(rows, self.groups_of(rows), marks, by_marks=True, strict=strict)

    def find_rows(self, rows: Delta) -> Hits:
        """For each row the held rows that equal it."""
        return self.find_equal(rows, self.groups_of(rows))


def identities(columns: Sequence[pa.Array], start: Times, end: Times) -> Codes:
    """A hash of 62 bits for each row."""
    total = start.view(np.uint64) * _FACTORS[0] + end.view(np.uint64) * _FACTORS[1]
    for column in columns:
        total *= _FACTORS[2]
        if pa.types.is_int64(column.type):
            whole = column.fill_null(0) if column.null_count else column
            total += whole.to_numpy().view(np.uint64) * _FACTORS[0]
        else:
            total += hash_rows([column], len(column))
    total ^= total >> np.uint64(31)
    total *= _FACTORS[1]
    return (total >> np.uint64(2)).view(np.int64)


def _no_groups(_: Rows) -> Codes:
    raise AssertionError("the group of a row in a row set follows from its lifetime too")

"""Rows by group: which groups a change touches, and the rows of those groups.

Kernels that recompute keep their rows in one weighted table. A batch touches some groups; the rows
of the others are put aside, the touched groups are evaluated before and after, and the difference
is the answer.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows, encode, encode_together
from thalweg.model.time import Times

__all__ = [
    "append_column",
    "group_codes",
    "keyed_in",
    "ranges",
    "refuse_negative",
    "replace_column",
    "units",
]


def group_codes(rows: Rows, keys: tuple[str, ...]) -> tuple[Codes, int]:
    """The group of each row, as a dense code."""
    return encode([rows.column(name) for name in keys], rows.num_rows)


def keyed_in(rows: Rows, others: Rows, keys: tuple[str, ...]) -> Bools:
    """Which rows are of a group that `others` has too."""
    if not keys:
        return np.full(rows.num_rows, others.num_rows > 0)
    if not rows.num_rows or not others.num_rows:
        return np.zeros(rows.num_rows, np.bool_)
    own, theirs, size = encode_together(
        [rows.column(k) for k in keys],
        [others.column(k) for k in keys],
        (rows.num_rows, others.num_rows),
    )
    touched = np.zeros(size, np.bool_)
    touched[theirs] = True
    return touched[own]


def ranges(first: Codes, length: Codes) -> tuple[Codes, Codes]:
    """Every integer of [first, first + length) for each i: (which i, which integer)."""
    which = np.repeat(np.arange(len(first)), length)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(length) - length, length)
    return which, first[which] + offset


def units(rows: Delta) -> Delta:
    """Rows of weight one: a row of weight w as w rows."""
    if (rows.weight == 1).all():
        return rows
    many = rows.take(np.repeat(np.arange(len(rows)), rows.weight))
    return Delta(many.payload, many.start, many.end, np.ones(len(many), np.int64))


def append_column(rows: Rows, name: str, values: Times) -> Rows:
    return pa.RecordBatch.from_arrays(
        [*rows.columns, pa.array(values)], names=[*rows.schema.names, name]
    )


def replace_column(rows: Rows, name: str, values: Times) -> Rows:
    at = rows.schema.names.index(name)
    columns = list(rows.columns)
    columns[at] = pa.array(values)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def refuse_negative(rows: Delta, where: str) -> None:
    """A row taken away that was never there: the input was not a legal stream."""
    bad = np.flatnonzero(rows.weight < 0)
    if len(bad):
        at = int(bad[0])
        row = rows.payload.slice(at, 1).to_pylist()[0]
        raise UnknownRowError(
            f"{where}: adjust of a row that was never inserted: {row} over [{rows.start[at]}, {rows.end[at]})."
        )

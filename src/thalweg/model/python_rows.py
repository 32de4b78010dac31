"""Rows as Python values, for messages and for reading; Python values as a column.

A column may hold times that Python has no date for: a damaged file, a clock that is far off, an
infinity of another system. Such a value is a `numpy.datetime64`; the rest of the row is as it is.

>>> python_rows(pa.table({"at": pa.array([0, 2**62]).cast(pa.timestamp("us")), "v": [1, 2]}))[1]
{'at': np.datetime64('148108-07-06T14:00:27.387904'), 'v': 2}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from thalweg.model.nested import python_value
from thalweg.model.rows import Rows

__all__ = ["column_of", "python_rows", "python_values"]


def python_rows(rows: Rows | pa.Table) -> list[dict[str, Any]]:
    """Each row as a dictionary."""
    try:
        return rows.to_pylist()
    except (OverflowError, ValueError):
        columns = [python_values(column) for column in rows.columns]
        names = rows.schema.names
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column."""
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        return [python_value(value) for value in column]


def column_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Values as a column. Raises when one does not fit; Arrow alone would cut a fraction off
    without a word."""
    if pa.types.is_integer(type_) and any(
        isinstance(value, float) and not value.is_integer() for value in values
    ):
        raise pa.ArrowInvalid("a number with a fraction in a column of whole numbers")
    return pa.array(values, type_)

"""The order of values: by size, then NaN, then null; the order that breaks ties everywhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.rows import Codes

__all__ = ["rank_values"]


def rank_values(column: pa.Array) -> Codes:
    """Dense ranks that sort like the values of a column.

    >>> rank_values(pa.array([3.0, None, float("nan"), -1.0, 3.0]))
    array([1, 3, 2, 0, 1])
    """
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_nested(column.type):
        # Arrow does not order nested values. Their text does, the same in every process.
        column = pa.array([repr(value) for value in column.to_pylist()], pa.string())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    ranks: Codes = pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy()
    return ranks.astype(np.int64) - 1

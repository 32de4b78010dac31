"""The order of values: by size, then NaN, then null; the order that breaks ties everywhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.nested import nested_texts
from thalweg.model.rows import Codes
from thalweg.model.sorting import rank_codes
from thalweg.model.time import Times

__all__ = ["on_one_axis", "rank_values"]


def rank_values(column: pa.Array) -> Codes:
    """Dense ranks that sort like the values of a column.

    >>> rank_values(pa.array([3.0, None, float("nan"), -1.0, 3.0]))
    array([1, 3, 2, 0, 1])
    """
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_nested(column.type) or pa.types.is_interval(column.type):
        column = nested_texts(column)
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    ranks: Codes = pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy()
    return ranks.astype(np.int64) - 1


def on_one_axis(*places: tuple[Codes, Times]) -> list[Codes]:
    """Numbers that sort like (key, time), comparable with each other; for binary search.

    >>> on_one_axis((np.array([0, 1]), np.array([7, 3])), (np.array([1]), np.array([5])))
    [array([2, 3]), array([4])]
    """
    rank = rank_codes(np.concatenate([time for _, time in places]))
    span = int(rank.max(initial=0)) + 1
    found, begin = [], 0
    for key, time in places:
        found.append(key * span + rank[begin : begin + len(time)])
        begin += len(time)
    return found

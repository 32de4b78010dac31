"""Orders of whole numbers, and what follows from them: ranks, one row for each code.

Stable sorts go by digits of 16 bits, which NumPy counts instead of comparing.

Codes, times of a batch and places are most often of a narrow range; then one or two passes over the
digits are several times faster than a sort by comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Codes, encode, sparse_codes
from thalweg.model.time import Times

__all__ = [
    "distinct",
    "inverse_order",
    "on_one_axis",
    "order_by_code",
    "order_by_group",
    "rank_codes",
    "representatives",
    "run_begins",
    "sort_codes",
    "sort_pairs",
]

_FEW = 1_024
"""So few numbers are compared."""
_FEW_RUNS = 8
"""So few sorted runs are merged."""
_DIGIT = 16


def sort_codes(values: Codes) -> Codes:
    """The stable order of whole numbers.

    >>> sort_codes(np.array([3, 1, 2, 1])).tolist()
    [1, 3, 2, 0]
    """
    if len(values) < _FEW:
        return values.argsort(kind="stable")
    falls = int(np.count_nonzero(values[1:] < values[:-1]))
    if not falls:
        return np.arange(len(values))
    low = int(values.min())
    span = int(values.max()) - low
    if falls < _FEW_RUNS or span >> (2 * _DIGIT):
        return values.argsort(kind="stable")
    shifted = values - low
    order = np.argsort(shifted.astype(np.uint16), kind="stable")
    if span >> _DIGIT:
        upper = (shifted >> _DIGIT).astype(np.uint16)
        order = order[upper[order].argsort(kind="stable")]
    return order


def order_by_code(code: Codes, size: int) -> Codes:
    """The stable order of numbers from 0 up to a size.

    >>> order_by_code(np.array([1, 0, 1]), 2).tolist()
    [1, 0, 2]
    """
    if size <= 2**_DIGIT:
        return code.astype(np.uint16).argsort(kind="stable")
    return sort_codes(code)


def order_by_group(columns: Sequence[pa.Array | Times], length: int) -> tuple[Codes, Codes]:
    """Groups of rows with equal values in all columns: the positions of the rows, group by group
    and in each in order of arrival, and where each group begins among them; last, the number of
    rows.

    >>> [found.tolist() for found in order_by_group([np.array([7, 5, 7])], 3)]
    [[1, 0, 2], [0, 1, 3]]
    """
    if length <= _FEW:
        code, size = encode(columns, length)
    else:
        code, size = sparse_codes(columns)
        if size > max(length, 2**_DIGIT):
            code, size = encode([code], length)
    count = np.bincount(code, minlength=size)
    full = count.nonzero()[0]
    if len(full) < size:
        count = count[full]
    offsets = np.zeros(len(count) + 1, np.int64)
    np.add.accumulate(count, out=offsets[1:])
    return order_by_code(code, size), offsets


def distinct(values: Codes) -> Codes:
    """The numbers that occur, in order. `np.unique` makes a hash table of whole numbers, which from
    a hundred on takes several times as long as a sort.

    >>> distinct(np.array([3, 1, 2, 1])).tolist()
    [1, 2, 3]
    """
    ordered = np.sort(values)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    found: Codes = ordered[new]
    return found


def sort_pairs(major: Codes, minor: Codes) -> Codes:
    """The stable order of pairs of whole numbers.

    >>> sort_pairs(np.array([1, 0, 1, 0]), np.array([5, 9, 4, 8])).tolist()
    [3, 1, 2, 0]
    """
    if len(major) < _FEW:
        return np.lexsort((minor, major))
    order = sort_codes(minor)
    return order[sort_codes(major[order])]


def rank_codes(values: Codes) -> Codes:
    """The rank of each number among the different ones, from 0.

    >>> rank_codes(np.array([30, 10, 20, 10])).tolist()
    [2, 0, 1, 0]
    """
    order = sort_codes(values)
    ordered = values[order]
    rank = np.zeros(len(values), np.int64)
    if len(values):
        rank[order[1:]] = (ordered[1:] != ordered[:-1]).cumsum()
    return rank


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


def representatives(codes: Codes, count: int) -> Codes:
    """The position of one row of each of `count` codes, its last one; each code occurs.

    >>> representatives(np.array([1, 0, 1, 2]), 3).tolist()
    [1, 2, 3]
    """
    found = np.empty(count, np.int64)
    found[codes] = np.arange(len(codes))
    return found


def run_begins(*columns: Codes) -> Codes:
    """Where each run of equal rows begins, in sorted columns.

    >>> run_begins(np.array([1, 1, 1, 2]), np.array([5, 5, 6, 6])).tolist()
    [0, 2, 3]
    """
    new = np.empty(len(columns[0]), np.bool_)
    new[:1] = True
    np.not_equal(columns[0][1:], columns[0][:-1], out=new[1:])
    for column in columns[1:]:
        new[1:] |= column[1:] != column[:-1]
    found: Codes = new.nonzero()[0]
    return found


def inverse_order(order: Codes) -> Codes:
    """The place of each element in an order.

    >>> inverse_order(np.array([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    return representatives(order, len(order))

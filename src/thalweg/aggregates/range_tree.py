"""Minima of many ranges of a row of numbers at once.

Building takes n steps, all queries together log n passes over their columns.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Codes

__all__ = ["ABSENT", "range_minima"]

ABSENT = 2**63 - 1
"""The minimum of nothing."""


def range_minima(values: Codes, lo: Codes, hi: Codes) -> Codes:
    """The smallest value of each range [lo, hi).

    >>> from numpy import array
    >>> range_minima(array([5, 3, 8, 1]), array([0, 1]), array([2, 4])).tolist()
    [3, 1]
    """
    size = 1 << max(len(values) - 1, 0).bit_length()
    tree = np.full(2 * size, ABSENT, np.int64)
    tree[size : size + len(values)] = values
    level = size
    while level > 1:
        np.minimum(
            tree[level : 2 * level : 2],
            tree[level + 1 : 2 * level : 2],
            out=tree[level // 2 : level],
        )
        level //= 2
    result = np.full(len(lo), ABSENT, np.int64)
    left, right = np.where(lo < hi, lo + size, size), np.where(lo < hi, hi + size, size)
    while (left < right).any():
        odd = (left < right) & (left & 1 == 1)
        at = np.flatnonzero(odd)
        result[at] = np.minimum(result[at], tree[left[at]])
        left = left + odd
        at = np.flatnonzero((left < right) & (right & 1 == 1))
        result[at] = np.minimum(result[at], tree[right[at] - 1])
        left, right = left >> 1, right >> 1
    return result

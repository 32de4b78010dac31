"""Many range queries at once over a row of values, by any operation that can be put together from
parts.

    query(lo, hi)[j] = values[lo[j]] * ... * values[hi[j] - 1]          * associative and commutative, with an identity

A value may have several columns. Building takes n steps, all queries together log n passes over
their columns, and no value is ever subtracted: sums of floats stay as good as they are, and minima
work like sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thalweg.model.rows import Codes
from thalweg.operators.doubled import add_doubled

__all__ = ["DOUBLED", "MINIMUM", "MINIMUM_FLOAT", "Monoid", "range_query"]

Column = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Monoid:
    """How two values become one, column by column, and the value that changes nothing."""

    combine: Callable[[Sequence[Column], Sequence[Column]], list[Column]]
    identity: tuple[float, ...]


def _least(one: Sequence[Column], two: Sequence[Column]) -> list[Column]:
    return [np.minimum(one[0], two[0])]


def _add_exactly(one: Sequence[Column], two: Sequence[Column]) -> list[Column]:
    return list(add_doubled((one[0], one[1]), (two[0], two[1])))


MINIMUM = Monoid(_least, (float(2**62),))
MINIMUM_FLOAT = Monoid(_least, (float("inf"),))
DOUBLED = Monoid(_add_exactly, (0.0, 0.0))
"""Sums of floats with twice the digits, as pairs (see `doubled`)."""


def range_query(columns: Sequence[Column], lo: Codes, hi: Codes, monoid: Monoid) -> list[Column]:
    """The values of the ranges [lo, hi); an empty one has the identity.

    >>> from numpy import array
    >>> range_query([array([5, 3, 8, 1])], array([0, 1, 2]), array([2, 3, 2]), MINIMUM)[0].tolist()[:2]
    [3, 3]
    """
    size = 1 << max(len(columns[0]) - 1, 0).bit_length()
    tree = [
        np.full(2 * size, one, column.dtype)
        for one, column in zip(monoid.identity, columns, strict=True)
    ]
    for node, column in zip(tree, columns, strict=True):
        node[size : size + len(column)] = column
    level = size
    while level > 1:
        pairs = monoid.combine(
            [node[level : 2 * level : 2] for node in tree],
            [node[level + 1 : 2 * level : 2] for node in tree],
        )
        for node, joined in zip(tree, pairs, strict=True):
            node[level // 2 : level] = joined
        level //= 2
    result = [
        np.full(len(lo), one, column.dtype)
        for one, column in zip(monoid.identity, columns, strict=True)
    ]
    left, right = lo + size, hi + size
    left, right = np.where(lo < hi, left, size), np.where(lo < hi, right, size)
    while (left < right).any():
        take = np.flatnonzero((left < right) & (left & 1 == 1))
        _put(result, take, monoid, tree, left[take])
        left = left + ((left < right) & (left & 1 == 1))
        take = np.flatnonzero((left < right) & (right & 1 == 1))
        _put(result, take, monoid, tree, right[take] - 1)
        left, right = left >> 1, right >> 1
    return result


def _put(result: list[Column], at: Codes, monoid: Monoid, tree: list[Column], node: Codes) -> None:
    if not len(at):
        return
    joined = monoid.combine([column[at] for column in result], [column[node] for column in tree])
    for column, values in zip(result, joined, strict=True):
        column[at] = values

"""The elements of a batch as a chain of changes to each row: the end that an element expects the
row to have, and the end that the row has after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thalweg.model.batch import Batch
from thalweg.model.digests import Digests
from thalweg.model.rows import Codes
from thalweg.model.sorting import inverse_order
from thalweg.model.time import Times

__all__ = ["ABSENT", "Chained", "chain", "distinct_digests", "expected_ends", "left_ends"]


ABSENT: int = -(2**63)
"""The end of a row that is not there."""

_MANY = 1_000
"""From this number of digests on it is worth avoiding to sort all of them."""


@dataclass(frozen=True, slots=True)
class Chained:
    """`before[i]` is the end of the row before element i: after the element before it, or for the
    first element of a row the `current` end. `last` has the position of each row's last element, in
    order."""

    before: Times
    last: Codes


def expected_ends(batch: Batch) -> Times:
    """The end that each element expects its row to have; none before an insert."""
    if batch.is_adjust is None:
        return np.full(len(batch), ABSENT)
    return np.where(batch.is_adjust, batch.end, ABSENT)


def left_ends(batch: Batch) -> Times:
    """The end that the row of each element has after it; none after a removal."""
    end = batch.end
    if batch.is_adjust is not None and batch.new_end is not None:
        end = np.where(batch.is_adjust, batch.new_end, batch.end)
    empty = end <= batch.start
    return np.where(empty, ABSENT, end) if empty.any() else end


def chain(keys: Codes, current: Times, after: Times, size: int) -> Chained:
    """Link the elements of each row. `keys[i]` is the row of element i, a number below `size`."""
    count = len(keys)
    scratch = np.empty(size, np.int64)
    numbers = np.arange(count)
    scratch[keys] = numbers
    last = scratch[keys] == numbers
    if last.all():
        return Chained(current, numbers)
    order = np.argsort(keys, kind="stable")
    first = np.ones(count, np.bool_)
    first[1:] = keys[order[1:]] != keys[order[:-1]]
    before = np.empty(count, np.int64)
    before[order] = np.where(first, current[order], np.concatenate([[ABSENT], after[order[:-1]]]))
    return Chained(before, np.flatnonzero(last))


def _differ(words: npt.NDArray[np.uint64]) -> bool:
    """Whether all words differ. Only words that share a place of a hash table are sorted."""
    size = 1 << (4 * len(words)).bit_length()
    places = words.view(np.int64) & np.int64(size - 1)
    numbers = np.arange(len(words), dtype=np.int32)
    holder = np.empty(size, np.int32)
    holder[places] = numbers
    others = np.flatnonzero(holder[places] != numbers)
    shared = np.zeros(len(words), np.bool_)
    shared[others] = True
    shared[holder[places[others]]] = True
    suspects = np.sort(words[shared])
    return not (suspects[1:] == suspects[:-1]).any()


def distinct_digests(digests: Digests) -> tuple[Codes, Codes]:
    """The position of the first occurrence of each distinct digest, in order, and for every digest
    the index of its value among them."""
    if len(digests) > _MANY and _differ(digests.low):
        numbers = np.arange(len(digests))
        return numbers, numbers
    order = np.argsort(digests.low, kind="stable")
    low, high = digests.low[order], digests.high[order]
    same = low[1:] == low[:-1]
    if (same & (high[1:] != high[:-1])).any():
        order = np.lexsort((np.arange(len(low)), digests.high, digests.low))
        low, high = digests.low[order], digests.high[order]
        same = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    if not same.any():
        numbers = np.arange(len(low))
        return numbers, numbers
    new = np.concatenate([np.ones(min(1, len(low)), np.bool_), ~same])
    first = order[new]  # the sort is stable: the first of equal ones is the first in the batch
    codes = np.empty(len(low), np.int64)
    codes[order] = np.cumsum(new) - 1
    by_position = np.argsort(first)
    rank = inverse_order(by_position)
    return first[by_position], rank[codes]

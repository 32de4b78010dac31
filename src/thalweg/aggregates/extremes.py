"""Minima and maxima, first and last, and the value at the smallest or largest of another column.

All compare by the one order of `model.order`: NaN is larger than every number. Numbers and times
are compared as int64 keys; other values through their ranks among those at hand.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.aggregates.base import Aggregate, Columns, Values
from thalweg.model.order import dense_ranks, floats_of_keys, whole_keys
from thalweg.model.rows import Bools, Codes
from thalweg.model.sorting import inverse_order

__all__ = ["ArgMax", "ArgMin", "First", "Last", "Max", "Min"]

_ABSENT = 2**63 - 1
"""The key of a part without a value, and the minimum of an empty range."""


class _Extreme(Aggregate):
    """The value that comes first in an order; `_keys` says which, the smallest key first."""

    largest: ClassVar[bool] = False
    """Whether the largest of what is compared comes first."""

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        assert of is not None
        return of

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        order, at_place = self._places(parts)
        best = np.full(size, _ABSENT, np.int64)
        np.minimum.at(best, code, order)
        return self._pick(parts, best, at_place)

    def over_ranges(self, parts: Columns, lo: Codes, hi: Codes) -> Columns:
        order, at_place = self._places(parts)
        return self._pick(parts, _range_minima(order, lo, hi), at_place)

    def _absent(self, parts: Columns) -> Bools:
        """Parts that stand for no value."""
        absent: Bools = parts[-1].is_null().to_numpy(zero_copy_only=False)
        return absent

    def _keys(self, parts: Columns) -> list[Codes]:
        """What orders parts, the most important key last, the smallest first."""
        raise NotImplementedError

    def _turn(self, keys: Codes) -> Codes:
        """Keys such that the best is the smallest."""
        return ~keys if self.largest else keys

    def _places(self, parts: Columns) -> tuple[Codes, Codes]:
        """Each part's place among all, the best first; and which part stands at each place."""
        absent = self._absent(parts)
        sorted_ = np.lexsort((*self._keys(parts), absent))
        place = inverse_order(sorted_)
        return np.where(absent, _ABSENT, place), sorted_

    def _pick(self, parts: Columns, best: Codes, at_place: Codes) -> Columns:
        absent = best == _ABSENT
        if not len(at_place):
            return [pa.nulls(len(best), part.type) for part in parts]
        which = pa.array(at_place[np.where(absent, 0, best)], mask=absent)
        return [part.take(which) for part in parts]

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        return parts[-1] if parts[-1].type == kind else parts[-1].cast(kind)


class Min(_Extreme):
    """The smallest value; NaN only where there is nothing else."""

    name = "min"
    compares = "of"
    ignores_repeats = True

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        return [pa.field("value", of)]

    def of_rows(self, values: Values) -> Columns:
        return [_only(values.of, values.present(values.of))]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        keys = self._plain_keys(parts[0])
        if keys is None:
            return super().merge(parts, code, size)
        best = np.full(size, _ABSENT, np.int64)
        np.minimum.at(best, code, keys)
        return [self._plain_values(best, parts[0].type)]

    def over_ranges(self, parts: Columns, lo: Codes, hi: Codes) -> Columns:
        keys = self._plain_keys(parts[0])
        if keys is None:
            return super().over_ranges(parts, lo, hi)
        return [self._plain_values(_range_minima(keys, lo, hi), parts[0].type)]

    def _keys(self, parts: Columns) -> list[Codes]:
        return [self._turn(dense_ranks(parts[0]))]

    def _plain_keys(self, values: pa.Array) -> Codes | None:
        keys = whole_keys(values)
        if keys is None:
            return None
        keys = self._turn(keys)
        if not values.null_count:
            return None if len(keys) and int(keys.max()) == _ABSENT else keys
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        if bool((keys[valid] == _ABSENT).any()):
            return None
        return np.where(valid, keys, _ABSENT)

    def _plain_values(self, keys: Codes, kind: pa.DataType) -> pa.Array:
        absent = keys == _ABSENT
        some = absent.any()
        keys = self._turn(np.where(absent, 0, keys) if some else keys)
        mask = absent if some else None
        if pa.types.is_floating(kind):
            return pa.array(floats_of_keys(keys), mask=mask, from_pandas=False).cast(kind)
        if pa.types.is_temporal(kind) and kind.bit_width == 32:
            return pa.array(keys.astype(np.int32), mask=mask).cast(kind)
        if pa.types.is_boolean(kind):
            return pa.array(keys != 0, mask=mask)
        return pa.array(keys, mask=mask).cast(kind)


class Max(Min):
    """The largest value; NaN where there is one."""

    name = "max"
    largest = True


class First(_Extreme):
    """The value of the row with the smallest start; of equal starts the smallest value."""

    name = "first"

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        return [pa.field("start", pa.int64()), pa.field("value", of)]

    def of_rows(self, values: Values) -> Columns:
        return [pa.array(values.start), _only(values.of, values.present(values.of))]

    def _keys(self, parts: Columns) -> list[Codes]:
        start = parts[0].fill_null(0) if parts[0].null_count else parts[0]
        return [self._turn(dense_ranks(parts[1])), self._turn(start.to_numpy())]


class Last(First):
    """The value of the row with the largest start; of equal starts the largest value."""

    name = "last"
    largest = True


class ArgMin(_Extreme):
    """The value of the row with the smallest `by`; of equal ones the smallest value."""

    name = "arg_min"
    compares = "by"

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        return [pa.field("by", by), pa.field("value", of)]

    def of_rows(self, values: Values) -> Columns:
        present = values.present(values.by)
        return [_only(values.by, present), _only(values.of, present)]

    def _absent(self, parts: Columns) -> Bools:
        absent: Bools = parts[0].is_null().to_numpy(zero_copy_only=False)
        return absent

    def _keys(self, parts: Columns) -> list[Codes]:
        return [dense_ranks(parts[1]), self._turn(dense_ranks(parts[0]))]


class ArgMax(ArgMin):
    """The value of the row with the largest `by`; of equal ones the smallest value."""

    name = "arg_max"
    largest = True


def _only(values: pa.Array | None, there: Bools) -> pa.Array:
    assert values is not None
    if there.all():
        return values
    return values.take(pa.array(np.arange(len(there)), mask=~there))


def _range_minima(values: Codes, lo: Codes, hi: Codes) -> Codes:
    """The smallest value of each range [lo, hi), `_ABSENT` for an empty one. A tree of n minima
    answers all ranges together, in log n passes over their columns.

    >>> from numpy import array
    >>> _range_minima(array([5, 3, 8, 1]), array([0, 1]), array([2, 4])).tolist()
    [3, 1]
    """
    size = 1 << max(len(values) - 1, 0).bit_length()
    tree = np.full(2 * size, _ABSENT, np.int64)
    tree[size : size + len(values)] = values
    level = size
    while level > 1:
        np.minimum(
            tree[level : 2 * level : 2],
            tree[level + 1 : 2 * level : 2],
            out=tree[level // 2 : level],
        )
        level //= 2
    result = np.full(len(lo), _ABSENT, np.int64)
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

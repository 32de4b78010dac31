"""A sketch: partial results of a size that does not grow with the rows.

`approx_percentile` keeps how many values fall into each of at most 2,048 buckets. Buckets are
ranges of the values' binary form of equal length 2^r, with the smallest r for which there are no
more occupied ones than that: while there are no more distinct values than buckets it is exact. r
follows from the values alone, in whatever order and parts they came, so that the answer does too.
The answer lies in the bucket of the exact one. Where values span k powers of two, a bucket is at
most k / 1,024 of its values wide (1 % for ten powers of two), and less where they lie closer
together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.aggregates.base import Columns, Values
from thalweg.aggregates.percentiles import ValueAtShare
from thalweg.aggregates.sums import plain_floats
from thalweg.model.order import float_keys, floats_of_keys
from thalweg.model.rows import Codes, encode
from thalweg.model.sorting import representatives

__all__ = ["ApproximatePercentile"]

_BUCKETS = 2_048
_BUCKET_LIST = pa.list_(pa.field("item", pa.int64(), nullable=False))


@dataclass(frozen=True, slots=True)
class ApproximatePercentile(ValueAtShare):
    """About the smallest value with at least p of the values at or below it."""

    name: ClassVar[str] = "approx_percentile"
    numeric: ClassVar[bool] = True

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        """One value, or the buckets of several: [r, bucket, count, bucket, count, ...]."""
        return [pa.field("value", pa.float64()), pa.field("buckets", _BUCKET_LIST)]

    def of_rows(self, values: Values) -> Columns:
        there = values.present(values.of)
        mask = None if there.all() else ~there
        floats = pa.array(plain_floats(values.column), mask=mask, from_pandas=False)
        return [floats, pa.nulls(len(values), _BUCKET_LIST)]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        width = np.zeros(size, np.int64)
        cell, key, count = _opened(parts, code, width)
        cell, key, count = _counted(cell, key, count)
        while True:
            many = np.bincount(cell, minlength=size)
            if not (many > _BUCKETS).any():
                return [pa.nulls(size, pa.float64()), _closed(cell, key, count, width)]
            width[many > _BUCKETS] += 1
            wide = many[cell] > _BUCKETS
            cell, key, count = _counted(cell, np.where(wide, key >> 1, key), count)

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        size = len(parts[0])
        width = np.zeros(size, np.int64)
        cell, key, count = _opened(parts, np.arange(size), width)
        order = np.lexsort((key, cell))
        cell, key, count = cell[order], key[order], count[order]
        total = np.zeros(size, np.int64)
        np.add.at(total, cell, count)
        begins = np.searchsorted(cell, np.arange(size), side="left")
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
        rank = np.maximum(np.ceil(self.p * total - 1e-9).astype(np.int64), 1)
        at = np.searchsorted(upto[1:], upto[begins] + rank, side="left")
        found = total > 0
        chosen, r = key[at[found]], width[found]
        middle = np.where(r > 0, np.int64(1) << np.maximum(r - 1, 0), 0)
        result = np.zeros(size)
        result[found] = floats_of_keys((chosen << r) + middle)
        return pa.array(result, kind, mask=~found, from_pandas=False)


def _opened(parts: Columns, code: Codes, width: Codes) -> tuple[Codes, Codes, Codes]:
    """Cell, bucket and count of all parts, at the width of the widest of each cell, which is put
    into `width`."""
    lists, single = parts[1], parts[0].is_valid().to_numpy(zero_copy_only=False)
    keys = float_keys(plain_floats(parts[0]))[single]
    listed = lists.is_valid().to_numpy(zero_copy_only=False)
    if not listed.any():
        return code[single], keys, np.ones(len(keys), np.int64)
    full = lists.filter(pa.array(listed))
    owner = code[listed]
    length = pc.list_value_length(full).to_numpy().astype(np.int64)
    flat: Codes = full.flatten().to_numpy()
    begins = np.cumsum(length) - length
    np.maximum.at(width, owner, flat[begins])
    pairs = length // 2
    which = np.repeat(np.arange(len(length)), pairs)
    order = np.arange(len(which)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    at = begins[which] + 1 + 2 * order
    cell = np.concatenate([code[single], owner[which]])
    key = np.concatenate(
        [keys >> width[code[single]], flat[at] >> (width[owner] - flat[begins])[which]]
    )
    return cell, key, np.concatenate([np.ones(len(keys), np.int64), flat[at + 1]])


def _counted(cell: Codes, key: Codes, count: Codes) -> tuple[Codes, Codes, Codes]:
    """Buckets of equal cell and key become one."""
    place, places = encode([cell, key], len(cell))
    if places == len(cell):
        return cell, key, count
    total = np.zeros(places, np.int64)
    np.add.at(total, place, count)
    representative = representatives(place, places)
    return cell[representative], key[representative], total


def _closed(cell: Codes, key: Codes, count: Codes, width: Codes) -> pa.Array:
    """Buckets as one list for each cell, null where there are none."""
    order = np.lexsort((key, cell))
    many = np.bincount(cell, minlength=len(width))
    length = np.where(many > 0, 2 * many + 1, 0)
    offsets = np.zeros(len(width) + 1, np.int64)
    np.cumsum(length, out=offsets[1:])
    flat = np.empty(int(offsets[-1]), np.int64)
    some = many > 0
    flat[offsets[:-1][some]] = width[some]
    begins = np.cumsum(many) - many
    sorted_ = cell[order]
    at = offsets[:-1][sorted_] + 1 + 2 * (np.arange(len(order)) - begins[sorted_])
    flat[at], flat[at + 1] = key[order], count[order]
    lists = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(flat), type=_BUCKET_LIST
    )
    if some.all():
        return lists
    return lists.take(pa.array(np.arange(len(width)), mask=~some))

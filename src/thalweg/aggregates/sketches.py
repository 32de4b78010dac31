"""Sketches: partial results of a size that does not grow with the rows.

`approx_percentile` keeps how many values fall into each of at most 2,048 buckets. Buckets are
ranges of the values' binary form of equal length 2^r, with the smallest r for which there are no
more occupied ones than that: while there are no more distinct values than buckets it is exact. r
follows from the values alone, in whatever order and parts they came, so that the answer does too.
The answer lies in the bucket of the exact one. Where values span k powers of two, a bucket is at
most k / 1,024 of its values wide (1 % for ten powers of two), and less where they lie closer
together.

`heavy_hitters` is the frequent-items sketch of Apache DataSketches over the values as text, exact
up to 3,072 distinct ones. Beyond that its error is the library's, and its answer depends on the
order of the rows: who takes it back must remember what it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.aggregates.base import Aggregate, Columns, Values
from thalweg.aggregates.sums import plain_floats
from thalweg.errors import ExpressionError, require_package
from thalweg.model.order import float_keys, floats_of_keys
from thalweg.model.rows import Codes, encode

__all__ = ["ApproximatePercentile", "HeavyHitters"]

_BUCKETS = 2_048
_LOG_ITEMS = 12
_BUCKET_LIST = pa.list_(pa.field("item", pa.int64(), nullable=False))


@dataclass(frozen=True, slots=True)
class ApproximatePercentile(Aggregate):
    """About the smallest value with at least p of the values at or below it."""

    name: ClassVar[str] = "approx_percentile"
    numeric: ClassVar[bool] = True

    p: float

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ExpressionError(f"a percentile lies between 0 and 1; got {self.p}.")

    @property
    def parameters(self) -> tuple[object, ...]:
        return (self.p,)

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return pa.float64()

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
    representative = np.empty(places, np.int64)
    representative[place] = np.arange(len(cell))
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


@dataclass(frozen=True, slots=True)
class HeavyHitters(Aggregate):
    """The values that make up at least a share of the rows, as text, with about how often."""

    name: ClassVar[str] = "heavy_hitters"
    repeatable: ClassVar[bool] = False

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ExpressionError(
                f"heavy_hitters: a share lies above 0 and is at most 1; got {self.share}."
            )

    @property
    def parameters(self) -> tuple[object, ...]:
        return (self.share,)

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return pa.list_(pa.struct([("value", pa.string()), ("count", pa.int64())]))

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        """One value, or a sketch of several."""
        return [pa.field("value", of), pa.field("sketch", pa.binary())]

    def of_rows(self, values: Values) -> Columns:
        assert values.of is not None
        there = values.present(values.of)
        mask = None if there.all() else ~there
        kept = values.of.take(pa.array(np.arange(len(values)), mask=mask))
        return [kept, pa.nulls(len(values), pa.binary())]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        order = np.argsort(code, kind="stable")
        ends = np.cumsum(np.bincount(code, minlength=size))
        begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        return self.over_ranges([part.take(pa.array(order)) for part in parts], begins, ends)

    def over_ranges(self, parts: Columns, lo: Codes, hi: Codes) -> Columns:
        values, sketches = parts
        valued = values.is_valid().to_numpy(zero_copy_only=False)
        sketched = sketches.is_valid().to_numpy(zero_copy_only=False)
        some = valued | sketched
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(some)])
        many = upto[hi] - upto[np.minimum(lo, hi)]
        at = np.flatnonzero(some)
        single = np.full(len(lo), -1, np.int64)
        one = np.flatnonzero(many == 1)
        single[one] = at[upto[lo[one]]]
        blobs: list[bytes | None] = [None] * len(lo)
        texts = values.cast(pa.string())
        for query in np.flatnonzero(many > 1).tolist():
            members = at[upto[lo[query]] : upto[hi[query]]]
            sketch = _library().frequent_strings_sketch(_LOG_ITEMS)
            counted = texts.take(pa.array(members[valued[members]])).value_counts()
            for entry in counted.to_pylist():
                sketch.update(entry["values"], entry["counts"])
            for part in members[sketched[members]].tolist():
                sketch.merge(_read(sketches[part].as_py()))
            blobs[query] = sketch.serialize()
        for query in one.tolist():
            blobs[query] = sketches[int(single[query])].as_py()
        pick = pa.array(np.where(single < 0, 0, single), mask=single < 0)
        kept = values.take(pick) if len(values) else pa.nulls(len(lo), values.type)
        return [kept, pa.array(blobs, pa.binary())]

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        answers: list[list[dict[str, object]] | None] = []
        for value, blob in zip(parts[0].to_pylist(), parts[1].to_pylist(), strict=True):
            if blob is None:
                answers.append(None if value is None else [{"value": str(value), "count": 1}])
            else:
                answers.append(self._frequent(_read(blob)))
        return pa.array(answers, kind)

    def _frequent(self, sketch: Any) -> list[dict[str, object]]:
        found = sketch.get_frequent_items(_library().frequent_items_error_type.NO_FALSE_NEGATIVES)
        least = self.share * sketch.total_weight
        often = sorted((-int(count), str(item)) for item, count, *_ in found if count >= least)
        return [{"value": item, "count": -count} for count, item in often]


def _library() -> Any:
    require_package("datasketches", "sketches", "a sketch")
    import datasketches  # type: ignore[import-untyped]  # when it is first needed: a worker starts sooner without it

    return datasketches


def _read(blob: bytes) -> Any:
    return _library().frequent_strings_sketch.deserialize(blob)

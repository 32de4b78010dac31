"""Counts, sums and averages: exact for whole numbers, exact and rounded once for floats.

A sum of whole numbers is two columns: the sum modulo 2^64, and the sum of the values' upper halves,
rounded, which is zero as long as all values are below 2^31. Together they are the exact sum of up
to 2^32 values of 64 bits, whatever was added and taken away in between; a sum that does not fit the
result is refused when it is asked for. Floats: see `limbs`; the sum of a single value is the value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.aggregates.base import Aggregate, Columns, Values
from thalweg.aggregates.limbs import LIMBS, Floats, Limbs
from thalweg.errors import EvaluationError
from thalweg.model.rows import Bools, Codes, whole_column
from thalweg.model.time import greatest, least

__all__ = [
    "Average",
    "Count",
    "Sum",
    "add_by",
    "add_ranges",
    "plain_floats",
    "plain_wholes",
    "sum_ranges",
]

_SMALL = 2**31


class Count(Aggregate):
    """How many rows pass, or have a value."""

    name = "count"
    of_nothing = 0

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return pa.int64()

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        return [pa.field("count", pa.int64())]

    def is_linear(self, of: pa.DataType | None) -> bool:
        return True

    def of_rows(self, values: Values) -> Columns:
        return [whole_column(values.present(values.of).astype(np.int64))]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        return [add_by(parts[0], code, size)]

    def over_ranges(self, parts: Columns, lo: Codes, hi: Codes) -> Columns:
        return add_ranges(parts, lo, hi)

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        return parts[0]

    def of_members(
        self, values: Values, member: Codes, cell: Codes, cells: int, kind: pa.DataType
    ) -> pa.Array:
        counted = cell if values.are_all_there else cell[values.present(values.of)[member]]
        return whole_column(np.bincount(counted, minlength=cells).astype(np.int64))


class _Total(Aggregate):
    """What a sum and an average share: how many values, and their sum."""

    numeric = True

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        assert of is not None
        count = pa.field("count", pa.int64())
        if pa.types.is_floating(of):
            return [count, pa.field("value", pa.float64()), pa.field("digits", LIMBS)]
        fields = [count, pa.field("sum", pa.int64())]
        return fields if _is_small(of) else [*fields, pa.field("high", pa.int64())]

    def is_linear(self, of: pa.DataType | None) -> bool:
        return of is not None and not pa.types.is_floating(of)

    def of_rows(self, values: Values) -> Columns:
        assert values.of is not None
        there = values.present(values.of)
        count = whole_column(there.astype(np.int64))
        every = values.passes is None and not values.of.null_count
        if pa.types.is_floating(values.of.type):
            floats = plain_floats(values.of)
            kept = floats if every else np.where(there, floats, 0.0)
            return [count, pa.array(kept), pa.nulls(len(values), LIMBS)]
        whole = plain_wholes(values.of)
        if not every:
            whole = whole * there
        total = whole_column(whole.view(np.int64))
        if _is_small(values.of.type):
            return [count, total]
        return [count, total, whole_column(_upper(whole))]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        if _are_whole(parts):
            return [add_by(part, code, size) for part in parts]
        total = _limbs(parts, code, size)
        return _stored(add_by(parts[0], code, size), total)

    def of_members(
        self, values: Values, member: Codes, cell: Codes, cells: int, kind: pa.DataType
    ) -> pa.Array:
        if not values.are_all_there:
            kept = values.present(values.of)[member]
            member, cell = member[kept], cell[kept]
        count = whole_column(np.bincount(cell, minlength=cells).astype(np.int64))
        if pa.types.is_floating(values.column.type):
            floats = plain_floats(values.column)[member]
            return self.result(_stored(count, Limbs.of_floats(floats, cell, cells)), kind)
        whole = plain_wholes(values.column)[member]
        sums = [whole_column(_added(whole.view(np.int64), cell, cells))]
        if not _are_small(whole):
            sums.append(whole_column(_added(_upper(whole), cell, cells)))
        return self.result([count, *sums], kind)

    def over_ranges(self, parts: Columns, lo: Codes, hi: Codes) -> Columns:
        if _are_whole(parts):
            return add_ranges(parts, lo, hi)
        every = np.arange(len(parts[0]))
        total = _limbs(parts, every, len(every)).over_ranges(lo, hi)
        (count,) = add_ranges(parts[:1], lo, hi)
        return _stored(count, total)


class Sum(_Total):
    """The sum of the values; null where there are none."""

    name = "sum"

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        assert of is not None
        if pa.types.is_uint64(of):
            return of
        return pa.float64() if pa.types.is_floating(of) else pa.int64()

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        none = _none(parts[0])
        if not _are_whole(parts):
            return pa.array(_floats(parts), kind, mask=none)
        total = parts[1].to_numpy()
        if len(parts) > 2:
            self._refuse_overflow(parts, signed=not pa.types.is_uint64(kind))
        return pa.array(total.view(np.uint64) if pa.types.is_uint64(kind) else total, mask=none)

    def _refuse_overflow(self, parts: Columns, *, signed: bool) -> None:
        if signed and not parts[2].to_numpy().any():
            return
        high, _ = _halves(parts)
        low, beyond = (-(2**31), 2**31) if signed else (0, 2**32)
        if bool(((high < low) | (high >= beyond)).any()):
            raise EvaluationError(
                "sum: the sum of a window does not fit 64 bits; cast the column to double first."
            )


class Average(_Total):
    """The sum divided by the number of values; null where there are none."""

    name = "avg"

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return pa.float64()

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        count, none = parts[0].to_numpy(), _none(parts[0])
        if not _are_whole(parts):
            total = _floats(parts)
        elif len(parts) > 2 and parts[2].to_numpy().any():
            high, low = _halves(parts)
            total = np.ldexp(high.astype(np.float64), 32) + low
        else:
            total = parts[1].to_numpy().astype(np.float64)
        return pa.array(total / (count if none is None else np.maximum(count, 1)), kind, mask=none)


# ------------------------------------------------------------------------------------------------
# whole numbers


def _is_small(kind: pa.DataType) -> bool:
    """Types whose values are all below 2^31."""
    return bool(pa.types.is_boolean(kind) or (kind.bit_width <= 32 and kind != pa.uint32()))


def _are_whole(parts: Columns) -> bool:
    return bool(pa.types.is_int64(parts[1].type))


def plain_wholes(values: pa.Array) -> Codes:
    """Whole numbers without nulls; unsigned ones of 64 bits stay unsigned."""
    kind = pa.uint64() if pa.types.is_uint64(values.type) else pa.int64()
    whole = values if values.type == kind else values.cast(kind)
    numbers: Codes = (whole.fill_null(0) if whole.null_count else whole).to_numpy(
        zero_copy_only=False
    )
    return numbers


def _are_small(whole: Codes) -> bool:
    return not len(whole) or (greatest(whole) < _SMALL and least(whole) >= -_SMALL)


def _upper(whole: Codes) -> Codes:
    """x / 2^32, rounded: zero for all values below 2^31."""
    if _are_small(whole):
        return np.zeros(len(whole), np.int64)
    return (whole >> 32).astype(np.int64) + ((whole >> 31) & 1).astype(np.int64)


def _halves(parts: Columns) -> tuple[Codes, Codes]:
    """The exact sum as high * 2^32 + low, 0 <= low < 2^32."""
    rest = parts[1].to_numpy() - (parts[2].to_numpy() << 32)
    return parts[2].to_numpy() + (rest >> 32), rest & (2**32 - 1)


def add_by(part: pa.Array, code: Codes, size: int) -> pa.Array:
    return whole_column(_added(part.to_numpy(), code, size))


def _added(numbers: Codes, code: Codes, size: int) -> Codes:
    total = np.zeros(size, np.int64)
    if numbers.any():
        np.add.at(total, code, numbers)
    return total


def add_ranges(parts: Columns, lo: Codes, hi: Codes) -> Columns:
    return list(map(whole_column, sum_ranges([part.to_numpy() for part in parts], lo, hi)))


def sum_ranges(columns: Sequence[Codes], lo: Codes, hi: Codes) -> Codes:
    """The sums of columns over ranges [lo, hi), a row for each column. A range may be empty.

    >>> sum_ranges([np.array([1, 2, 3]), np.array([0, 0, 5])], np.array([0, 1]), np.array([2, 3]))
    array([[3, 5],
           [0, 5]])
    """
    upto = np.zeros((len(columns), len(columns[0]) + 1), np.int64)
    for row, column in zip(upto, columns, strict=True):
        column.cumsum(out=row[1:])  # wrap-around cancels out in the difference
    return upto.take(np.maximum(lo, hi), axis=1) - upto.take(lo, axis=1)


def _none(count: pa.Array) -> Bools | None:
    none: Bools = count.to_numpy() == 0
    return none if none.any() else None


# ------------------------------------------------------------------------------------------------
# floats


def plain_floats(values: pa.Array) -> Floats:
    floats = values if values.type == pa.float64() else values.cast(pa.float64(), safe=False)
    numbers: Floats = (floats.fill_null(0.0) if floats.null_count else floats).to_numpy(
        zero_copy_only=False
    )
    return numbers


def _limbs(parts: Columns, code: Codes, size: int) -> Limbs:
    """The exact sums of parts, of which each is one value or the digits of several."""
    single = parts[2].is_null().to_numpy(zero_copy_only=False)
    values = parts[1].to_numpy(zero_copy_only=False)
    if single.all():
        return Limbs.of_floats(values, code, size)
    total = Limbs.of_lists(parts[2], code, size)
    if not single.any():
        return total
    return total.plus(Limbs.of_floats(values[single], code[single], size))


def _stored(count: pa.Array, total: Limbs) -> Columns:
    return [count, pa.array(np.zeros(len(count))), total.to_lists()]


def _floats(parts: Columns) -> Floats:
    single = parts[2].is_null().to_numpy(zero_copy_only=False)
    if single.all():
        return np.asarray(parts[1].to_numpy(zero_copy_only=False) + 0.0)
    every = np.arange(len(parts[0]))
    return _limbs(parts, every, len(every)).to_floats()

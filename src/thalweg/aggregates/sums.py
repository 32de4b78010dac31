"""Counts, sums and averages: exact for whole numbers, exact and rounded once for floats.

A sum of whole numbers is two columns: the sum modulo 2^64, and the sum of the values' upper halves,
rounded, which is zero as long as all values are below 2^31. Together they are the exact sum of up
to 2^32 values of 64 bits, whatever was added and taken away in between; a sum that does not fit the
result is refused when it is made. Floats: see `limbs`; the sum of a single value is the value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.aggregates.base import Aggregate, Columns, Values
from thalweg.aggregates.limbs import LIMBS, Floats, Limbs
from thalweg.errors import EvaluationError
from thalweg.model.rows import Bools, Codes, ones, whole_column
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
_INT64 = pa.int64().id
_SMALL_TYPES = frozenset(
    kind.id for kind in (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())
)


class Count(Aggregate):
    """How many rows pass, or have a value."""

    name = "count"
    counts_rows = True
    plain_sums = ("count",)
    of_nothing = 0

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return pa.int64()

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        return [pa.field("count", pa.int64())]

    def is_linear(self, of: pa.DataType | None) -> bool:
        return True

    def of_rows(self, values: Values) -> Columns:
        return list(map(whole_column, self.numbers_of_rows(values)))

    def numbers_of_rows(self, values: Values) -> list[Codes]:
        return [_counted(values)]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        return [add_by(parts[0], code, size)]

    def over_ranges(self, parts: Columns, lo: Codes, hi: Codes) -> Columns:
        return add_ranges(parts, lo, hi)

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        return parts[0]

    def result_of_numbers(self, parts: Sequence[Codes], kind: pa.DataType) -> pa.Array:
        return whole_column(parts[0])

    def of_members(
        self, values: Values, member: Codes, cell: Codes, cells: int, kind: pa.DataType
    ) -> pa.Array:
        counted = cell if values.are_all_there else cell[values.present(values.of)[member]]
        return whole_column(np.bincount(counted, minlength=cells).astype(np.int64))


class _Total(Aggregate):
    """What a sum and an average share: how many values, and their sum."""

    numeric = True
    plain_sums = ("count", "sum", "high")

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
        if not pa.types.is_floating(values.column.type):
            return list(map(whole_column, self.numbers_of_rows(values)))
        count, floats = _counted(values), plain_floats(values.column)
        kept = floats if values.are_all_there else np.where(count, floats, 0.0)
        return [whole_column(count), pa.array(kept), pa.nulls(len(values), LIMBS)]

    def numbers_of_rows(self, values: Values) -> list[Codes]:
        count, whole = _counted(values), plain_wholes(values.column)
        if not values.are_all_there:
            whole = whole * (count != 0)
        total = whole.view(np.int64)
        return [count, total] if _is_small(values.column.type) else [count, total, _upper(whole)]

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
        if _are_whole(parts):
            return self.result_of_numbers([part.to_numpy() for part in parts], kind)
        return pa.array(_floats(parts), kind, mask=_none(parts[0].to_numpy()))

    def result_of_numbers(self, parts: Sequence[Codes], kind: pa.DataType) -> pa.Array:
        none, total, signed = _none(parts[0]), parts[1], not pa.types.is_uint64(kind)
        if len(parts) > 2:
            self._refuse_overflow(parts[1], parts[2], signed=signed)
        if none is None and signed:
            return whole_column(total)
        return pa.array(total if signed else total.view(np.uint64), mask=none)

    def _refuse_overflow(self, total: Codes, upper: Codes, *, signed: bool) -> None:
        if signed and not np.count_nonzero(upper):
            return
        high, _ = _halves(total, upper)
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
        if _are_whole(parts):
            return self.result_of_numbers([part.to_numpy() for part in parts], kind)
        return self._mean(parts[0].to_numpy(), _floats(parts), kind)

    def result_of_numbers(self, parts: Sequence[Codes], kind: pa.DataType) -> pa.Array:
        total = parts[1].astype(np.float64)
        if len(parts) > 2 and np.count_nonzero(parts[2]):
            high, low = _halves(parts[1], parts[2])
            total = np.ldexp(high.astype(np.float64), 32) + low
        return self._mean(parts[0], total, kind)

    def _mean(self, count: Codes, total: Floats, kind: pa.DataType) -> pa.Array:
        none = _none(count)
        return pa.array(total / (count if none is None else np.maximum(count, 1)), kind, mask=none)


# ------------------------------------------------------------------------------------------------
# whole numbers


def _counted(values: Values) -> Codes:
    """1 for each row that passes and has a value, 0 for the others."""
    if values.are_all_there:
        return ones(len(values))
    return values.present(values.of).astype(np.int64)


def _is_small(kind: pa.DataType) -> bool:
    """Types whose values are all below 2^31."""
    return kind.id in _SMALL_TYPES


def _are_whole(parts: Columns) -> bool:
    return bool(pa.types.is_int64(parts[1].type))


def plain_wholes(values: pa.Array) -> Codes:
    """Whole numbers without nulls; unsigned ones of 64 bits stay unsigned."""
    if values.type.id == _INT64 and not values.null_count:
        return values.to_numpy()
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


def _halves(total: Codes, upper: Codes) -> tuple[Codes, Codes]:
    """The exact sum as high * 2^32 + low, 0 <= low < 2^32."""
    rest = total - (upper << 32)
    return upper + (rest >> 32), rest & (2**32 - 1)


def add_by(part: pa.Array, code: Codes, size: int) -> pa.Array:
    return whole_column(_added(part.to_numpy(), code, size))


def _added(numbers: Codes, code: Codes, size: int) -> Codes:
    total = np.zeros(size, np.int64)
    if np.count_nonzero(numbers):
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
        # Wrap-around cancels out in the difference. Upper halves of small numbers are all zero.
        if np.count_nonzero(column):
            np.add.accumulate(column, out=row[1:])
    return upto.take(np.maximum(lo, hi), axis=1) - upto.take(lo, axis=1)


def _none(count: Codes) -> Bools | None:
    """The mask of parts without a value; None if all parts have one."""
    return None if np.count_nonzero(count) == len(count) else count == 0


# ------------------------------------------------------------------------------------------------
# floats


def plain_floats(values: pa.Array) -> Floats:
    if values.type.id == _INT64 and not values.null_count:
        return values.to_numpy().astype(np.float64)
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

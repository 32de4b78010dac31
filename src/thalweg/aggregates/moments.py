"""Variance and standard deviation of a sample, from exact sums.

With n values, their exact sum s and the exact sum q of their squares, the variance is (n q - s s) /
(n (n - 1)). The numerator is computed exactly (see `limbs`), however close values lie together and
however far from zero, and rounded once; so the result has a relative error of at most two units in
the last place. A NaN or an infinite value makes it NaN.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.aggregates.base import Aggregate, Columns, Values
from thalweg.aggregates.limbs import LIMBS, Floats, Limbs
from thalweg.aggregates.sums import add_by, add_ranges, plain_floats, plain_wholes
from thalweg.model.rows import Codes

__all__ = ["StandardDeviation", "Variance"]


class Variance(Aggregate):
    """The sample variance; null for fewer than two values."""

    name = "variance"
    numeric = True

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return pa.float64()

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        assert of is not None
        return [
            pa.field("count", pa.int64()),
            pa.field("value", _plain_type(of)),
            pa.field("digits", LIMBS),
            pa.field("squares", LIMBS),
        ]

    def of_rows(self, values: Values) -> Columns:
        assert values.of is not None
        there = values.present(values.of)
        floating = pa.types.is_floating(values.of.type)
        numbers = pa.array(plain_floats(values.of) if floating else plain_wholes(values.of))
        if not there.all():
            numbers = pc.if_else(pa.array(there), numbers, pa.scalar(0, numbers.type))
        nothing = pa.nulls(len(values), LIMBS)
        return [pa.array(there.astype(np.int64)), numbers, nothing, nothing]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        return _stored(
            parts, add_by(parts[0], code, size), *(_limbs(parts, code, size, at) for at in (2, 3))
        )

    def over_ranges(self, parts: Columns, lo: Codes, hi: Codes) -> Columns:
        every = np.arange(len(parts[0]))
        sums = (_limbs(parts, every, len(every), at).over_ranges(lo, hi) for at in (2, 3))
        (count,) = add_ranges(parts[:1], lo, hi)
        return _stored(parts, count, *sums)

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        count = parts[0].to_numpy()
        few = count < 2
        return pa.array(self._finish(_variances(parts)), kind, mask=few if few.any() else None)

    def _finish(self, variances: Floats) -> Floats:
        return variances


class StandardDeviation(Variance):
    """The square root of the variance."""

    name = "stddev"

    def _finish(self, variances: Floats) -> Floats:
        return np.sqrt(variances)


def _plain_type(of: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(of):
        return pa.float64()
    return pa.uint64() if pa.types.is_uint64(of) else pa.int64()


def _limbs(parts: Columns, code: Codes, size: int, at: int) -> Limbs:
    """The sums of the values (at 2) or of their squares (at 3)."""
    single = parts[at].is_null().to_numpy(zero_copy_only=False)
    total = Limbs.of_lists(parts[at], code, size)
    if not single.any():
        return total
    values, code = parts[1].to_numpy(zero_copy_only=False)[single], code[single]
    if pa.types.is_floating(parts[1].type):
        if at == 2:
            return total.plus(Limbs.of_floats(values, code, size))
        return total.plus(Limbs.of_float_squares(values, code, size))
    if at == 2:
        return total.plus(Limbs.of_integers(values, code, size))
    return total.plus(Limbs.of_integer_squares(values, code, size))


def _stored(parts: Columns, count: pa.Array, total: Limbs, squares: Limbs) -> Columns:
    nothing = pa.array(np.zeros(len(count)), parts[1].type)
    return [count, nothing, total.to_lists(), squares.to_lists()]


def _variances(parts: Columns) -> Floats:
    every = np.arange(len(parts[0]))
    count = np.maximum(parts[0].to_numpy(), 2)
    total, squares = (_limbs(parts, every, len(every), at) for at in (2, 3))
    numerator = squares.times(count).plus(total.squared(), -1)
    fraction, exponent = numerator.to_scaled()
    fraction = fraction / (count * (count - 1)).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        plain = np.ldexp(fraction, np.clip(exponent, -4_000, 4_000).astype(np.int32))
    return np.where(total.special.any(axis=0), np.nan, plain)

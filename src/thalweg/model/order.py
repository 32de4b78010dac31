"""The one order of values: numbers by size, NaN equal to itself and larger than every number, -0.0
equal to 0.0, null after everything.

Everything that compares values goes through here: minima and maxima, percentiles, top-k, ties. It
is the order of SQL engines; IEEE comparisons, in which NaN is neither equal nor ordered, would give
other answers for other arrival orders.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.nested import nested_texts
from thalweg.model.rows import Codes

__all__ = ["dense_ranks", "float_keys", "floats_of_keys", "whole_keys"]

_MAGNITUDE = np.int64(2**63 - 1)


def dense_ranks(values: pa.Array) -> Codes:
    """The rank of each value from 1; equal values share one, and nulls have the last.

    >>> dense_ranks(pa.array([2.0, float("nan"), None, -0.0, 0.0])).tolist()
    [2, 3, 4, 1, 1]
    """
    numbers = whole_keys(values)
    if numbers is None:
        keys = values
        if pa.types.is_null(values.type):
            return np.ones(len(values), np.int64)
        if pa.types.is_nested(values.type) or pa.types.is_interval(values.type):
            keys = nested_texts(values)
        elif pa.types.is_dictionary(values.type):
            keys = values.dictionary_decode()
    elif values.null_count:
        keys = pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False))
    else:
        keys = pa.array(numbers)
    ranks: Codes = (
        pc.rank(keys, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    )
    return ranks


def whole_keys(values: pa.Array) -> Codes | None:
    """Numbers, times and truth values as int64 in the same order (anything where they are null);
    None for other types and for unsigned values that do not fit."""
    kind = values.type
    if pa.types.is_floating(kind):
        floats = values.cast(pa.float64())
        filled = floats.fill_null(0.0) if floats.null_count else floats
        return float_keys(filled.to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        values = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not pa.types.is_integer(kind):
        return None
    filled = values.fill_null(0) if values.null_count else values
    numbers: Codes = filled.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        return None if len(numbers) and int(numbers.max()) >= 2**63 else numbers.astype(np.int64)
    return numbers.astype(np.int64, copy=False)


def float_keys(values: npt.NDArray[np.float64]) -> Codes:
    """Floats as int64 in the same order: the bits, with those of negative numbers turned over."""
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    bits = plain.view(np.int64)
    return bits ^ ((bits >> 63) & _MAGNITUDE)


def floats_of_keys(keys: Codes) -> npt.NDArray[np.float64]:
    """The inverse of `float_keys`."""
    return (keys ^ ((keys >> 63) & _MAGNITUDE)).view(np.float64)

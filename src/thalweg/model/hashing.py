"""Hashes of rows: equal values have equal hashes, whatever integer or float type they have, in
every process and run.

Only a hint where it matters: large integers share the hash of their nearest double. Where
identity matters, values are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.digests import digest_texts, mix
from thalweg.model.nested import nested_texts

__all__ = ["Hashes", "hash_rows"]

Hashes = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)


def hash_rows(keys: Sequence[pa.Array], length: int) -> Hashes:
    """One hash for the values of each row.

    >>> whole, floats = [pa.array([1, 2, None])], [pa.array([1.0, 2.0, None])]
    >>> bool((hash_rows(whole, 3) == hash_rows(floats, 3)).all())
    True
    """
    total = np.full(length, 42, np.uint64)
    for column in keys:
        total = mix(total * np.uint64(31) + _hash(column))
    return total


def _hash(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if (
        pa.types.is_timestamp(kind)
        or pa.types.is_date64(kind)
        or pa.types.is_time64(kind)
        or pa.types.is_duration(kind)
    ):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    kind = column.type
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        # As doubles, so that keys of different number types meet; -0.0 becomes 0.0. Large integers
        # may share a bucket.
        values = (
            column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
            + 0.0
        )
        values = np.where(np.isnan(values), np.nan, values)
        hashes = mix(values.view(np.uint64))
    else:
        hashes = _hash_texts(column)
    if column.null_count:
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def _hash_texts(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.binary())
    elif not (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    ):
        try:
            column = pc.cast(column, pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            column = nested_texts(column)
    return digest_texts(column)[1]

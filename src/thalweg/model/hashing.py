"""Hashes of rows: equal values have equal hashes, whatever integer or float type they have, in
every process and run.

Only a hint where it matters: large integers share the hash of their nearest double. Who needs
identity compares values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Hashes", "hash_rows"]

Hashes = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0x100000001B3)


def hash_rows(keys: Sequence[pa.Array], length: int) -> Hashes:
    """One hash for the values of each row.

    >>> one, two = hash_rows([pa.array([1, 2, None])], 3), hash_rows([pa.array([1.0, 2.0, None])], 3)
    >>> bool((one == two).all())
    True
    """
    total = np.full(length, 42, np.uint64)
    for column in keys:
        total = _mix(total * np.uint64(31) + _hash(column))
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
        hashes = _mix(values.view(np.uint64))
    else:
        hashes = _hash_texts(column)
    if column.null_count:
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def _hash_texts(column: pa.Array) -> Hashes:
    """Each distinct value is hashed once."""
    kind = column.type
    if (
        pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        column = column.cast(
            pa.binary()
        )  # as text, their hash would depend on whether all of a batch is UTF-8
    elif not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        try:
            column = pc.cast(column, pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            column = pa.array(
                [None if value is None else repr(value) for value in column.to_pylist()],
                pa.string(),
            )
    coded = column.dictionary_encode()
    distinct = _hash_bytes(coded.dictionary.cast(pa.binary()))
    if not len(distinct):
        return np.full(len(column), _NULL)
    hashes: Hashes = distinct[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return hashes


def _hash_bytes(values: pa.Array) -> Hashes:
    """A polynomial in the bytes of each value, all values at once."""
    _, offsets_buffer, data = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[
        values.offset : values.offset + len(values) + 1
    ].astype(np.int64)
    lengths = np.diff(offsets)
    hashes = lengths.astype(np.uint64)
    filled = np.flatnonzero(lengths)
    if len(filled):
        used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].astype(
            np.uint64
        ) + np.uint64(1)
        position = np.arange(len(used)) - np.repeat(offsets[:-1] - offsets[0], lengths)
        powers = np.cumprod(np.full(int(lengths.max()), _PRIME, np.uint64))
        hashes[filled] += np.add.reduceat(
            used * powers[position], (offsets[:-1] - offsets[0])[filled]
        )
    return _mix(hashes)


def _mix(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64: every bit of the input matters to every bit of the output."""
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))

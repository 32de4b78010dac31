"""Buckets: the unit of parallel state. A hash of the partition key chooses one, the same in every process and run.

Spark hashes the bucket number again (Murmur3) to choose a partition; `bucket_ids` are numbers that fall into partitions
of their own, found without asking Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.rows import Codes

__all__ = ["bucket_ids", "bucket_of"]

Hashes = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0x100000001B3)


def bucket_of(keys: Sequence[pa.Array], length: int, buckets: int) -> Codes:
    """The bucket (0 .. buckets - 1) of each row; equal keys have equal buckets, whatever integer or float type they have.

    >>> one, two = bucket_of([pa.array([1, 2, None])], 3, 8), bucket_of([pa.array([1.0, 2.0, None])], 3, 8)
    >>> bool((one == two).all())
    True
    """
    if buckets == 1 or not keys:
        return np.zeros(length, np.int64)
    total = np.full(length, 42, np.uint64)
    for column in keys:
        total = _mix(total * np.uint64(31) + _hash(column))
    return (total % np.uint64(buckets)).astype(np.int64)


def _hash(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        # As doubles, so that keys of different number types meet; -0.0 becomes 0.0. Large integers may share a bucket.
        values = column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
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
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.binary())  # as text, their hash would depend on whether all of a batch is UTF-8
    elif not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        try:
            column = pc.cast(column, pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            column = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    coded = column.dictionary_encode()
    distinct = _hash_bytes(coded.dictionary.cast(pa.binary()))
    if not len(distinct):
        return np.full(len(column), _NULL)
    hashes: Hashes = distinct[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return hashes


def _hash_bytes(values: pa.Array) -> Hashes:
    """A polynomial in the bytes of each value, all values at once."""
    _, offsets_buffer, data = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    hashes = lengths.astype(np.uint64)
    filled = np.flatnonzero(lengths)
    if len(filled):
        used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
        position = np.arange(len(used)) - np.repeat(offsets[:-1] - offsets[0], lengths)
        powers = np.cumprod(np.full(int(lengths.max()), _PRIME, np.uint64))
        hashes[filled] += np.add.reduceat(used * powers[position], (offsets[:-1] - offsets[0])[filled])
    return _mix(hashes)


def _mix(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64: every bit of the input matters to every bit of the output."""
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def bucket_ids(buckets: int) -> list[int]:
    """For each of as many shuffle partitions, the smallest number that Spark puts there.

    >>> bucket_ids(2)
    [2, 0]
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < buckets:
        found.setdefault(_murmur3(number) % buckets, number)
        number += 1
    return [found[partition] for partition in range(buckets)]


def _murmur3(value: int) -> int:
    """Spark's `hash` of one int: 32-bit Murmur3, seed 42, as a signed number."""
    mask = 0xFFFFFFFF

    def rotated(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    k = (rotated((value & mask) * 0xCC9E2D51 & mask, 15)) * 0x1B873593 & mask
    h = (rotated(42 ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & mask
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h

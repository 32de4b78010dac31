"""Buckets: the unit of parallel state. A hash of the partition key chooses one, the same in every
process and run.

Spark hashes the bucket number again (Murmur3) to choose a partition; `bucket_ids` are numbers that
fall into partitions of their own, found without asking Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.model.hashing import hash_rows
from thalweg.model.rows import Codes

__all__ = ["bucket_ids", "bucket_of"]


def bucket_of(keys: Sequence[pa.Array], length: int, buckets: int) -> Codes:
    """The bucket (0 .. buckets - 1) of each row; equal keys have equal buckets, whatever integer or
    float type they have.

    >>> whole, floats = [pa.array([1, 2, None])], [pa.array([1.0, 2.0, None])]
    >>> bool((bucket_of(whole, 3, 8) == bucket_of(floats, 3, 8)).all())
    True
    """
    if buckets == 1 or not keys:
        return np.zeros(length, np.int64)
    return (hash_rows(keys, length) % np.uint64(buckets)).astype(np.int64)


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

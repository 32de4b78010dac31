"""Digests of rows: 128 bits that stand for the values of a row.

`hash_rows` is a hint and lets keys of different number types meet; a digest is an identity: within
one schema, equal values (null equals null, NaN equals NaN, 0.0 equals -0.0) have equal digests, and
other values have other digests but for one chance in 2**128 a pair. A merge of 2**40 rows that are
alive at once would mistake two of them with a chance of one in 2**49, so the values themselves are
not compared. Digests are the same in every process and run.

Texts are read eight bytes at a time, all values of a column at once, in blocks that stay in the
cache. Every word is mixed before it is weighted by its place: without that, two words that differ
in their highest bit alone would cancel out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.buffers import as_numbers
from thalweg.model.nested import nested_texts
from thalweg.model.rows import Codes
from thalweg.model.time import Times

__all__ = ["Digests", "digest_rows", "digest_texts", "mix"]

Words = npt.NDArray[np.uint64]

_BLOCK = 1 << 15
"""Words that are worked on at once: 256 KiB."""
_FEW = 8
_NULL = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_SEEDS = (np.uint64(0x165667B19E3779F9), np.uint64(0x27D4EB2F165667C5))
_ODD = (np.uint64(0x9FB21C651E98DF25), np.uint64(0xD6E8FEB86659FD93))


@dataclass(frozen=True, slots=True)
class Digests:
    """A pair of words for each row."""

    high: Words
    low: Words

    def __len__(self) -> int:
        return len(self.low)

    def take(self, which: Codes | npt.NDArray[np.bool_]) -> Digests:
        return Digests(self.high[which], self.low[which])


def digest_rows(columns: Sequence[pa.Array | Times], length: int) -> Digests:
    """One digest for the values of each row.

    >>> digests = digest_rows([pa.array(["a", None, "a"]), np.array([1, 1, 1])], 3)
    >>> bool(digests.low[0] == digests.low[2]), bool(digests.low[0] == digests.low[1])
    (True, False)
    """
    high, low = np.full(length, _SEEDS[0]), np.full(length, _SEEDS[1])
    for column in columns:
        more_high, more_low = _digest(column)
        high = high * _ODD[0] + more_high
        low = low * _ODD[1] + more_low
    return Digests(mix(high), mix(low))


def _digest(column: pa.Array | Times) -> tuple[Words, Words]:
    if isinstance(column, np.ndarray):
        return _digest_words(column.astype(np.int64, copy=False).view(np.uint64))
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    words = _words_of(column)
    high, low = digest_texts(_as_binary(column)) if words is None else _digest_words(words)
    if nulls is not None:
        high, low = np.where(nulls, _NULL[0], high), np.where(nulls, _NULL[1], low)
    return high, low


def _words_of(column: pa.Array) -> Words | None:
    """The column as one word a value; None for values that are longer."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.uint64)
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    if pa.types.is_uint64(kind):
        return np.array(column.fill_null(0).to_numpy(zero_copy_only=False), np.uint64)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        narrow = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(narrow).view(np.uint64)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        column = column.cast(pa.int64())
    else:
        return None
    return np.ascontiguousarray(column.fill_null(0).to_numpy(zero_copy_only=False)).view(np.uint64)


def _as_binary(column: pa.Array) -> pa.Array:
    """A column of longer values as bytes."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        return column.cast(pa.binary())
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_decimal(kind):
        return column.cast(pa.string())
    return nested_texts(column)


def _digest_words(words: Words) -> tuple[Words, Words]:
    mixed = mix(words ^ _SEEDS[0])
    return mixed, (mixed ^ (mixed >> np.uint64(32))) * _ODD[1]


def digest_texts(column: pa.Array) -> tuple[Words, Words]:
    """Two words for each value of a column of texts or bytes; what a null gets means nothing."""
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets_buffer, data = column.buffers()
    if not len(column):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    raw_offsets = as_numbers(offsets_buffer, np.dtype(np.int64 if large else np.int32))
    used = slice(column.offset, column.offset + len(column) + 1)
    offsets: Codes = raw_offsets[used].astype(np.int64)
    lengths = np.diff(offsets)
    counts = (lengths + 7) >> 3
    high, low = mix(lengths.view(np.uint64) + _SEEDS[0]), mix(lengths.view(np.uint64) + _SEEDS[1])
    if data is None or not counts.any():
        return mix(high), mix(low)  # as an empty text gets it beside others
    raw = as_numbers(data, np.uint8)
    first = np.cumsum(counts) - counts
    weights = _weights(int(counts.max()))
    begin = 0
    while begin < len(column):  # as many whole values as fit into a block, at least one
        limit = int(first[begin]) + _BLOCK
        stop = max(int(np.searchsorted(first, limit)), begin + 1)
        part = slice(begin, stop)
        _add_block(raw, offsets[part], lengths[part], counts[part], weights, high[part], low[part])
        begin = stop
    return mix(high), mix(low)


def _add_block(
    raw: npt.NDArray[np.uint8],
    offsets: Codes,
    lengths: Codes,
    counts: Codes,
    weights: tuple[Words, Words],
    high: Words,
    low: Words,
) -> None:
    """Adds the weighted words of some values to their sums."""
    filled = np.flatnonzero(counts)
    if not len(filled):
        return
    counts, lengths, offsets = counts[filled], lengths[filled], offsets[filled]
    size = int(counts[0])
    if (counts == size).all():
        if (lengths == 8 * size).all() and (np.diff(offsets) == 8 * size).all():
            begin = int(offsets[0])  # values of whole words that lie one behind the other
            words = np.array(raw[begin : begin + 8 * size * len(filled)].view("<u8"), np.uint64)
            square = words.reshape(len(filled), size)
        else:
            place = np.arange(size)
            words = _gather(raw, (offsets[:, None] + 8 * place[None, :]).ravel())
            square = words.reshape(len(filled), size)
            square[:, -1] &= _tail_masks(lengths, counts)
        _stir(words)
        high[filled] += _weighted(square, weights[0])
        low[filled] += _weighted(square, weights[1])
        return
    first = np.cumsum(counts) - counts
    place = np.arange(int(counts.sum())) - np.repeat(first, counts)
    words = _gather(raw, np.repeat(offsets, counts) + 8 * place)
    words[first + counts - 1] &= _tail_masks(lengths, counts)
    _stir(words)
    high[filled] += np.add.reduceat(words * weights[0][place], first)
    low[filled] += np.add.reduceat(words * weights[1][place], first)


def _weighted(square: Words, weights: Words) -> Words:
    """The sum of the words of each value, each times the weight of its place."""
    size = square.shape[1]
    if size > _FEW:
        total: Words = (square * weights[:size]).sum(axis=1)
        return total
    total = square[:, 0] * weights[0]
    for place in range(1, size):  # a sum over a short axis costs more than its additions
        total += square[:, place] * weights[place]
    return total


def _gather(raw: npt.NDArray[np.uint8], at: Codes) -> Words:
    """The eight bytes from each of these places on; beyond the end there are zeros."""
    beyond = int(at.max()) + 8 - len(raw)
    low = int(at.min())
    source = raw[low:]
    if beyond > 0:
        source = np.concatenate([source, np.zeros(beyond, np.uint8)])
    windows = np.lib.stride_tricks.as_strided(
        source[: len(source) - 7], (len(source) - 7, 8), (1, 1), writeable=False
    )
    return windows[at - low].view("<u8").ravel().astype(np.uint64, copy=False)


def _tail_masks(lengths: Codes, counts: Codes) -> Words:
    """Which bytes of the last word belong to the value."""
    used = (lengths - 8 * (counts - 1)).astype(np.uint64)
    return np.uint64(0xFFFFFFFFFFFFFFFF) >> ((np.uint64(8) - used) * np.uint64(8))


def _stir(words: Words) -> None:
    """Mixes the bits of each word, in place."""
    words ^= words >> np.uint64(32)
    words *= _ODD[0]
    words ^= words >> np.uint64(29)


_WEIGHTS: list[tuple[Words, Words]] = []


def _weights(count: int) -> tuple[Words, Words]:
    """Pseudo-random odd numbers, two for each position in a value."""
    if not _WEIGHTS or len(_WEIGHTS[0][0]) < count:
        places = np.arange(max(256, 2 * count), dtype=np.uint64)
        weights = tuple(mix(places * _ODD[0] + seed) | np.uint64(1) for seed in _SEEDS)
        _WEIGHTS[:] = [(weights[0], weights[1])]
    return _WEIGHTS[0]


def mix(values: Words) -> Words:
    """The finaliser of SplitMix64: every bit of the input matters to every bit of the output."""
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))

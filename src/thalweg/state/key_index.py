"""A key index: numbers the groups of a kernel, so that its state holds small integers instead of
keys.

Keys are compared as payloads are: null equals null, NaN equals NaN, 0.0 equals -0.0. Groups are
numbered in the order in which they are first seen. A group that is no longer needed keeps its
number until `keep` numbers all groups anew; a kernel calls that when its index has doubled, so an
index is never more than twice as large as the groups in use.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa

from thalweg.model.nested import nested_texts
from thalweg.model.rows import Codes, encode, encode_together, take_column
from thalweg.model.time import least

__all__ = ["KeyIndex"]

_LOOK_UP_ONE_BY_ONE = 64
"""Up to this many distinct keys of a batch are looked up in a dictionary; more are matched with the
whole index at once."""

_TIDY_FROM = 1_024


class KeyIndex:
    """
    >>> index = KeyIndex([pa.field("k", pa.string())])
    >>> index.numbers([pa.array(["a", "b", "a"])], 3)
    array([0, 1, 0])
    >>> index.numbers([pa.array(["c", "b"])], 2), len(index)
    (array([2, 1]), 3)
    >>> index.columns(np.array([2, 2, 0]))[0].to_pylist()
    ['c', 'c', 'a']
    """

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self._fields = list(fields)
        self.clear()

    def clear(self) -> None:
        self._keys: list[pa.Array] = [pa.array([], field.type) for field in self._fields]
        self._size = 0
        self._by_key: dict[tuple[Hashable, ...], int] = {}
        self._integers = (
            _Integers()
            if len(self._fields) == 1 and pa.types.is_signed_integer(self._fields[0].type)
            else None
        )
        self._tidy_at = _TIDY_FROM

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        return sum(int(column.nbytes) for column in self._keys)

    def numbers(self, keys: Sequence[pa.Array], length: int) -> Codes:
        """The number of each row's group; new groups are numbered."""
        if not self._fields or not length:
            self._size = max(self._size, int(length > 0)) if not self._fields else self._size
            return np.zeros(length, np.int64)
        if self._integers is not None and not keys[0].null_count:
            return self._integer_numbers(self._integers, keys[0])
        if length <= _LOOK_UP_ONE_BY_ONE:
            return self._few_numbers(keys)
        distinct, local, count = _distinct(keys, length)
        found = self._find(distinct, count)
        new = np.flatnonzero(found < 0)
        if len(new):
            found[new] = self._add([column.take(pa.array(new)) for column in distinct], len(new))
        return found[local]

    def _few_numbers(self, keys: Sequence[pa.Array]) -> Codes:
        """The numbers of a few rows, looked up one by one: cheaper than finding distinct keys."""
        self._learn()
        found: list[int] = []
        new: dict[int, int] = {}
        for at, key in enumerate(_hashable(keys)):
            number = self._by_key.get(key)
            if number is None:
                number = self._by_key[key] = self._size + len(new)
                new[number] = at
            found.append(number)
        if new:
            which = pa.array(list(new.values()), pa.int64())
            self._add([column.take(which) for column in keys], len(new))
        return np.array(found, np.int64)

    def having(self, at: Sequence[int], values: Sequence[pa.Array]) -> tuple[Codes, Codes]:
        """The groups whose key columns `at` have one of these rows of values, as pairs (group,
        row)."""
        size = len(values[0])
        if len(at) == len(self._fields):
            in_order = [values[list(at).index(place)] for place in range(len(at))]
            found = self._find(in_order, size) if self._size else np.full(size, -1)
            which = np.flatnonzero(found >= 0)
            return found[which], which
        own, wanted_key, count = encode_together(
            [self._keys[place] for place in at], values, (self._size, size)
        )
        row = np.full(count, -1, np.int64)
        row[wanted_key] = np.arange(size)
        group = np.flatnonzero(row[own] >= 0)
        return group, row[own[group]]

    def columns(self, numbers: Codes) -> list[pa.Array]:
        """The keys of groups."""
        return [take_column(column, numbers) for column in self._keys]

    @property
    def is_untidy(self) -> bool:
        """Whether the index has doubled since `keep` was last called."""
        return self._size > self._tidy_at

    def keep(self, used: Codes) -> Codes:
        """Forget all groups but these; returns the new number of each old one (-1: forgotten)."""
        moved = np.full(self._size, -1, np.int64)
        moved[used] = np.arange(len(used))
        keys = self.columns(used)
        self.clear()
        if self._fields:
            self._add(keys, len(used))
        else:
            self._size = len(used)
        self._tidy_at = max(_TIDY_FROM, 2 * self._size)
        return moved

    def _add(self, keys: Sequence[pa.Array], count: int) -> Codes:
        first, self._size = self._size, self._size + count
        self._keys = [
            pa.concat_arrays([held, new]) for held, new in zip(self._keys, keys, strict=True)
        ]
        numbers = np.arange(first, self._size)
        if self._integers is not None:
            valid = np.flatnonzero(keys[0].is_valid().to_numpy(zero_copy_only=False))
            self._integers.add(
                keys[0].take(pa.array(valid)).to_numpy().astype(np.int64, copy=False),
                numbers[valid],
            )
        return numbers

    def _integer_numbers(self, integers: _Integers, key: pa.Array) -> Codes:
        values = key.to_numpy().astype(np.int64, copy=False)
        found = integers.find(values)
        if least(found) < 0:
            new = pa.array(values[found < 0]).unique().to_numpy()
            self._add([pa.array(new, self._fields[0].type)], len(new))
            found = integers.find(values)
        return found

    def _find(self, distinct: Sequence[pa.Array], count: int) -> Codes:
        """The numbers of keys that are all different, -1 where there is none."""
        if count <= _LOOK_UP_ONE_BY_ONE or 16 * count < self._size:
            return self._one_by_one(distinct)
        return self._at_once(distinct, count)

    def _learn(self) -> None:
        """Add the keys that the dictionary lacks."""
        if len(self._by_key) < self._size:
            first = len(self._by_key)
            rest = _hashable([column.slice(first) for column in self._keys])
            self._by_key.update(zip(rest, range(first, self._size), strict=True))

    def _one_by_one(self, keys: Sequence[pa.Array]) -> Codes:
        self._learn()
        return np.array([self._by_key.get(key, -1) for key in _hashable(keys)], np.int64)

    def _at_once(self, keys: Sequence[pa.Array], count: int) -> Codes:
        own, sought, size = encode_together(self._keys, keys, (self._size, count))
        number = np.full(size, -1, np.int64)
        number[own] = np.arange(self._size)
        return number[sought]


def _distinct(keys: Sequence[pa.Array], length: int) -> tuple[list[pa.Array], Codes, int]:
    """The distinct keys, the index among them for each row, and their number."""
    local, count = encode(keys, length)
    if count == length:
        representative = np.argsort(local)
    else:
        representative = np.empty(count, np.int64)
        representative[local] = np.arange(length)
    return [key.take(pa.array(representative)) for key in keys], local, count


def _hashable(keys: Sequence[pa.Array]) -> list[tuple[Hashable, ...]]:
    """Each row of the keys as a tuple; tuples are equal exactly when the keys are."""
    return list(zip(*map(_values, keys), strict=True))


def _values(column: pa.Array) -> list[Hashable]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        column = column.cast(
            pa.int32() if column.type.bit_width == 32 else pa.int64()
        )  # pyarrow makes slow objects of times
    if pa.types.is_nested(column.type):
        column = nested_texts(column)
    values: list[Hashable] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return ["NaN" if value != value else value for value in values]
    return values


class _Integers:
    """Numbers of integer keys: a table while keys are close together, a sorted list where they are
    far apart."""

    _TABLE = 2**20

    def __init__(self) -> None:
        self._low = 0
        self._table: Codes | None = np.full(1, -1, np.int64)
        """The number of each value from `_low` on. The first and the last place are always -1, so
        that a clipped lookup of a value beyond either end finds no number."""
        self._sorted = self._numbers = np.empty(0, np.int64)

    def find(self, values: Codes) -> Codes:
        """The number of each value, -1 where it has none."""
        if self._table is not None:
            return self._table.take(values - self._low, mode="clip")
        if len(values) > _TIDY_FROM:
            encoded = pa.array(values).dictionary_encode()
            numbers: Codes = self._search(encoded.dictionary.to_numpy())[encoded.indices.to_numpy()]
            return numbers
        return self._search(values)

    def _search(self, values: Codes) -> Codes:
        at = np.minimum(np.searchsorted(self._sorted, values), len(self._sorted) - 1)
        return np.where(self._sorted[at] == values, self._numbers[at], -1)

    def add(self, values: Codes, numbers: Codes) -> None:
        """New values, without repetition."""
        if not len(values):
            return
        every, number = (
            np.concatenate([self._sorted, values]),
            np.concatenate([self._numbers, numbers]),
        )
        order = np.argsort(every, kind="stable")
        self._sorted, self._numbers = every[order], number[order]
        low, high = int(self._sorted[0]), int(self._sorted[-1])
        # Room beyond both ends: keys that grow one by one do not make a new table each time.
        room = max(64, (high - low) // 4)
        fits = low - room >= -(2**63) and high + room < 2**63
        if self._table is None or not fits or high - low >= self._TABLE + 4 * len(every):
            self._table = None
        elif low <= self._low or high >= self._low + len(self._table) - 1:
            self._low = low - room
            self._table = np.full(high - low + 2 * room + 1, -1, np.int64)
            self._table[self._sorted - self._low] = self._numbers
        else:
            self._table[values - self._low] = numbers

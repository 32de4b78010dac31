"""The key hash table: the cell number of every key, in columns.

Open addressing with linear probing; all keys of a batch are probed together, so the loop is over
the length of the longest probe. Cells are numbered in the order in which keys are first seen. Keys
are compared as values, never by hash alone: null equals null, NaN equals NaN, 0.0 equals -0.0.

A single column of integers (or of times) is compared as int64. Any other key is one binary value:
a column of text without nulls is that already, other columns are written one after the other, each
as its length and its text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import PlanError
from thalweg.freshness._arrays import Ints, Mask, enlarge, is_text
from thalweg.model.hashing import Hashes, hash_rows

__all__ = ["KeyTable", "pack_keys"]

_EMPTY = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def pack_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """One binary value for each row; equal exactly when the rows are.

    >>> pack_keys([pa.array(["a", None]), pa.array([1.0, -0.0])]).to_pylist()
    [b'1:a1:1', b'-1:0']
    """
    if len(columns) == 1 and is_text(columns[0].type) and not columns[0].null_count:
        return columns[0].cast(pa.large_binary())
    parts: list[pa.Array] = []
    for column in columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))
        text = column.cast(pa.large_string()) if not is_text(column.type) else column
        text = text.cast(pa.large_binary())
        size = pc.binary_length(text).cast(pa.large_string()).cast(pa.large_binary())
        marked = pc.binary_join_element_wise(size, text, pa.scalar(b":", pa.large_binary()))
        parts.append(pc.fill_null(marked, pa.scalar(b"-", pa.large_binary())))
    if not parts:
        raise PlanError("a key needs at least one column.")
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


class KeyTable:
    """
    >>> table = KeyTable([pa.field("symbol", pa.string())])
    >>> table.cells([pa.array(["IBM", "MSFT", "IBM"])])
    array([0, 1, 0])
    >>> table.cells([pa.array(["YHOO", "MSFT"])], limit=2)   # no room for a third key
    array([-1,  1])
    """

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.fields = list(fields)
        kind = self.fields[0].type if len(self.fields) == 1 else None
        self._is_integer = kind is not None and (
            (pa.types.is_integer(kind) and kind != pa.uint64())
            or (pa.types.is_temporal(kind) and kind.bit_width == 64)
        )
        self._keys: _IntegerKeys | _PackedKeys = (
            _IntegerKeys() if self._is_integer else _PackedKeys()
        )
        self._hashes = np.empty(16, np.uint64)
        self._slots = np.full(32, _EMPTY, np.int32)
        self.size = 0

    @property
    def nbytes(self) -> int:
        return int(self._slots.nbytes + self._hashes.nbytes + self._keys.nbytes)

    def cells(self, columns: Sequence[pa.Array], limit: int | None = None) -> Ints:
        """The cell of each row's key. A new key gets the next number, or -1 if there would be more
        than `limit` keys."""
        keys, hashes = self._prepare(columns)
        found = self._find(keys, hashes)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            first, group = self._keys.distinct(keys, missing)
            if limit is not None:
                first = first[: max(0, limit - self.size)]
            cells = self._add(keys, hashes, missing[first])
            numbers = np.full(int(group.max()) + 1, -1, np.int64)
            numbers[: len(cells)] = cells
            found[missing] = numbers[group]
        return found

    def keep(self, kept: Ints) -> None:
        """Forget all keys but those of these cells, which are numbered anew in this order."""
        self._keys.keep(kept)
        self._hashes[: len(kept)] = self._hashes[kept]
        self.size = len(kept)
        self._slots[:] = _EMPTY
        self._place(np.arange(self.size))

    def keys(self, cells: Ints) -> pa.Array:
        """The keys of cells: as the column's type, or packed."""
        return self._keys.values(cells, self.fields)

    def _prepare(self, columns: Sequence[pa.Array]) -> tuple[Ints | pa.Array, Hashes]:
        if self._is_integer:
            column = columns[0]
            if column.null_count:
                raise PlanError(
                    f"key column {self.fields[0].name!r} of type {self.fields[0].type} holds a "
                    "null."
                )
            if pa.types.is_temporal(column.type):
                column = column.cast(pa.int64())
            values = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            mixed = values.view(np.uint64) * _GOLDEN
            return values, mixed ^ (mixed >> _SHIFT)
        packed = pack_keys(columns)
        return packed, hash_rows([packed.cast(pa.binary())], len(packed))

    def _find(self, keys: Ints | pa.Array, hashes: Hashes) -> Ints:
        mask = np.uint64(len(self._slots) - 1)
        found = np.full(len(hashes), -1, np.int64)
        at = (hashes & mask).astype(np.int64)
        rows = np.arange(len(hashes))
        while len(rows):
            cells = self._slots[at].astype(np.int64)
            taken = cells >= 0
            rows, at, cells = rows[taken], at[taken], cells[taken]
            same = self._hashes[cells] == hashes[rows]
            if not same.all():
                candidates = np.flatnonzero(same)
                same[candidates] = self._keys.equal(keys, rows[candidates], cells[candidates])
            elif len(rows):
                same = self._keys.equal(keys, rows, cells)
            found[rows[same]] = cells[same]
            rows, at = rows[~same], (at[~same] + 1) & int(mask)
        return found

    def _add(self, keys: Ints | pa.Array, hashes: Hashes, rows: Ints) -> Ints:
        """Add distinct new keys; returns their cells."""
        cells = np.arange(self.size, self.size + len(rows))
        self.size += len(rows)
        self._keys.add(keys, rows, self.size)
        if self.size > len(self._hashes):
            self._hashes = enlarge(self._hashes, max(self.size, 2 * len(self._hashes)), 0)
        self._hashes[cells] = hashes[rows]
        if 2 * self.size > len(self._slots):
            size = len(self._slots)
            while size < 4 * self.size:
                size *= 2
            self._slots = np.full(size, _EMPTY, np.int32)
            self._place(np.arange(self.size))
        else:
            self._place(cells)
        return cells

    def _place(self, cells: Ints) -> None:
        mask = len(self._slots) - 1
        at = (self._hashes[cells] & np.uint64(mask)).astype(np.int64)
        while len(cells):
            free = np.flatnonzero(self._slots[at] == _EMPTY)
            self._slots[at[free]] = cells[free]  # the last of several cells for a slot gets it
            left = self._slots[at] != cells
            cells, at = cells[left], (at[left] + 1) & mask


class _IntegerKeys:
    def __init__(self) -> None:
        self._values = np.empty(16, np.int64)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def equal(self, keys: Ints | pa.Array, rows: Ints, cells: Ints) -> Mask:
        same: Mask = self._values[cells] == _numbers(keys)[rows]
        return same

    def add(self, keys: Ints | pa.Array, rows: Ints, size: int) -> None:
        if size > len(self._values):
            self._values = enlarge(self._values, max(size, 2 * len(self._values)), 0)
        self._values[size - len(rows) : size] = _numbers(keys)[rows]

    def keep(self, kept: Ints) -> None:
        self._values[: len(kept)] = self._values[kept]

    def distinct(self, keys: Ints | pa.Array, rows: Ints) -> tuple[Ints, Ints]:
        """The first position in `rows` of each distinct key, in order, and each row's group."""
        _, first, group = np.unique(_numbers(keys)[rows], return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        order = np.argsort(first)
        rank[order] = np.arange(len(first))
        return first[order], rank[group]

    def values(self, cells: Ints, fields: Sequence[pa.Field]) -> pa.Array:
        return pa.array(self._values[cells]).cast(fields[0].type)


class _PackedKeys:
    """Known keys in two Arrow arrays, a large one and one that grows; the latter is appended to the
    former when it has an eighth of its size."""

    def __init__(self) -> None:
        self._old = pa.array([], pa.large_binary())
        self._new = pa.array([], pa.large_binary())

    @property
    def nbytes(self) -> int:
        return int(self._old.nbytes + self._new.nbytes)

    def equal(self, keys: Ints | pa.Array, rows: Ints, cells: Ints) -> Mask:
        same: Mask = pc.equal(self._take(cells), _packed(keys).take(pa.array(rows))).to_numpy(
            zero_copy_only=False
        )
        return same.copy()

    def add(self, keys: Ints | pa.Array, rows: Ints, size: int) -> None:
        self._new = pa.concat_arrays([self._new, _packed(keys).take(pa.array(rows))])
        if len(self._new) > max(4_096, len(self._old) // 8):
            self._old = pa.concat_arrays([self._old, self._new])
            self._new = self._new[:0]

    def keep(self, kept: Ints) -> None:
        self._old, self._new = self._take(kept), self._new[:0]

    def distinct(self, keys: Ints | pa.Array, rows: Ints) -> tuple[Ints, Ints]:
        group = _packed(keys).take(pa.array(rows)).dictionary_encode().indices.to_numpy()
        first = np.full(int(group.max()) + 1, -1, np.int64)
        first[group[::-1]] = np.arange(len(group))[::-1]
        return first, group.astype(np.int64)

    def values(self, cells: Ints, fields: Sequence[pa.Field]) -> pa.Array:
        del fields
        return self._take(cells)

    def _take(self, cells: Ints) -> pa.Array:
        if not len(self._new):
            return self._old.take(pa.array(cells))
        recent = cells >= len(self._old)
        if not recent.any():
            return self._old.take(pa.array(cells))
        if recent.all():
            return self._new.take(pa.array(cells - len(self._old)))
        old = self._old.take(pa.array(cells[~recent]))
        new = self._new.take(pa.array(cells[recent] - len(self._old)))
        order = np.empty(len(cells), np.int64)
        order[np.flatnonzero(~recent)] = np.arange(len(old))
        order[np.flatnonzero(recent)] = len(old) + np.arange(len(new))
        return pa.concat_arrays([old, new]).take(pa.array(order))


def _numbers(keys: Ints | pa.Array) -> Ints:
    assert isinstance(keys, np.ndarray)
    return keys


def _packed(keys: Ints | pa.Array) -> pa.Array:
    assert isinstance(keys, pa.Array)
    return keys

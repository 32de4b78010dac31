"""Rows of columns: identity codes, gathering, concatenation. The vectorised ground that every
kernel stands on.

Two payloads are the same when all their columns are: null equals null, NaN equals NaN, 0.0 equals
-0.0. `encode` turns that identity into small integers, so that kernels can group, match and sort
rows of any type with NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.nested import nested_texts
from thalweg.model.time import Times, greatest, least

__all__ = [
    "Bools",
    "Codes",
    "Rows",
    "concat_rows",
    "copy_rows",
    "distinct_codes",
    "empty_rows",
    "encode",
    "encode_together",
    "equal_pairs",
    "ones",
    "sparse_codes",
    "take_column",
    "take_rows",
    "used_codes",
    "whole_column",
    "whole_numbers",
]

Rows: TypeAlias = pa.RecordBatch
Codes: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

_COMBINE_LIMIT = 2**62
_WIDEST = 2**44
"""Integers of a wider range are encoded one column at a time, so that several fit one number."""
_FEW = 1_024
"""Up to this many rows are encoded by one sort."""


def empty_rows(schema: pa.Schema) -> Rows:
    """An empty batch of a schema, cached by schema object, since batches without rows are
    common."""
    entry = _EMPTY.get(id(schema))
    if entry is None or entry[0] is not schema:
        if len(_EMPTY) >= _EMPTY_KEPT:
            _EMPTY.clear()
        entry = (
            schema,
            pa.RecordBatch.from_arrays(
                [pa.array([], field.type) for field in schema], schema=schema
            ),
        )
        _EMPTY[id(schema)] = entry
    return entry[1]


_EMPTY_KEPT = 1_000
_EMPTY: dict[int, tuple[pa.Schema, Rows]] = {}


def take_rows(rows: Rows, indices: Codes) -> Rows:
    """The rows at these positions, in this order."""
    if rows.num_columns:
        columns = [take_column(column, indices) for column in rows.columns]
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    return rows.take(pa.array(indices))


def take_column(column: pa.Array, indices: Codes) -> pa.Array:
    """The values at these positions, in this order. NumPy gathers plain numbers in two thirds of
    the time of Arrow, and a few of them in a small part of it.

    >>> take_column(pa.array([5, 6, 7]), np.array([2, 0])).to_pylist()
    [7, 5]
    """
    missing, kind = column.null_count, column.type
    if not missing and kind.id in _PLAIN:
        values = column.to_numpy().take(indices)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    if missing and missing == len(column):  # digits of sums that need none: lists are expensive
        return pa.nulls(len(indices), column.type)
    return column.take(pa.array(indices))


def whole_column(values: Codes) -> pa.Array:
    """Whole numbers as a column: half of what `pa.array` takes, which looks for the type first.

    >>> whole_column(np.array([5, 6])).to_pylist()
    [5, 6]
    """
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(_INT64, len(values), [None, pa.py_buffer(values)])


def ones(length: int) -> Codes:
    """A column of ones; a short one in half of the time of `np.ones`."""
    column = np.empty(length, np.int64)
    column.fill(1)
    return column


_INT64 = pa.int64()
_PLAIN = frozenset(
    kind.id
    for kind in (
        pa.int64(),
        pa.int32(),
        pa.int16(),
        pa.int8(),
        pa.uint64(),
        pa.uint32(),
        pa.uint16(),
        pa.uint8(),
        pa.float64(),
        pa.float32(),
    )
)
"""Types that NumPy has too."""


def concat_rows(parts: Sequence[Rows], schema: pa.Schema) -> Rows:
    """All rows one after the other."""
    full = [part for part in parts if part.num_rows]
    if not full:
        return empty_rows(schema)
    return full[0] if len(full) == 1 else pa.concat_batches(full)


def copy_rows(rows: Rows) -> Rows:
    """The same rows in memory of their own, whatever buffers they are a slice of."""
    if rows.num_rows < 2:
        return take_rows(rows, np.arange(rows.num_rows))
    return pa.concat_batches([rows.slice(0, 1), rows.slice(1)])  # copies bytes, not values


def encode(columns: Sequence[pa.Array | Times], length: int) -> tuple[Codes, int]:
    """A dense code per row such that rows with equal values in all columns get the same code, and
    how many codes there are.

    >>> encode([pa.array(["a", "b", "a"]), np.array([1, 1, 1])], 3)
    (array([0, 1, 0]), 2)
    """
    if not columns or length == 0:
        return np.zeros(length, np.int64), min(length, 1)
    if len(columns) > 1 and length <= _FEW:
        numbers = whole_numbers(columns)
        if numbers is not None:
            return _encode_few(numbers)
    return _dense(*sparse_codes(columns))


def sparse_codes(columns: Sequence[pa.Array | Times]) -> tuple[Codes, int]:
    """Codes below a size, as `encode` makes them, of which numbers may be left out.

    >>> sparse_codes([pa.array([7, 5, 7])])
    (array([2, 0, 2]), 3)
    """
    codes, size = _encode_one(columns[0])
    for column in columns[1:]:
        more, more_size = _encode_one(column)
        if more_size == 1:
            continue
        if size * more_size >= _COMBINE_LIMIT:  # keep the product inside int64
            codes, size = _dense(codes, size)
        if size * more_size >= _COMBINE_LIMIT:
            more, more_size = _dense(more, more_size)
        # in place: the first codes are new, and large arrays are expensive to allocate
        np.multiply(codes, more_size, out=codes)
        np.add(codes, more, out=codes)
        size *= more_size
    return codes, size


def encode_together(
    left: Sequence[pa.Array], right: Sequence[pa.Array], sizes: tuple[int, int]
) -> tuple[Codes, Codes, int]:
    """Codes of two sets of rows: rows with equal values have equal codes in both."""
    columns = [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(left, right, strict=True)]
    codes, size = encode(columns, sizes[0] + sizes[1])
    return codes[: sizes[0]], codes[sizes[0] :], size


def distinct_codes(codes: Codes) -> tuple[Codes, Codes]:
    """The small numbers that occur in a column, in order, and which of them each one is.

    >>> [found.tolist() for found in distinct_codes(np.array([4, 1, 4]))]
    [[1, 4], [1, 0, 1]]
    """
    size = greatest(codes) + 1 if len(codes) else 0
    if size > 4 * len(codes) + _FEW:
        found, which = np.unique(codes, return_inverse=True)
        return found, which
    used = np.zeros(size, np.bool_)
    used[codes] = True
    return used.nonzero()[0], (used.cumsum() - 1)[codes]


def used_codes(parts: Sequence[Codes]) -> Codes:
    """The small numbers that occur in some columns, in order.

    >>> used_codes([np.array([4, 1, 4]), np.array([2])]).tolist()
    [1, 2, 4]
    """
    full = [part for part in parts if len(part)]
    if not full:
        return np.empty(0, np.int64)
    size = max(map(greatest, full)) + 1
    if size > 4 * sum(map(len, full)) + _FEW:
        return np.unique(np.concatenate(full))
    used = np.zeros(size, np.bool_)
    for part in full:
        used[part] = True
    return used.nonzero()[0]


def equal_pairs(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Bools:
    """For each position whether the rows of both sides are the same payload. There is at least one
    column.

    >>> left = [pa.array([1, 2]), pa.array(["a", None])]
    >>> equal_pairs(left, [pa.array([1, 3]), pa.array(["a", None])])
    array([ True, False])
    """
    size = len(left[0])
    equal = np.ones(size, np.bool_)
    others: list[tuple[pa.Array, pa.Array]] = []
    for left_column, right_column in zip(left, right, strict=True):
        if pa.types.is_signed_integer(left_column.type) and not (
            left_column.null_count or right_column.null_count
        ):
            equal &= left_column.to_numpy() == right_column.to_numpy()
        else:
            others.append((left_column, right_column))
    if others and equal.any():
        left_columns = [left_column for left_column, _ in others]
        right_columns = [right_column for _, right_column in others]
        codes = encode_together(left_columns, right_columns, (size, size))
        equal &= codes[0] == codes[1]
    return equal


def whole_numbers(columns: Sequence[pa.Array | Times]) -> list[Times] | None:
    """The columns as int64, where all of them are and have no null."""
    numbers: list[Times] = []
    for column in columns:
        if not isinstance(column, np.ndarray):
            if column.null_count or not pa.types.is_int64(column.type):
                return None
            column = column.to_numpy()
        if column.dtype != np.int64:
            return None
        numbers.append(column)
    return numbers


def _encode_few(numbers: list[Times]) -> tuple[Codes, int]:
    """Codes of a few rows: sorted once by all columns, instead of encoded column by column."""
    order = np.lexsort(numbers)
    differs = np.zeros(len(order) - 1, np.bool_)
    for column in numbers:
        ordered = column.take(order)
        differs |= ordered[1:] != ordered[:-1]
    place = np.zeros(len(order), np.int64)
    np.add.accumulate(differs, dtype=np.int64, out=place[1:])
    codes = np.empty(len(order), np.int64)
    codes[order] = place
    return codes, int(place[-1]) + 1


def _encode_one(column: pa.Array | Times) -> tuple[Codes, int]:
    """Codes that may leave numbers out; integers are their own codes, unless they are very far
    apart."""
    numbers: Times | None = None
    if isinstance(column, np.ndarray):
        numbers = column
    elif pa.types.is_signed_integer(column.type) and not column.null_count:
        numbers = column.to_numpy(zero_copy_only=False)
    if numbers is not None and len(numbers) and numbers.dtype.kind == "i":
        low, high = least(numbers), greatest(numbers)
        if high - low < _WIDEST:
            return (numbers.astype(np.int64, copy=False) - low), high - low + 1
    array = pa.array(column) if isinstance(column, np.ndarray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type):
        array = _plus_zero(array)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64), 1
    if pa.types.is_nested(array.type):
        array = nested_texts(array)
    encoded = array.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _plus_zero(array: pa.Array) -> pa.Array:
    values = array.to_numpy(zero_copy_only=False) + 0.0  # -0.0 + 0.0 is 0.0
    odd = np.isnan(values)
    if odd.any():  # there are many NaNs, by sign and bits, and they are all equal
        values[odd] = np.nan
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, array.type, mask=mask, from_pandas=False)


def _dense(codes: Codes, size: int) -> tuple[Codes, int]:
    """The same groups with codes that leave no number out."""
    if size <= 4 * len(codes) + 64:
        present = np.zeros(size, np.bool_)
        present[codes] = True
        rank = present.cumsum()
        return (codes, size) if rank[-1] == size else ((rank - 1)[codes], int(rank[-1]))
    encoded = pa.array(codes).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)

"""Rows at locations: one NumPy buffer for each column, written and read in batches.

A column of fixed width has one array; the texts of a row lie one after the other in an area of
`text_bytes` bytes that belongs to the row's location, so that all rows have the same size and a
budget in bytes is a number of locations. Rows whose texts are longer are not accepted (`fits`).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.freshness._arrays import Ints, Mask, is_text
from thalweg.model.buffers import as_numbers

__all__ = ["RowStore"]

_Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True)
class _Column:
    """`data` holds values, or the lengths of texts."""

    field: pa.Field
    is_text: bool
    data: npt.NDArray[Any]
    valid: Mask


class RowStore:
    """
    >>> schema = pa.schema({"symbol": pa.string(), "price": pa.float64()})
    >>> store = RowStore(schema, locations=4, text_bytes=8)
    >>> rows = pa.record_batch({"symbol": ["IBM", None], "price": [24.5, None]})
    >>> store.write(np.array([3, 0]), rows)
    >>> store.read(np.array([0, 3])).to_pylist()
    [{'symbol': None, 'price': None}, {'symbol': 'IBM', 'price': 24.5}]
    """

    def __init__(self, schema: pa.Schema, locations: int, text_bytes: int = 64) -> None:
        self.schema = schema
        self._columns = [_make_column(field, locations) for field in schema]
        self._text_bytes = text_bytes if any(c.is_text for c in self._columns) else 0
        self._area: _Bytes = np.zeros(locations * self._text_bytes, np.uint8)

    @staticmethod
    def row_bytes(schema: pa.Schema, text_bytes: int = 64) -> int:
        """The bytes of one location."""
        columns = [_make_column(field, 1) for field in schema]
        fixed = sum(column.data.itemsize + 1 for column in columns)
        return fixed + (text_bytes if any(column.is_text for column in columns) else 0)

    def fits(self, rows: pa.RecordBatch, names: Container[str] | None = None) -> Mask | None:
        """Which rows have short enough texts, in all columns or in some; None if all have."""
        total = np.zeros(len(rows), np.int64)
        for number, column in enumerate(self._columns):
            if column.is_text and (names is None or column.field.name in names):
                total += np.diff(_offsets(_as_large(rows.column(number))))
        return None if total.max(initial=0) <= self._text_bytes else total <= self._text_bytes

    def write(self, locations: Ints, rows: pa.RecordBatch) -> None:
        """Write rows of the store's schema to distinct locations."""
        place = locations * self._text_bytes
        for number, column in enumerate(self._columns):
            array = rows.column(number)
            column.valid[locations] = _validity(array)
            if not column.is_text:
                column.data[locations] = _values(array, column.data.dtype)
                continue
            texts = _as_large(array)
            offsets = _offsets(texts)
            lengths = np.diff(offsets)
            column.data[locations] = lengths
            if offsets[-1] > offsets[0]:
                data = as_numbers(texts.buffers()[2], np.uint8)
                self._area[_spread(place, lengths)] = data[offsets[0] : offsets[-1]]
            place = place + lengths

    def integers(self, name: str) -> Ints:
        """A column of int64 or of timestamps at every location, in use or not."""
        column = self._columns[self.schema.names.index(name)]
        assert column.field.type == pa.int64() or pa.types.is_timestamp(column.field.type)
        values: Ints = column.data.view(np.int64)
        return values

    def read(self, locations: Ints) -> pa.RecordBatch:
        place = locations * self._text_bytes
        arrays = []
        for column in self._columns:
            data, valid = column.data[locations], column.valid[locations]
            if column.is_text:
                lengths = data.astype(np.int64)
                texts = self._area[_spread(place, lengths)]
                offsets = np.concatenate([[0], np.cumsum(lengths)])
                arrays.append(_text_array(column.field.type, texts, offsets, valid))
                place = place + lengths
            else:
                arrays.append(_array(column.field.type, data, valid))
        return pa.record_batch(arrays, schema=self.schema)


def _make_column(field: pa.Field, locations: int) -> _Column:
    kind = field.type
    valid = np.zeros(locations, np.bool_)
    if is_text(kind):
        return _Column(field, is_text=True, data=np.zeros(locations, np.int32), valid=valid)
    if pa.types.is_boolean(kind):
        return _Column(field, is_text=False, data=np.zeros(locations, np.bool_), valid=valid)
    try:
        width = kind.bit_width // 8
    except ValueError:
        width = 0
    if width == 0 or pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        raise PlanError(
            f"column {field.name!r}: values of type {kind} cannot be held in an update queue; "
            "select it away or cast it to a number, a time or a text."
        )
    dtype = np.dtype(f"u{width}") if width in (1, 2, 4, 8) else np.dtype(f"V{width}")
    return _Column(field, is_text=False, data=np.zeros(locations, dtype), valid=valid)


def _spread(place: Ints, lengths: Ints) -> Ints:
    """The byte positions of texts of these lengths that begin at these places."""
    begin = np.cumsum(lengths) - lengths
    return np.repeat(place - begin, lengths) + np.arange(int(lengths.sum()))


def _as_large(array: pa.Array) -> pa.Array:
    """A text column with offsets of 64 bits; bytes of nulls are left out."""
    large = array.cast(pa.large_binary())
    return large.fill_null(b"") if large.null_count else large


def _offsets(texts: pa.Array) -> Ints:
    offsets = as_numbers(texts.buffers()[1], np.int64)
    return offsets[texts.offset : texts.offset + len(texts) + 1]


def _validity(array: pa.Array) -> Mask | bool:
    if not array.null_count:
        return True
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _values(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype == np.bool_:
        filled = array.fill_null(False) if array.null_count else array
        values: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
        return values
    data: npt.NDArray[Any] = as_numbers(array.buffers()[1], dtype)
    return data[array.offset : array.offset + len(array)]


def _bitmap(valid: Mask) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _array(kind: pa.DataType, data: npt.NDArray[Any], valid: Mask) -> pa.Array:
    if data.dtype == np.bool_:
        data = np.packbits(data, bitorder="little")
    return pa.Array.from_buffers(kind, len(valid), [_bitmap(valid), pa.py_buffer(data)])


def _text_array(kind: pa.DataType, texts: _Bytes, offsets: Ints, valid: Mask) -> pa.Array:
    large = pa.Array.from_buffers(
        pa.large_binary(),
        len(valid),
        [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(texts)],
    )
    return large.cast(kind)

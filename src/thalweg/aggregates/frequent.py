"""Heavy hitters: the values that make up at least a share of the rows.

Every distinct value is counted. A sketch of fixed size would have to throw values away, and which
ones it threw away would follow from the order in which it saw them: two runs over the same rows
would answer differently. So the answer is exact, and the same for every order; a part grows with
the distinct values of its rows. Values are compared by their text. For a fixed size there is the
module `heavy_hitters`, a sketch over the rows of a window in one fixed order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.aggregates.base import Aggregate, Columns, Values
from thalweg.errors import ExpressionError
from thalweg.model.nested import nested_texts
from thalweg.model.rows import Codes, encode
from thalweg.model.sorting import inverse_order, representatives

__all__ = ["HeavyHitters"]

_COUNTS = pa.list_(pa.struct([("value", pa.string()), ("count", pa.int64())]))


@dataclass(frozen=True, slots=True)
class HeavyHitters(Aggregate):
    """The values that make up at least a share of the rows, as text, with how often."""

    name: ClassVar[str] = "heavy_hitters"
    grows: ClassVar[bool] = True

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ExpressionError(
                f"heavy_hitters: a share lies above 0 and is at most 1; got {self.share}."
            )

    @property
    def parameters(self) -> tuple[object, ...]:
        return (self.share,)

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return _COUNTS

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        """One value, or the counts of several."""
        return [pa.field("value", pa.string()), pa.field("counts", _COUNTS)]

    def of_rows(self, values: Values) -> Columns:
        assert values.of is not None
        there = values.present(values.of)
        texts = _texts(values.of)
        if not there.all():
            texts = texts.take(pa.array(np.arange(len(values)), mask=~there))
        return [texts, pa.nulls(len(values), _COUNTS)]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        cell, text, count = _opened(parts, code)
        place, places = encode([cell, text], len(cell))
        total = np.zeros(places, np.int64)
        np.add.at(total, place, count)
        representative = representatives(place, places)
        text = text.take(pa.array(representative))
        return [
            pa.nulls(size, pa.string()),
            _closed(cell[representative], text, total, _ranks(text), size),
        ]

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        size = len(parts[0])
        cell, text, count = _opened(parts, np.arange(size))
        total = np.zeros(size, np.int64)
        np.add.at(total, cell, count)
        often = count >= self.share * total[cell]
        kept = text.filter(pa.array(often))
        order = np.lexsort((_ranks(kept), -count[often]))
        first = inverse_order(order)
        found = _closed(cell[often], kept, count[often], first, size, some=total > 0)
        return found.cast(kind)


def _texts(values: pa.Array) -> pa.Array:
    """Values as texts; equal values, such as 0.0 and -0.0, have equal ones."""
    if pa.types.is_nested(values.type):
        return nested_texts(values).cast(pa.string())
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)
        values = pc.add(values, pa.scalar(0.0, values.type))
    return values.cast(pa.string())


def _opened(parts: Columns, code: Codes) -> tuple[Codes, pa.Array, Codes]:
    """Cell, value and count of all that is in the parts."""
    single = parts[0].is_valid().to_numpy(zero_copy_only=False)
    listed = parts[1].is_valid().to_numpy(zero_copy_only=False)
    texts = parts[0].filter(pa.array(single))
    ones = np.ones(len(texts), np.int64)
    if not listed.any():
        return code[single], texts, ones
    full = parts[1].filter(pa.array(listed))
    length = pc.list_value_length(full).to_numpy().astype(np.int64)
    entries = full.flatten()
    values, counts = entries.field("value"), entries.field("count").to_numpy()
    return (
        np.concatenate([code[single], np.repeat(code[listed], length)]),
        pa.concat_arrays([texts, values]),
        np.concatenate([ones, counts]),
    )


def _ranks(text: pa.Array) -> Codes:
    """The place of each value in the order of their texts."""
    order = pc.sort_indices(text).to_numpy()
    return inverse_order(order)


def _closed(
    cell: Codes,
    text: pa.Array,
    count: Codes,
    rank: Codes,
    size: int,
    some: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
) -> pa.Array:
    """Counts as one list for each cell in the order of `rank`, null where there are none."""
    order = np.lexsort((rank, cell))
    entries = pa.StructArray.from_arrays(
        [text.take(pa.array(order)), pa.array(count[order])], names=["value", "count"]
    )
    many = np.bincount(cell, minlength=size)
    there = many > 0 if some is None else some
    offsets = np.zeros(size + 1, np.int32)
    np.cumsum(many, out=offsets[1:])
    lists = pa.ListArray.from_arrays(pa.array(offsets), entries, type=_COUNTS)
    if there.all():
        return lists
    return lists.take(pa.array(np.arange(size), mask=~there))

"""A frame: the columns an expression may read, and how many rows there are.

A column is a plain Arrow array. Beside the payload there are usually the control columns `_start`
and `_end`, and in a join both sides under `l.` and `r.`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Frame", "Shape"]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Columns by name, all `length` long.

    >>> frame = Frame.of(pa.RecordBatch.from_pydict({"src": ["a", "b"]}), _start=np.array([5, 9]))
    >>> frame.length, sorted(frame.columns)
    (2, ['_start', 'src'])
    """

    columns: Mapping[str, pa.Array]
    length: int

    @classmethod
    def of(cls, rows: pa.RecordBatch, /, **extra: npt.NDArray[Any] | pa.Array) -> Frame:
        """The columns of some rows, and more beside them; of two columns of one name the extra one
        counts."""
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        length = rows.num_rows if columns or not extra else len(next(iter(extra.values())))
        for name, values in extra.items():
            if len(values) != length:
                raise ValueError(f"column {name!r} has {len(values)} values beside {length} rows.")
            columns[name] = pa.array(values) if isinstance(values, np.ndarray) else values
        return cls(columns, length)

    def take(self, names: Iterable[str], indices: pa.Array) -> Frame:
        """Some columns of some rows."""
        return Frame({name: self.columns[name].take(indices) for name in names}, len(indices))


class Shape(Frame):
    """A frame without rows that stands for a schema. What fails on it is ill-typed, whatever the
    rows will be."""

    __slots__ = ()

    @classmethod
    def of_schema(cls, schema: pa.Schema) -> Shape:
        return cls({field.name: pa.nulls(0, field.type) for field in schema}, 0)

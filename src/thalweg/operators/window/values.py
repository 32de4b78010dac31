"""What windows give: aggregates, from partial results that rows contribute, or from the rows.

Partial results of neighbours are combined for many windows at once, which pays where windows
overlap; where each row is in one window, or an aggregate needs every row, it is computed from rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, take_rows
from thalweg.model.time import Times
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.groups import ranges
from thalweg.operators.hopping.accumulators import Accumulators
from thalweg.operators.hopping.extents import Frames, Occupied

__all__ = ["PartialValues", "RowValues", "Values"]


class Values(ABC):
    """`fields` are the columns that a row needs for it, beside those of its group."""

    fields: list[pa.Field]
    sums: Accumulators | None = None
    one_each: bool = False
    """Whether each window of a group gives one row, whatever the end of its lifetime."""

    @abstractmethod
    def columns(self, delta: Delta) -> list[pa.Array]:
        """Those columns, of some rows."""

    @abstractmethod
    def answer(
        self, keys: list[pa.Array], parts: Rows, start: Times, frames: Frames, found: Occupied
    ) -> Delta:
        """The rows that some windows of some groups give. `keys` are the columns in front."""


class _Aggregates(Values):
    one_each = True

    def __init__(self, arguments: ArgumentProjection, schema: pa.Schema) -> None:
        self._arguments, self._schema = arguments, schema

    def _stamped(self, columns: list[pa.Array], frames: Frames, found: Occupied) -> Delta:
        payload = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return Delta(payload, frames.start[found.frame], frames.end[found.frame], found.lo * 0 + 1)


class RowValues(_Aggregates):
    def __init__(self, arguments: ArgumentProjection, schema: pa.Schema) -> None:
        super().__init__(arguments, schema)
        self.fields = [f for f in arguments.schema if f.name not in arguments.keys]

    def columns(self, delta: Delta) -> list[pa.Array]:
        rows = self._arguments.project(delta.payload, delta.start)
        return [rows.column(field.name) for field in self.fields]

    def answer(
        self, keys: list[pa.Array], parts: Rows, start: Times, frames: Frames, found: Occupied
    ) -> Delta:
        cell, member = ranges(found.lo, found.hi - found.lo)
        results = self._arguments.reduce(
            parts, start, found.rows[member], cell, len(found.lo), self._schema
        )
        return self._stamped([*keys, *results], frames, found)


class PartialValues(_Aggregates):
    def __init__(self, arguments: ArgumentProjection, schema: pa.Schema) -> None:
        super().__init__(arguments, schema)
        self.sums: Accumulators = Accumulators(arguments, schema)
        self.fields = list(self.sums.schema)

    def columns(self, delta: Delta) -> list[pa.Array]:
        rows = self._arguments.project(delta.payload, delta.start)
        return list(self.sums.of_rows(rows, delta.start).columns)

    def answer(
        self, keys: list[pa.Array], parts: Rows, start: Times, frames: Frames, found: Occupied
    ) -> Delta:
        ordered = parts if _is_order_of(found.rows, parts) else take_rows(parts, found.rows)
        results = self.sums.results(self.sums.over_ranges(ordered, found.lo, found.hi))
        return self._stamped([*keys, *results], frames, found)


def _is_order_of(which: Codes, rows: Rows) -> bool:
    """Whether positions are those of all rows, in the order they have."""
    return len(which) == rows.num_rows and bool((which[1:] > which[:-1]).all())

"""The results of windows: aggregates, from the partial results of rows or from the rows.

Partial results of neighbours are combined for many windows at once, which pays where windows
overlap; where each row is in one window, or an aggregate needs every row, it is computed from rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.groups import ranges
from thalweg.operators.window.accumulators import Accumulators
from thalweg.operators.window.extents import Frames, Occupied
from thalweg.operators.window.held_rows import Located

__all__ = ["PartialValues", "RowValues", "Values"]


class Values(ABC):
    """The results of windows. `fields` are the columns of a row that they need, beside those of its
    group."""

    fields: list[pa.Field]
    sums: Accumulators | None = None
    one_row_each: bool = False
    """Whether each window of a group gives one row, whatever the end of its lifetime."""

    @abstractmethod
    def columns(self, delta: Delta) -> list[pa.Array]:
        """The columns `fields` of some rows."""

    @abstractmethod
    def answer(self, keys: list[pa.Array], rows: Located, frames: Frames, found: Occupied) -> Delta:
        """The answers of some windows of some groups; `keys` are the leading columns."""


class _Aggregates(Values):
    one_row_each = True

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
        return list(self._arguments.arguments(delta.payload, delta.start).values())

    def answer(self, keys: list[pa.Array], rows: Located, frames: Frames, found: Occupied) -> Delta:
        cell, member = ranges(found.lo, found.hi - found.lo)
        results = self._arguments.reduce(
            rows.column, rows.start, found.rows[member], cell, len(found.lo), self._schema
        )
        return self._stamped([*keys, *results], frames, found)


class PartialValues(_Aggregates):
    def __init__(self, arguments: ArgumentProjection, schema: pa.Schema) -> None:
        super().__init__(arguments, schema)
        self.sums: Accumulators = Accumulators(arguments, schema)
        self.fields = list(self.sums.schema)

    def columns(self, delta: Delta) -> list[pa.Array]:
        arguments = self._arguments.arguments(delta.payload, delta.start)
        return self.sums.columns(arguments.__getitem__, delta.start)

    def answer(self, keys: list[pa.Array], rows: Located, frames: Frames, found: Occupied) -> Delta:
        results = self.sums.answers(rows.stored, rows.at[found.rows], found.lo, found.hi)
        return self._stamped([*keys, *results], frames, found)

"""Arguments of aggregate calls: evaluated once, when rows arrive, so that state holds only what the
aggregates need.

The columns of the projected rows are the group keys, then for each call the ones it has: what it
aggregates, what orders it, and its filter as a boolean without nulls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.aggregates import Values
from thalweg.expr import Column, Expr
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import Times
from thalweg.operators.frames import frame_of
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.nodes import lifetime_schema

__all__ = ["PRESENT", "ArgumentProjection"]

ColumnNamed = Callable[[str], pa.Array]
"""A column of projected rows by its name."""

PRESENT = pa.field(internal("row"), pa.bool_())
"""The column of rows that need none: Arrow cannot count rows without columns."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    expr: Expr
    type: pa.DataType
    is_filter: bool

    @property
    def is_plain(self) -> bool:
        """Whether it is a column of the payload as it stands."""
        return isinstance(self.expr, Column) and self.expr.name != "_start" and not self.is_filter


@dataclass(frozen=True, slots=True)
class _Names:
    """Where the arguments of a call are, if it has them."""

    of: str | None
    by: str | None
    passes: str | None


class ArgumentProjection:
    """From payload rows to key and argument columns."""

    def __init__(
        self, calls: tuple[tuple[str, AggregateCall], ...], keys: tuple[str, ...], schema: pa.Schema
    ) -> None:
        self.keys = keys
        self.calls = tuple(call for _, call in calls)
        self.seen = lifetime_schema(schema)
        self._columns: list[_Column] = []
        self._names = [
            _Names(
                self._column(f"of{index}", call.of),
                self._column(f"by{index}", call.by),
                self._column(f"if{index}", call.where, is_filter=True),
            )
            for index, call in enumerate(self.calls)
        ]
        fields = [schema.field(name) for name in keys]
        fields += [pa.field(column.name, column.type) for column in self._columns]
        self._bare = not fields
        self._plain = {
            column.name: column.expr.name
            for column in self._columns
            if column.is_plain and isinstance(column.expr, Column)
        }
        self._computed = [column for column in self._columns if not column.is_plain]
        self._used = frozenset(name for column in self._computed for name in column.expr.columns())
        self.schema = pa.schema(fields or [PRESENT])

    def _column(self, name: str, expr: Expr | None, *, is_filter: bool = False) -> str | None:
        if expr is None:
            return None
        column = _Column(internal(name), expr, expr.type_in(self.seen), is_filter)
        self._columns.append(column)
        return column.name

    def changes(self, batch: Batch) -> Delta:
        """The changes of a batch to rows of keys and arguments."""
        delta = Delta.of_batch(batch)
        rows = self.project(delta.payload, delta.start)
        return Delta(rows, delta.start, delta.end, delta.weight)

    def project(self, payload: Rows, start: Times) -> Rows:
        arrays = [payload.column(name) for name in self.keys]
        arrays += self.arguments(payload, start).values()
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def arguments(self, payload: Rows, start: Times) -> dict[str, pa.Array]:
        """The columns of `project` behind the keys."""
        if self._bare:
            return {PRESENT.name: pa.array(np.ones(len(start), np.bool_))}
        arrays = {name: payload.column(source) for name, source in self._plain.items()}
        if not self._computed:
            return arrays
        frame = frame_of(payload, start, self._used)
        for column in self._computed:
            array = column.expr.evaluate(frame)
            if column.is_filter:
                array = array.cast(pa.bool_()).fill_null(False)
            arrays[column.name] = array
        return {column.name: arrays[column.name] for column in self._columns}

    def values(self, index: int, column: ColumnNamed, start: Times) -> Values:
        """What one call aggregates of some projected rows."""
        names = self._names[index]
        passes: Bools | None = None
        if names.passes is not None:
            passes = column(names.passes).to_numpy(zero_copy_only=False)
        return Values(
            start,
            None if names.of is None else column(names.of),
            None if names.by is None else column(names.by),
            passes,
        )

    def reduce(
        self,
        column: ColumnNamed,
        start: Times,
        member: Codes,
        cell: Codes,
        cells: int,
        schema: pa.Schema,
    ) -> list[pa.Array]:
        """The value of every call for each cell; row `member[i]` belongs to `cell[i]`. The results
        are the last columns of `schema`."""
        first = len(schema) - len(self.calls)
        return [
            call.aggregate.of_members(
                self.values(index, column, start),
                member,
                cell,
                cells,
                schema.field(first + index).type,
            )
            for index, call in enumerate(self.calls)
        ]

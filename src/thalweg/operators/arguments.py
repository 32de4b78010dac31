"""Arguments of aggregate calls: evaluated once, when rows arrive, so that state holds only what the
aggregates need.

The columns of the projected rows are the group keys, then for each call i the ones it has of
`_of{i}` (what it aggregates), `_by{i}` (what orders) and `_if{i}` (its filter, as a boolean without
nulls).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.expr import Expr
from thalweg.model.rows import Bools, Rows
from thalweg.model.time import Times
from thalweg.operators.frames import frame_of
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.nodes import lifetime_schema

__all__ = ["ArgumentProjection"]


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    expr: Expr
    type: pa.DataType


class ArgumentProjection:
    """From payload rows to key and argument columns."""

    def __init__(
        self, calls: tuple[tuple[str, AggregateCall], ...], keys: tuple[str, ...], schema: pa.Schema
    ) -> None:
        self.keys = keys
        self.calls = tuple(call for _, call in calls)
        seen = lifetime_schema(schema)
        self._columns: list[_Column] = []
        for index, call in enumerate(self.calls):
            for prefix, expr in (("_of", call.of), ("_by", call.by), ("_if", call.where)):
                if expr is not None:
                    self._columns.append(_Column(f"{prefix}{index}", expr, expr.type_in(seen)))
        fields = [schema.field(name) for name in keys] + [
            pa.field(c.name, c.type) for c in self._columns
        ]
        # A count of rows without keys needs no column at all; Arrow cannot count rows of none.
        self._bare = not fields
        self.schema = pa.schema(fields or [pa.field("_row", pa.bool_())])

    def project(self, payload: Rows, start: Times) -> Rows:
        if self._bare:
            return pa.RecordBatch.from_arrays(
                [pa.array(np.ones(len(start), np.bool_))], schema=self.schema
            )
        arrays = [payload.column(name) for name in self.keys]
        if self._columns:
            frame = frame_of(payload, start)
            for column in self._columns:
                array = column.expr.evaluate(frame)
                if column.name.startswith("_if"):
                    array = array.cast(pa.bool_()).fill_null(False)
                arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def passes(self, index: int, rows: Rows) -> Bools | None:
        """Which rows the filter of a call lets through; None: all."""
        if self.calls[index].where is None:
            return None
        mask: Bools = rows.column(f"_if{index}").to_numpy(zero_copy_only=False)
        return mask

"""Partial results of several calls in one table: of rows, of panes, of bins. The same columns for
all of them.

    of_rows      what each row contributes
    merge        partial results of equal code become one
    over_ranges  partial results of neighbouring rows become one, for many ranges at once
    results      the aggregates
    answers      the aggregates of ranges, without a table of their partial results

One column counts rows; the others are those of each call's aggregate (see `aggregates.base`). Where
all aggregates add up, their columns are whole numbers, which `Partials` computes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from thalweg.aggregates import Aggregate, Columns
from thalweg.aggregates.sums import add_by, add_ranges, sum_ranges
from thalweg.model.rows import Codes, Rows, take_rows, whole_column
from thalweg.model.time import Times
from thalweg.operators.arguments import ArgumentProjection, ColumnNamed
from thalweg.operators.window.partials import Partials
from thalweg.plan.aggregates import ROWS, partial_schema

__all__ = ["Accumulators"]


class Accumulators:
    """Partial results of some calls, as Arrow columns."""

    def __init__(self, arguments: ArgumentProjection, schema: pa.Schema) -> None:
        self._arguments = arguments
        self._result_types = [field.type for field in list(schema)[-len(arguments.calls) :]]
        self.schema = partial_schema(arguments.calls, arguments.seen)
        self._columns = [
            [field.name for field in call.partials_in(index, arguments.seen)]
            for index, call in enumerate(arguments.calls)
        ]
        adds_up = all(call.adds_up(arguments.seen) for call in arguments.calls)
        self._matrix = Partials(arguments, schema) if adds_up else None

    def of_rows(self, rows: Rows, start: Times) -> Rows:
        """The partial results of single rows."""
        return self._table(self.columns(rows.column, start))

    def columns(self, column: ColumnNamed, start: Times) -> Columns:
        """The partial results of single rows, in the columns of `schema`."""
        if self._matrix is not None:
            ones = np.ones(len(start), np.int64)
            rows = whole_column(ones)
            numbers = self._matrix.of_rows(column, start, ones)
            return [rows if part is ones else whole_column(part) for part in numbers]
        return self._columns_by(
            whole_column(np.ones(len(start), np.int64)),
            lambda index, aggregate, _: aggregate.of_rows(
                self._arguments.values(index, column, start)
            ),
        )

    def merge(self, parts: Rows, code: Codes, size: int) -> Rows:
        """Merge parts of equal code; the result is in the order of the codes 0 .. size - 1."""
        columns = self._columns_by(
            add_by(parts.column(ROWS.name), code, size),
            lambda _, aggregate, names: aggregate.merge(
                [parts.column(name) for name in names], code, size
            ),
        )
        return self._table(columns)

    def over_ranges(self, parts: Rows, lo: Codes, hi: Codes) -> Rows:
        """Merge the parts of each range [lo, hi)."""
        if self._matrix is not None:
            every = [parts.column(name) for name in self.schema.names]
            return self._table(add_ranges(every, lo, hi))
        (rows,) = add_ranges([parts.column(ROWS.name)], lo, hi)
        columns = self._columns_by(
            rows,
            lambda _, aggregate, names: aggregate.over_ranges(
                [parts.column(name) for name in names], lo, hi
            ),
        )
        return self._table(columns)

    def _table(self, columns: Columns) -> Rows:
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _columns_by(
        self, rows: pa.Array, columns_of: Callable[[int, Aggregate, list[str]], Columns]
    ) -> Columns:
        columns = {ROWS.name: rows}
        for index, (call, names) in enumerate(
            zip(self._arguments.calls, self._columns, strict=True)
        ):
            if names != [ROWS.name]:
                made = columns_of(index, call.aggregate, names)
                call.aggregate.require_length(len(rows), *made)
                columns |= zip(names, made, strict=True)
        return [columns[name] for name in self.schema.names]

    def answers(self, parts: Rows, which: Codes, lo: Codes, hi: Codes) -> list[pa.Array]:
        """The aggregates of each range [lo, hi) of the parts at the positions `which`."""
        names = self.schema.names
        if self._matrix is None:
            return self.results(self.over_ranges(take_rows(parts.select(names), which), lo, hi))
        columns = [parts.column(name).to_numpy().take(which) for name in names]
        return self._matrix.results(sum_ranges(columns, lo, hi))

    def results(self, parts: Rows) -> list[pa.Array]:
        """The aggregates, one value for each part."""
        found = [
            call.aggregate.result([parts.column(name) for name in names], kind)
            for call, names, kind in zip(
                self._arguments.calls, self._columns, self._result_types, strict=True
            )
        ]
        for call, column in zip(self._arguments.calls, found, strict=True):
            call.aggregate.require_length(parts.num_rows, column)
        return found

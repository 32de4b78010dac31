"""Partial results of several calls in one table: of rows, of panes, of bins. The same columns for
all of them.

    of_rows      what each row contributes
    merge        partial results of equal code become one
    over_ranges  partial results of neighbouring rows become one, for many ranges at once
    results      the aggregates

One column counts rows; the others are those of each call's aggregate (see `aggregates.base`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from thalweg.aggregates import Aggregate, Columns
from thalweg.aggregates.sums import add_by, add_ranges
from thalweg.model.rows import Codes, Rows, whole_column
from thalweg.model.time import Times
from thalweg.operators.arguments import ArgumentProjection
from thalweg.plan.aggregates import ROWS, partial_schema

__all__ = ["Accumulators"]


class Accumulators:
    """The partial columns of some calls."""

    def __init__(self, arguments: ArgumentProjection, schema: pa.Schema) -> None:
        self._arguments = arguments
        self._result_types = [field.type for field in list(schema)[-len(arguments.calls) :]]
        self.schema = partial_schema(arguments.calls, arguments.seen)
        self._columns = [
            [field.name for field in call.partials_in(index, arguments.seen)]
            for index, call in enumerate(arguments.calls)
        ]

    def of_rows(self, rows: Rows, start: Times) -> Rows:
        """What each row contributes."""
        ones = whole_column(np.ones(rows.num_rows, np.int64))
        return self._table(
            ones,
            lambda index, aggregate, _: aggregate.of_rows(
                self._arguments.values(index, rows, start)
            ),
        )

    def merge(self, parts: Rows, code: Codes, size: int) -> Rows:
        """Parts of equal code become one; the result is in the order of the codes 0 .. size - 1."""
        return self._table(
            add_by(parts.column(ROWS.name), code, size),
            lambda _, aggregate, names: aggregate.merge(
                [parts.column(name) for name in names], code, size
            ),
        )

    def over_ranges(self, parts: Rows, lo: Codes, hi: Codes) -> Rows:
        """The parts of each range [lo, hi) as one."""
        return self._table(
            add_ranges(parts.column(ROWS.name), lo, hi),
            lambda _, aggregate, names: aggregate.over_ranges(
                [parts.column(name) for name in names], lo, hi
            ),
        )

    def _table(
        self, rows: pa.Array, columns_of: Callable[[int, Aggregate, list[str]], Columns]
    ) -> Rows:
        columns = {ROWS.name: rows}
        for index, (call, names) in enumerate(
            zip(self._arguments.calls, self._columns, strict=True)
        ):
            if names != [ROWS.name]:
                columns |= zip(names, columns_of(index, call.aggregate, names), strict=True)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self.schema.names], schema=self.schema
        )

    def results(self, parts: Rows) -> list[pa.Array]:
        """The aggregates, one value for each part."""
        return [
            call.aggregate.result([parts.column(name) for name in names], kind)
            for call, names, kind in zip(
                self._arguments.calls, self._columns, self._result_types, strict=True
            )
        ]

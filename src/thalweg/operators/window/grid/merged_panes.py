"""Shared panes of aggregates that do not add up: largest, smallest, first, last.

`MergedPanesKernel` merges the rows of one batch that have the same keys and the same pane into one
row with their partial result. `CombineMergedPanesKernel` is the window of panes (see `buckets`)
whose rows are partial results already. Both need points that are never retracted, since partial
results replace rows at once.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, encode, take_column
from thalweg.model.sorting import representatives
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.accumulators import Accumulators
from thalweg.operators.window.grid.buckets import BucketAggregateKernel
from thalweg.operators.window.grid.panes import PanesKernel, columns_in_panes
from thalweg.operators.window.items import Items
from thalweg.plan.nodes import CombinePanes, Panes

__all__ = ["CombineMergedPanesKernel", "MergedPanesKernel"]


class MergedPanesKernel(PanesKernel):
    """Partial results of the rows of one batch, by keys and pane."""

    def __init__(self, node: Panes) -> None:
        super().__init__(node)
        self._sums = Accumulators(self._arguments, node.schema)

    def _alike(self, delta: Delta) -> tuple[Rows, Codes, Codes]:
        rows = self._arguments.project(delta.payload, delta.start)
        keys = [rows.column(name) for name in self._keys]
        first, beyond = self._grid.first(delta.start), self._grid.beyond(delta.end)
        cell, count = encode([*keys, first], len(first))
        representative = representatives(cell, count)
        merged = self._sums.merge(self._sums.of_rows(rows, delta.start), cell, count)
        named = [take_column(key, representative) for key in keys]
        columns = [*named, pa.array(first[representative]), *merged.columns]
        return (
            pa.RecordBatch.from_arrays(columns, schema=self._cells),
            first[representative],
            beyond[representative],
        )


class CombineMergedPanesKernel(BucketAggregateKernel):
    """Windows over partial results of panes."""

    def __init__(self, node: CombinePanes, consistency: Consistency) -> None:
        super().__init__(node, consistency, by_pane=True)
        self._columns = columns_in_panes(node, self._sums.schema.names)
        fields = [node.schema.field(name) for name in node.keys]
        self._projected = pa.schema([*fields, *self._sums.schema])

    def _project(self, delta: Delta) -> Rows:
        columns = [delta.payload.column(name) for name in (*self._keys, *self._columns)]
        return pa.RecordBatch.from_arrays(columns, schema=self._projected)

    def _as_rows(self, rows: Rows) -> Rows:
        return rows.select(self._sums.schema.names)

    def _as_parts(self, items: Items) -> Items:
        return items

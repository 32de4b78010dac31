"""Panes: the two steps of a hopping aggregate whose partial sums travel (see `plan.nodes.panes`).

`PanesKernel` keeps nothing: each batch becomes the sums of its rows by keys and windows. A start
moves back to the grid of the hops, so the promise does too; windows end on that grid, so none
closes later for it. `CombinePanesKernel` is the hopping aggregate whose rows are sums already.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Operator, least_promise, map_progress
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.grid.cells import Cells, Numbers, sum_alike
from thalweg.operators.window.grid.grid import Grid
from thalweg.operators.window.grid.sums import HoppingAggregateKernel
from thalweg.operators.window.partials import Partials
from thalweg.plan.nodes import CombinePanes, Panes, lifetime_schema

__all__ = ["CombinePanesKernel", "PanesKernel", "columns_in_panes"]


class PanesKernel(Operator):
    """
    >>> import pyarrow as pa
    >>> from thalweg import count, point
    >>> from thalweg.model.element_batches import batches_of
    >>> from thalweg.plan.nodes import Source
    >>> from thalweg.windows import HoppingWindow
    >>> schema = pa.schema([("k", pa.int64())])
    >>> node = Panes(Source("s", schema), HoppingWindow(10, 5), (("n", count()),), ("k",))
    >>> panes = PanesKernel(node)
    >>> (batch,) = batches_of([point({"k": 1}, time) for time in (2, 3, 7)], schema)
    >>> out = panes.process(0, batch)
    >>> values = [list(row.values()) for row in out.payload.to_pylist()]
    >>> list(zip(out.start.tolist(), out.end.tolist(), values))
    [(0, 5, [1, 2]), (5, 10, [1, 1])]
    """

    def __init__(self, node: Panes) -> None:
        self.schema = node.schema
        self._keys = node.keys
        self._grid = Grid(node.window)
        self._panes = node.window.size // node.window.hop
        self._arguments = ArgumentProjection(node.aggregates, node.keys, node.input.schema)
        self._partials = Partials(self._arguments, node.schema)
        fields = [node.schema.field(name) for name in node.keys]
        self._cells = pa.schema(
            [
                *fields,
                pa.field(internal("first"), pa.int64()),
                *(node.schema.field(n) for n in self._partials.names),
            ]
        )

    def process(self, port: int, batch: Batch) -> Batch:
        progress = map_progress(batch.progress, self._grid.last_end_by)
        if progress.column_promises or not set(progress.scope_columns) <= set(self._keys):
            progress = progress.without_scopes()
        if not len(batch):
            return Batch.empty(self.schema, progress)
        cells, first, beyond = self._alike(Delta.of_batch(batch))
        start, end = self._grid.end(first - 1), self._grid.ending_at(beyond)
        return Batch(self._payload(cells), start, end, progress=progress)

    def _alike(self, delta: Delta) -> tuple[Rows, Codes, Codes]:
        """Cells of rows with equal keys and windows, and the windows of each cell."""
        arguments = self._arguments.arguments(delta.payload, delta.start)
        keys = [delta.payload.column(name) for name in self._keys]
        first, beyond = self._windows(delta)
        partials = self._partials.of_rows(arguments.__getitem__, delta.start, delta.weight)
        cells, first, beyond = _sum_alike(keys, first, beyond, partials, self._cells)
        return cells, first, first + self._panes if beyond is None else beyond

    def _windows(self, delta: Delta) -> tuple[Codes, Codes | None]:
        """The first window of each row, and the first window after its last one; None if all rows
        are points, which lie in as many windows as a window has hops.

        ceil((s + 1 - offset) / hop) = floor((s - offset) / hop) + 1 = first(s) + size / hop, where
        the hop divides the size.
        """
        first = self._grid.first(delta.start)
        points = bool((delta.end - delta.start == 1).all())
        return first, None if points else self._grid.beyond(delta.end)

    def needs(self, time: int) -> tuple[int, ...]:
        return (least_promise(self._grid.last_end_by, time),)

    def _payload(self, cells: Rows) -> Rows:
        columns = [cells.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class CombinePanesKernel(HoppingAggregateKernel):
    """The hopping aggregate over partial sums."""

    def __init__(self, node: CombinePanes, consistency: Consistency) -> None:
        super().__init__(node, consistency)
        self._columns = columns_in_panes(node, self._partials.names)

    def _contributions(self, delta: Delta) -> tuple[list[pa.Array], list[Numbers]]:
        keys = [delta.payload.column(name) for name in self._keys]
        sums: list[Numbers] = [delta.payload.column(name).to_numpy() for name in self._columns]
        return keys, (
            sums if (delta.weight == 1).all() else [column * delta.weight for column in sums]
        )

    def _are_held(self, sums: Numbers) -> Bools:
        """Sums come in any order: what takes rows back may come before what brings them, and waits
        for it. Such a total counts no rows, or fewer than none."""
        held: Bools = np.logical_or.reduce(sums != 0, axis=0)
        return held

    def _answered(self, totals: Cells) -> Cells:
        return totals.where(totals.sums[0] > 0)


def columns_in_panes(node: CombinePanes, names: list[str]) -> list[str]:
    """The columns of the panes' partial results that a window's calls read."""
    which = range(len(node.aggregates)) if node.calls is None else node.calls
    seen = lifetime_schema(node.rows)
    renamed = {
        own.name: of_pane.name
        for place, (_, call) in enumerate(node.aggregates)
        for own, of_pane in zip(
            call.partials_in(place, seen), call.partials_in(which[place], seen), strict=True
        )
    }
    return [renamed.get(name, name) for name in names]


def _sum_alike(
    keys: list[pa.Array],
    first: Codes,
    beyond: Codes | None,
    partials: list[Numbers],
    schema: pa.Schema,
) -> tuple[Rows, Codes, Codes | None]:
    """Cells (keys, `_k`, partial sums) of rows with equal keys and windows, and the windows of each
    cell. Without `beyond`, rows with the same first window have the same windows."""
    ends: list[Codes] = []
    if beyond is not None:
        length = beyond - first
        ends = [] if (length == length[:1]).all() else [beyond]
    representative, totals = sum_alike([*keys, first, *ends], len(first), partials)
    at = pa.array(representative)
    first, beyond = first[representative], None if beyond is None else beyond[representative]
    columns = [*(key.take(at) for key in keys), pa.array(first), *map(pa.array, totals)]
    return pa.RecordBatch.from_arrays(columns, schema=schema), first, beyond

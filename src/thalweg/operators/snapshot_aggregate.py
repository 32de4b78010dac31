"""Aggregates over snapshot windows: per group and snapshot (a, b, keys + aggregates of the rows
alive on [a, b)).

Counts and sums of integers come from running sums over the endpoints; other aggregates look at each
window's rows. Nulls, late, duplicate and empty input, and state: see `snapshots`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.consistency import Consistency
from thalweg.operators.reduce import reduce_cells
from thalweg.operators.snapshots import SnapshotKernel, Snapshots, make_gate
from thalweg.plan.nodes import WindowAggregate

__all__ = ["SnapshotAggregateKernel"]


class SnapshotAggregateKernel(SnapshotKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).snapshot().aggregate(n=tw.count(), v=tw.sum_("v"))
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 1, 5), tw.insert({"v": 2}, 1, 3)]})
    [(1, 3, {'n': 2, 'v': 3}), (3, 5, {'n': 1, 'v': 1})]
    """

    def __init__(self, node: WindowAggregate, consistency: Consistency) -> None:
        self._arguments = ArgumentProjection(node.aggregates, node.keys, node.input.schema)
        super().__init__(
            node.schema, self._arguments.schema, node.keys, make_gate(node.schema, consistency)
        )

    def project(self, batch: Batch) -> Delta:
        delta = Delta.of_batch(batch)
        return Delta(
            self._arguments.project(delta.payload, delta.start),
            delta.start,
            delta.end,
            delta.weight,
        )

    def answer(self, rows: Delta, snapshots: Snapshots, alive: Codes) -> Delta:
        cells = len(snapshots.start)
        columns = []
        someone = np.zeros(int(snapshots.group.max()) + 1, np.int64)
        someone[snapshots.group[snapshots.first]] = np.arange(len(rows))
        keys = rows.payload.take(pa.array(someone[snapshots.group[alive]]))
        columns = [keys.column(name) for name in self._keys]
        members: tuple[Codes, Codes] | None = None
        for index, call in enumerate(self._arguments.calls):
            kind = self.schema.field(len(self._keys) + index).type
            quick = self._running(index, rows, snapshots)
            if quick is None:
                members = members or snapshots.members()
                quick = reduce_cells(
                    self._arguments, index, rows.payload, rows.start, *members, cells, kind
                )
            elif call.function == "avg":
                kind = pa.float64()
            columns.append(quick.take(pa.array(alive)))
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Delta(
            payload, snapshots.start[alive], snapshots.end[alive], np.ones(len(alive), np.int64)
        )

    def _running(self, index: int, rows: Delta, snapshots: Snapshots) -> pa.Array | None:
        """Counts and integer sums by running sums; None where that does not work."""
        call = self._arguments.calls[index]
        counted = np.ones(len(rows), np.int64)
        passes = self._arguments.passes(index, rows.payload)
        if passes is not None:
            counted = passes.astype(np.int64)
        if call.function not in ("count", "sum", "avg"):
            return None
        if call.of is None:
            return pa.array(_run(counted, snapshots))
        values = rows.payload.column(f"_of{index}")
        if call.function != "count" and not (
            pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)
        ):
            return None
        if values.null_count:
            counted = counted * values.is_valid().to_numpy(zero_copy_only=False)
        counts = _run(counted, snapshots)
        if call.function == "count":
            return pa.array(counts)
        numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) * (
            counted > 0
        )
        sums = _run(numbers, snapshots)
        if call.function == "sum":
            return pa.array(sums, mask=counts == 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(sums / counts, mask=counts == 0)


def _run(values: Codes, snapshots: Snapshots) -> Codes:
    """Per window the sum over the rows alive in it: what starts minus what has ended (wrap-around
    cancels out)."""
    change = np.zeros(len(snapshots.start) + 1, np.int64)
    np.add.at(change, snapshots.first, values)
    np.subtract.at(change, snapshots.first + snapshots.length, values)
    return np.cumsum(change[:-1])

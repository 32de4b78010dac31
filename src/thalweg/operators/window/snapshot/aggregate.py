"""Aggregates over snapshot windows: per group and snapshot (a, b, keys + aggregates of the rows
alive on [a, b)).

Aggregates that add up are running sums over the endpoints; other aggregates look at each window's
rows. Nulls, late, duplicate and empty input, and state: see `kernel`.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, take_column
from thalweg.model.time import greatest, least
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.snapshot.kernel import SnapshotKernel
from thalweg.operators.window.snapshot.snapshots import Snapshots
from thalweg.plan.nodes import WindowAggregate
from thalweg.state import Hits

__all__ = ["SnapshotAggregateKernel"]


class SnapshotAggregateKernel(SnapshotKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).snapshot().aggregate(n=tw.count(), v=tw.sum_("v"))
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 1, 5), tw.insert({"v": 2}, 1, 3)]})
    [(1, 3, {'n': 2, 'v': 3}), (3, 5, {'n': 1, 'v': 1})]
    """

    what = "SnapshotAggregate"

    def __init__(self, node: WindowAggregate, consistency: Consistency) -> None:
        self._arguments = ArgumentProjection(node.aggregates, node.keys, node.input.schema)
        self._adds_up = [call.adds_up(self._arguments.seen) for call in self._arguments.calls]
        super().__init__(node.schema, self._arguments.schema, node.keys, consistency)

    def project(self, batch: Batch) -> Delta:
        return self._arguments.changes(batch)

    def answer(self, rows: Hits, snapshots: Snapshots, alive: Codes) -> tuple[Rows, Codes]:
        which = snapshots.representatives(alive)
        columns = [rows.column(name, which) for name in self._keys]
        start = rows.start
        counts = snapshots.alive[alive]
        members: tuple[Codes, Codes] | None = None
        first = len(self._keys)
        for index, call in enumerate(self._arguments.calls):
            kind = self.schema.field(first + index).type
            values = self._arguments.values(index, rows.column, start)
            if self._adds_up[index]:
                parts = call.aggregate.numbers_of_rows(values)
                sums = [_sums(part, snapshots, alive, counts) for part in parts]
                columns.append(call.aggregate.result_of_numbers(sums, kind))
                continue
            members = members or snapshots.members(alive)
            found = call.aggregate.of_members(values, *members, len(snapshots.start), kind)
            columns.append(take_column(found, alive))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), alive


def _sums(values: Codes, snapshots: Snapshots, windows: Codes, counts: Codes) -> Codes:
    """The sums over the rows alive in each of some windows, which are `counts` rows."""
    first, last = values[0], values[-1]
    if first == last and least(values) == first and greatest(values) == first:
        # Often: counts of values that are never null, upper halves of small numbers.
        return counts if first == 1 else counts * int(first)
    return snapshots.sums(values, windows)

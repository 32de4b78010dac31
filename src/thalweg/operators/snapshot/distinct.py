"""Distinct: at every instant each payload once: R' = the snapshots of the rows of equal payload.

Lifetimes are cut at every endpoint of the payload's rows. State: see `snapshots`; the group of a
row is its payload.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, take_rows
from thalweg.operators.consistency import Consistency, Gate
from thalweg.operators.snapshot.snapshots import SnapshotKernel, Snapshots
from thalweg.plan.nodes import Distinct

__all__ = ["DistinctKernel"]


class DistinctKernel(SnapshotKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "string"}).distinct()
    >>> tw.table(query, {"s": [tw.insert({"v": "a"}, 1, 5), tw.insert({"v": "a"}, 3, 8)]})
    [(1, 3, {'v': 'a'}), (3, 5, {'v': 'a'}), (5, 8, {'v': 'a'})]
    """

    def __init__(self, node: Distinct) -> None:
        gate = Gate(node.schema, Consistency("eager"), settled="past end")
        super().__init__(node.schema, node.schema, tuple(node.schema.names), gate)

    def project(self, batch: Batch) -> Delta:
        return Delta.of_batch(batch)

    def answer(self, rows: Delta, snapshots: Snapshots, alive: Codes) -> tuple[Rows, Codes]:
        taken = take_rows(rows.payload, snapshots.representatives(alive))
        return pa.RecordBatch.from_arrays(taken.columns, schema=self.schema), alive

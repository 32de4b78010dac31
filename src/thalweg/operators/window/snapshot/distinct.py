"""Distinct: at every instant each payload once: R' = the snapshots of the rows of equal payload.

Lifetimes are cut at every endpoint of the payload's rows. State: see `kernel`; the group of a
row is its payload.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.snapshot.kernel import SnapshotKernel
from thalweg.operators.window.snapshot.snapshots import Snapshots
from thalweg.plan.nodes import Distinct
from thalweg.state import Hits

__all__ = ["DistinctKernel"]


class DistinctKernel(SnapshotKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "string"}).distinct()
    >>> tw.table(query, {"s": [tw.insert({"v": "a"}, 1, 5), tw.insert({"v": "a"}, 3, 8)]})
    [(1, 3, {'v': 'a'}), (3, 5, {'v': 'a'}), (5, 8, {'v': 'a'})]
    """

    what = "Distinct"

    def __init__(self, node: Distinct) -> None:
        names = tuple(node.schema.names)
        super().__init__(node.schema, node.schema, names, Consistency("eager"))

    def project(self, batch: Batch) -> Delta:
        return Delta.of_batch(batch)

    def answer(self, rows: Hits, snapshots: Snapshots, alive: Codes) -> tuple[Rows, Codes]:
        which = snapshots.representatives(alive)
        columns = [rows.column(name, which) for name in self._keys]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), alive

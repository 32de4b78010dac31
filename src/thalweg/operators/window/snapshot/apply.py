"""Modules over snapshot windows whose rows are all there is to know: per group and snapshot what
the module makes of the rows alive on it, in canonical order.

Nulls, late, duplicate and empty input, and state: see `kernel`; which modules: see
`modules.at_once`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.modules.at_once import compute_at_once
from thalweg.operators.window.modules.module_windows import ModuleWindows
from thalweg.operators.window.modules.window_frames import Spans
from thalweg.operators.window.snapshot.kernel import SnapshotKernel
from thalweg.operators.window.snapshot.snapshots import Snapshots
from thalweg.plan.nodes import WindowApply
from thalweg.state import Hits

__all__ = ["SnapshotApplyKernel"]


class SnapshotApplyKernel(SnapshotKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}).snapshot().apply("average", "v")
    >>> tw.table(query, {"s": [tw.insert({"v": 1.0}, 1, 5), tw.insert({"v": 2.0}, 1, 3)]})
    [(1, 3, {'average': 1.5}), (3, 5, {'average': 1.0})]
    """

    what = "SnapshotApply"

    def __init__(self, node: WindowApply, consistency: Consistency) -> None:
        self._module = ModuleWindows(node)
        super().__init__(node.schema, self._module.held, node.keys, consistency)

    def project(self, batch: Batch) -> Delta:
        return self._module.project(batch)

    def answer(self, rows: Hits, snapshots: Snapshots, alive: Codes) -> tuple[Rows, Codes]:
        module = self._module
        member, window = snapshots.members(alive)
        spans = Spans(snapshots.group[alive], snapshots.start[alive], snapshots.end[alive])
        inputs = pa.RecordBatch.from_arrays(
            [rows.column(field.name) for field in module.argument_fields], schema=module.inputs
        )
        cells = module.cells_of(
            inputs, rows.start, rows.end, member, np.searchsorted(alive, window), spans
        )
        which = snapshots.representatives(alive)
        keys = [rows.column(name, which) for name in self._keys]
        answers, cell = compute_at_once(module, keys, cells)
        return answers.payload, alive[cell]

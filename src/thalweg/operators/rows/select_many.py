"""Select many: each row becomes several with the same lifetime.

`repeat(p, s)` copies of (s, e, f(p, s)) (null and negative counts give none), or one row per item
of a list column (null and empty lists give none). An adjust becomes as many adjusts as its insert
became inserts. No state.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows
from thalweg.operators.base import Operator
from thalweg.operators.frames import Projection, frame_of
from thalweg.plan.nodes import SelectMany

__all__ = ["SelectManyKernel"]


class SelectManyKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"n": "int64"}).select_many(repeat="n", half="n / 2")
    >>> tw.table(query, {"s": [tw.insert({"n": 2}, 0, 9), tw.insert({"n": 0}, 1, 9)]})
    [(0, 9, {'half': 1.0}), (0, 9, {'half': 1.0})]
    """

    row_by_row = True

    def __init__(self, node: SelectMany) -> None:
        self.schema = node.schema
        self._node = node
        self._columns = Projection(node.columns, node.schema)

    def moves(self, progress: Progress) -> Progress:
        return progress.without_scopes()

    def process(self, port: int, batch: Batch) -> Batch:
        progress = self.moves(batch.progress)
        if not len(batch):
            return Batch.empty(self.schema, progress)
        which, payload = (
            self._repeated(batch) if self._node.repeat is not None else self._unnested(batch)
        )
        if not len(which):
            return Batch.empty(self.schema, progress)
        many = batch.take(which)
        rows = many.payload if payload is None else payload
        frame = frame_of(rows, many.start, self._columns.used)
        return many.with_payload(self._columns.of(frame)).with_progress(progress)

    def _repeated(self, batch: Batch) -> tuple[Codes, None]:
        assert self._node.repeat is not None
        counts = (
            self._node.repeat.evaluate(frame_of(batch.payload, batch.start))
            .cast(pa.int64())
            .fill_null(0)
        )
        return np.repeat(
            np.arange(len(batch)), np.maximum(counts.to_numpy(zero_copy_only=False), 0)
        ), None

    def _unnested(self, batch: Batch) -> tuple[Codes, Rows]:
        unnest = self._node.unnest
        assert unnest is not None
        lists = batch.payload.column(unnest)
        which = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
        taken = batch.payload.take(pa.array(which))
        at = taken.schema.names.index(unnest)
        columns = list(taken.columns)
        columns[at] = pc.list_flatten(lists)
        return which, pa.RecordBatch.from_arrays(columns, names=taken.schema.names)

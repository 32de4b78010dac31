"""The answers of a query that was added later, without windows that may have missed rows.

R' = {(s, e, p) in R | s >= since}. The kernel follows an operator whose answers are about all rows
of a stretch of time: answers that begin before `since` may have missed rows from before the query
(see `graph.whole`). State: `since`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Operator, Slices

__all__ = ["WholeWindowsKernel"]


class WholeWindowsKernel(Operator):
    def __init__(self, schema: pa.Schema, since: int = MIN_TIME) -> None:
        self.schema = schema
        self.since = since

    def process(self, port: int, batch: Batch) -> Batch:
        if not len(batch):
            return batch
        whole = batch.start >= self.since
        return batch if whole.all() else batch.filter(whole)

    def snapshot(self) -> Slices:
        return {"since": pa.RecordBatch.from_arrays([pa.array([self.since])], names=["since"])}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        if slices:
            self.since = slices["since"].column(0)[0].as_py()

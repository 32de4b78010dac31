"""Union: R' = R1 + R2 as bags. No order is needed and no input is waited for; the CTI is the
smaller of the two. No rows are kept."""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Rows
from thalweg.operators.base import Operator, Slices, progress_of_slice, slice_of_progress
from thalweg.operators.group_promises import drop_ended
from thalweg.plan.nodes import Union

__all__ = ["UnionKernel"]


class UnionKernel(Operator):
    """
    >>> import thalweg as tw
    >>> a, b = tw.source("a", {"v": "int64"}), tw.source("b", {"v": "int64"})
    >>> tw.table(a.union(b), {"a": [tw.insert({"v": 1}, 0, 9)], "b": [tw.insert({"v": 1}, 0, 9)]})
    [(0, 9, {'v': 1}), (0, 9, {'v': 1})]
    """

    ports = 2
    keeps_only_progress = True

    def __init__(self, node: Union) -> None:
        self.schema = node.schema
        self._progress: list[Progress] = [NO_PROGRESS, NO_PROGRESS]

    def process(self, port: int, batch: Batch) -> Batch:
        drop_ended(self._progress, batch.progress)
        self._progress[port] = self._progress[port].merge(batch.progress)
        return batch.with_progress(self._progress[0].meet(self._progress[1]))

    def snapshot(self) -> Slices:
        return {"progress": slice_of_progress(self._progress)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._progress = progress_of_slice(slices["progress"])

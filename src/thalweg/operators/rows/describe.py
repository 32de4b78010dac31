"""Describe: R' = R; promises are rolled down to what the operators above can use, and pass when
they say something new.

Nulls, late, duplicate and empty input: rows pass as they are. State: the promise that was passed on
last.
"""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.rows import Rows
from thalweg.operators.base import (
    Operator,
    Slices,
    least_promise,
    map_progress,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.plan.nodes import Describe
from thalweg.progress.grids import roll_down

__all__ = ["DescribeKernel"]


class DescribeKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).describe(every=10)
    >>> ctis, row = [tw.cti(7), tw.cti(13), tw.cti(17)], tw.point({"v": 1}, 17)
    >>> tw.changes(query, {"s": [*ctis, row, tw.cti(20)]})
    [Cti(time=0, scope=None), Cti(time=10, scope=None), Insert(payload={'v': 1}, start=17, end=18),
    Cti(time=20, scope=None)]
    """

    def __init__(self, node: Describe) -> None:
        self.schema = node.schema
        self._grid = None if node.period is None else (node.period, node.offset)
        self._groups = None if node.groups is None else set(node.groups)
        self._passed = NO_PROGRESS

    def process(self, port: int, batch: Batch) -> Batch:
        progress = batch.progress
        if (
            progress.speaks_of_groups
            and self._groups is not None
            and not set(progress.scope_columns) <= self._groups
        ):
            progress = progress.without_scopes()
        self._passed = self._passed.advance(map_progress(progress, self._rolled))
        return batch.with_progress(self._passed)

    def _rolled(self, time: int) -> int:
        return roll_down(time, self._grid)

    def needs(self, time: int) -> tuple[int, ...]:
        return (least_promise(self._rolled, time),)

    def snapshot(self) -> Slices:
        return {"progress": slice_of_progress([self._passed])}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        (self._passed,) = progress_of_slice(slices["progress"])

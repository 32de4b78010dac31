"""Final gate: holds every row until nothing can change it, for queries that ask for final answers
only.

Windows hold their own answers back until they are settled. This gate stands at the end
of a query whose last operators revise by nature (an anti join, a clip, a source with adjusts): R' =
R, but only rows the CTI has passed.

State: the rows that are not settled. Its promise waits for the earliest of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.rows import Rows
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Operator, Slices, StateSize, progress_of_slice, slice_of_progress
from thalweg.operators.consistency import Consistency, Gate

__all__ = ["FinalGateKernel"]


class FinalGateKernel(Operator):
    """
    >>> import thalweg as tw
    >>> events = tw.source("s", {"v": "int64"})
    >>> elements = [tw.insert({"v": 1}, 0, 5), tw.cti(2), tw.adjust({"v": 1}, 0, 5, 9), tw.cti(20)]
    >>> [type(e).__name__ for e in tw.changes(events, {"s": elements}, consistency="final")]
    ['Cti', 'Insert', 'Cti']
    """

    def __init__(self, schema: pa.Schema, *, firm_ends: bool) -> None:
        self.schema = schema
        self._gate = Gate(
            schema, Consistency("final"), settled="start" if firm_ends else "past end"
        )
        self._progress = NO_PROGRESS

    def process(self, port: int, batch: Batch) -> Batch:
        self._progress = self._progress.advance(batch.progress)
        leaving, promise = self._gate.release(Delta.of_batch(batch), MIN_TIME, self._progress)
        return leaving.to_batch(promise)

    def needs(self, time: int) -> tuple[int, ...]:
        return (self._gate.needs(time),)

    def snapshot(self) -> Slices:
        return {"progress": slice_of_progress([self._progress]), **self._gate.snapshot()}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._progress = progress_of_slice(slices["progress"])[0]
        self._gate.restore(dict(slices))

    def state_size(self) -> StateSize:
        return self._gate.state_size()

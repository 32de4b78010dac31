"""How far a stream has come, and how far its answers are out: what kernels that answer at the end
of a window keep beside their rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.model.time import MIN_TIME
from thalweg.operators.consistency import Consistency

__all__ = ["Due"]


@dataclass(slots=True)
class Due:
    """Answers that end at or before `out` have left; after a batch those up to `after(batch)` may.

    >>> import numpy as np
    >>> due = Due(Consistency("speculative"))
    >>> due.after(Batch(pa.RecordBatch.from_pydict({"v": [1]}), np.array([7]), np.array([8])))
    7
    """

    consistency: Consistency
    cti: int = MIN_TIME
    watermark: int = MIN_TIME
    out: int = MIN_TIME

    def after(self, batch: Batch) -> int:
        """The latest end of an answer that may leave once this batch is known; never less than what
        is out."""
        self.cti = max(self.cti, batch.progress.cti)
        latest = int(batch.start.max()) if len(batch) else MIN_TIME
        self.watermark = max(self.watermark, latest, self.cti)
        return max(self.consistency.threshold(self.watermark, self.cti), self.out)

    def to_rows(self) -> Rows:
        return pa.RecordBatch.from_arrays(
            [pa.array([self.cti, self.watermark, self.out], pa.int64())], names=["marks"]
        )

    def restore(self, rows: Rows) -> None:
        self.cti, self.watermark, self.out = rows.column(0).to_pylist()

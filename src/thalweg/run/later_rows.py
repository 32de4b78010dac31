"""Rows as a query sees them that was added to a running host: changes to rows from before its
starting point do not concern it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.rows import Rows, encode_together
from thalweg.operators.base import Operator, Slices, StateSize, delta_of_slice, slice_of_delta

__all__ = ["LaterRows"]


class LaterRows(Operator):
    """Adjusts of rows that were admitted before a point are left out; everything else passes.

    Of two equal rows an adjust means the earlier one. State: the rows from before the point that
    may still be adjusted, until the promise has passed their ends.
    """

    def __init__(self, before: Delta) -> None:
        self.schema = before.schema
        self._before = before

    def process(self, port: int, batch: Batch) -> Batch:
        if batch.is_adjust is not None and batch.new_end is not None and len(self._before):
            batch = self._later(batch)
        cti = batch.progress.cti
        if len(self._before) and cti > NO_PROGRESS.cti:
            self._before = self._before.filter(self._before.end >= cti)
        return batch

    def _later(self, batch: Batch) -> Batch:
        assert batch.is_adjust is not None and batch.new_end is not None
        held = self._before
        held_code, batch_code, _ = encode_together(
            held.payload.columns, batch.payload.columns, (len(held), len(batch))
        )
        ends: Counter[tuple[int, int, int]] = Counter()
        for code, start, end, weight in zip(
            held_code.tolist(),
            held.start.tolist(),
            held.end.tolist(),
            held.weight.tolist(),
            strict=True,
        ):
            ends[code, start, end] += weight
        place = {code: at for at, code in enumerate(held_code.tolist())}
        keep = np.ones(len(batch), np.bool_)
        # One by one: an adjust may name a row as the adjust before it left it. Only adjusts of rows
        # from before the point come here; there are none once the promise has passed their ends.
        touched = np.flatnonzero(batch.is_adjust & np.isin(batch_code, held_code))
        for at in touched.tolist():
            code, start = int(batch_code[at]), int(batch.start[at])
            old = (code, start, int(batch.end[at]))
            if ends[old] > 0:
                keep[at] = False
                ends[old] -= 1
                if batch.new_end[at] > start:
                    ends[code, start, int(batch.new_end[at])] += 1
        left = [(*row, count) for row, count in ends.items() if count > 0]
        rows = np.array([place[code] for code, *_ in left], np.int64)
        start, end, weight = (np.array([row[at] for row in left], np.int64) for at in (1, 2, 3))
        self._before = Delta(held.take(rows).payload, start, end, weight)
        return batch.filter(keep)

    def snapshot(self) -> Slices:
        return {"before": slice_of_delta(self._before)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._before = delta_of_slice(slices["before"])

    def state_size(self) -> StateSize:
        return StateSize(len(self._before), self._before.nbytes)

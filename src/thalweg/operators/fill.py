"""Fill: zero rows for the empty windows of known groups.

Over the answers of a hopping window, for every window from the first to the last that has an answer
of any group, each known group without one gets a row with counts of 0 and everything else null.

State: the answers from the last settled window on. A silence is filled once something after it is
known, so the promise waits at the window after the last settled answer.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Rows, encode_together
from thalweg.model.time import INFINITY, Times
from thalweg.operators.arguments import PRESENT
from thalweg.operators.regroup import RegroupKernel
from thalweg.plan.nodes import WindowAggregate
from thalweg.windows import HoppingWindow

__all__ = ["FillKernel"]


class FillKernel(RegroupKernel):
    """
    >>> import thalweg as tw
    >>> grouped = tw.source("s", {"k": "string"}).group_by("k")
    >>> query = grouped.tumbling(10).fill(["a", "b"]).aggregate(n=tw.count())
    >>> tw.table(query, {"s": [tw.point({"k": "a"}, 2), tw.point({"k": "b"}, 12)]})
    [(0, 10, {'k': 'a', 'n': 1}), (0, 10, {'k': 'b', 'n': 0}), (10, 20, {'k': 'a', 'n': 0}), (10,
    20, {'k': 'b', 'n': 1})]
    """

    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, HoppingWindow) and node.fill is not None
        self._window, self._names = node.window, node.keys
        # A query without keys has one group; Arrow cannot count rows of no columns.
        held = pa.schema([node.schema.field(name) for name in node.keys] or [PRESENT])
        super().__init__(node.schema, held, (), None)
        columns = [list(column) for column in zip(*node.fill, strict=True)] or [[True]]
        self._groups = pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, held, strict=True)], schema=held
        )
        self._zeros = [call.aggregate.of_nothing for _, call in node.aggregates]

    def process(self, port: int, batch: Batch) -> Batch:
        zeros = super().process(port, batch)
        both = Delta.concat([Delta.of_batch(batch), Delta.of_batch(zeros)], self.schema)
        return both.to_batch(zeros.progress)

    def project(self, batch: Batch) -> Delta:
        delta = Delta.of_batch(batch)
        keys = [delta.payload.column(name) for name in self._names] or [
            pa.array(np.ones(len(delta), np.bool_))
        ]
        bare = pa.RecordBatch.from_arrays(keys, schema=self._groups.schema)
        return Delta(bare, delta.start, delta.end, delta.weight).consolidate()

    def answer(self, rows: Delta) -> Delta:
        hop = self._window.hop
        starts = np.arange(int(rows.start.min()), int(rows.start.max()) + hop, hop)
        group = np.tile(np.arange(self._groups.num_rows), len(starts))
        window = np.repeat(starts, self._groups.num_rows)
        wanted = self._groups.take(pa.array(group))
        there = self._present(rows, wanted, window)
        return self._empty(wanted.filter(pa.array(~there)), window[~there])

    def _present(
        self, rows: Delta, wanted: Rows, window: Times
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        held = [*rows.payload.columns[:-1], pa.array(rows.start)]
        asked = [*wanted.columns, pa.array(window)]
        own, theirs, size = encode_together(held, asked, (len(rows), len(window)))
        known = np.zeros(size, np.bool_)
        known[own] = True
        return known[theirs]

    def _empty(self, groups: Rows, window: Times) -> Delta:
        size = len(window)
        fields = list(self.schema)[len(self._names) :]
        blanks = [
            pa.array([zero] * size, f.type) for zero, f in zip(self._zeros, fields, strict=True)
        ]
        payload = pa.RecordBatch.from_arrays(
            [*groups.columns[: len(self._names)], *blanks], schema=self.schema
        )
        return Delta(payload, window, window + self._window.size, np.ones(size, np.int64))

    def least(self, time: int) -> int:
        if not len(self._held):
            return time
        starts = np.sort(self._held.start)
        enough = starts[
            starts >= time - self._window.hop
        ]  # an answer this late, once settled, shows that there is no silence before it
        if len(enough):
            return max(time, int(enough[0]) + 1)
        return time if int(starts[0]) >= time else INFINITY

    def keep(self, rows: Delta, cti: int) -> tuple[Delta, int]:
        settled = rows.start[rows.start < cti]
        if not len(settled):
            return rows, cti
        last = int(settled.max())
        return rows.filter(rows.start >= last), min(cti, last + self._window.hop)

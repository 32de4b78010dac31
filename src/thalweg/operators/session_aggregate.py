"""Session windows: one row per group and closed session: (first start, last start + gap, keys +
aggregates).

A session is a maximal chain of starts less than `gap` apart (see `sessions`); a row belongs to the
session of its start, its end does not matter. The answer leaves when the watermark passes the
session's end; a late row may then extend, merge or (when retracted) split sessions, and the old
answers are taken back.

State: the rows of sessions that the CTI has not closed. The promise is the first start of the
earliest open session.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.consistency import Consistency, Gate
from thalweg.operators.groups import group_codes, units
from thalweg.operators.regroup import RegroupKernel, marks_of, only_starts
from thalweg.operators.sessions import chains_of
from thalweg.plan.nodes import WindowAggregate
from thalweg.windows import SessionWindow

__all__ = ["SessionAggregateKernel"]


class SessionAggregateKernel(RegroupKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).session(5).aggregate(n=tw.count())
    >>> tw.table(query, {"s": [tw.point({"v": 1}, 1), tw.point({"v": 1}, 4), tw.point({"v": 1}, 20)]})
    [(1, 9, {'n': 2}), (20, 25, {'n': 1})]
    """

    def __init__(self, node: WindowAggregate, consistency: Consistency) -> None:
        assert isinstance(node.window, SessionWindow)
        self._arguments = ArgumentProjection(node.aggregates, node.keys, node.input.schema)
        self._gap = node.window.gap
        super().__init__(
            node.schema,
            self._arguments.schema,
            node.keys,
            Gate(node.schema, consistency, settled="end"),
        )

    def project(self, batch: Batch) -> Delta:
        delta = Delta.of_batch(batch)
        rows = Delta(
            self._arguments.project(delta.payload, delta.start),
            delta.start,
            delta.end,
            delta.weight,
        )
        return only_starts(rows)

    def answer(self, rows: Delta) -> Delta:
        rows = units(rows)
        group, _ = group_codes(rows.payload, self._keys)
        chains = chains_of(group, rows.start, marks_of(rows), self._gap)
        cells = len(chains.first)
        someone = np.empty(cells, np.int64)
        someone[chains.of_row] = np.arange(len(rows))
        keys = rows.payload.take(pa.array(someone))
        columns = [keys.column(name) for name in self._keys]
        columns += self._arguments.reduce(
            rows.payload, rows.start, np.arange(len(rows)), chains.of_row, cells, self.schema
        )
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Delta(payload, chains.first, chains.last + self._gap, np.ones(cells, np.int64))

    def least(self, time: int) -> int:
        if not len(self._held):
            return time
        group, _ = group_codes(self._held.payload, self._keys)
        chains = chains_of(group, self._held.start, marks_of(self._held), self._gap)
        begun = chains.first < time
        return max(time, int(chains.last[begun].max()) + self._gap) if begun.any() else time

    def keep(self, rows: Delta, cti: int) -> tuple[Delta, int]:
        if not len(rows):
            return rows, cti
        group, _ = group_codes(rows.payload, self._keys)
        chains = chains_of(group, rows.start, marks_of(rows), self._gap)
        open_ = chains.last + self._gap > cti
        promise = min(cti, int(chains.first[open_].min())) if open_.any() else cti
        return rows.filter(open_[chains.of_row]), promise

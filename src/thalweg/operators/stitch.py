"""Stitch: rows of equal payload where one ends exactly when another starts become one row.

At each time t the rows that end at t, ordered by (start, end), are joined one to one with the rows
that start at t, ordered by end. A chain of joined rows becomes [start of its first, end of its
last).

State: rows that end at or after the CTI, and the rows they continue (one step back, marked with the
start of their chain). Progress passes: a change at or after the CTI moves only ends at or after it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, encode
from thalweg.model.time import Times
from thalweg.operators.groups import units
from thalweg.operators.regroup import RegroupKernel, marks_of, with_marks
from thalweg.plan.nodes import Stitch

__all__ = ["StitchKernel"]


class StitchKernel(RegroupKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "string"}).stitch()
    >>> tw.table(query, {"s": [tw.insert({"v": "a"}, 1, 3), tw.insert({"v": "a"}, 3, 7), tw.insert({"v": "b"}, 3, 4)]})
    [(1, 7, {'v': 'a'}), (3, 4, {'v': 'b'})]
    """

    def __init__(self, node: Stitch) -> None:
        super().__init__(node.schema, node.schema, tuple(node.schema.names), None)

    def project(self, batch: Batch) -> Delta:
        return Delta.of_batch(batch)

    def answer(self, rows: Delta) -> Delta:
        rows = units(rows)
        root, is_last = self._chains(rows)
        start = marks_of(rows)[root]
        payload = pa.RecordBatch.from_arrays(rows.payload.columns[:-1], schema=self.schema)
        return Delta(payload, start, rows.end, np.ones(len(rows), np.int64)).filter(is_last)

    def _before(self, rows: Delta) -> Codes:
        """For each row the one it continues, or -1.

        A row that ended before the CTI is only here for the one that continues it: what it
        continued itself is in its mark.
        """
        size = len(rows)
        payload, _ = encode(list(rows.payload.columns[:-1]), size)
        open_ = np.flatnonzero(rows.end >= self._progress.cti)
        ended = _rank_within(payload, rows.end, (rows.end, rows.start))
        started = _rank_within(
            payload[open_], rows.start[open_], (rows.start[open_], rows.end[open_])
        )
        columns = [(payload, payload[open_]), (rows.end, rows.start[open_]), (ended, started)]
        links, count = encode([np.concatenate(pair) for pair in columns], size + len(open_))
        ends_here = np.full(count, -1)
        ends_here[links[:size]] = np.arange(size)
        before = np.full(size, -1)
        before[open_] = ends_here[links[size:]]
        return before

    def _chains(self, rows: Delta) -> tuple[Codes, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """For each row the first row of its chain, and whether it is the last."""
        size = len(rows)
        before = self._before(rows)
        root = np.where(before >= 0, before, np.arange(size))
        while True:  # pointer jumping: the distance to the first row doubles each time
            further = root[root]
            if (further == root).all():
                break
            root = further
        is_last = np.ones(size, np.bool_)
        is_last[before[before >= 0]] = False
        return root, is_last

    def keep(self, rows: Delta, cti: int) -> tuple[Delta, int]:
        old = rows.end < cti
        if not old.any():
            return rows, cti
        rows = units(rows)
        old = rows.end < cti
        before = self._before(rows)
        continued = np.zeros(len(rows), np.bool_)
        continued[before[~old & (before >= 0)]] = True
        root, _ = self._chains(rows)
        marked = with_marks(rows, np.where(old, marks_of(rows)[root], marks_of(rows)))
        return marked.filter(~old | continued).consolidate(), cti


def _rank_within(payload: Codes, time: Times, order: tuple[Times, Times]) -> Codes:
    """The rank of each row among those of equal payload and time."""
    sorted_ = np.lexsort((order[1], order[0], time, payload))
    new = np.ones(len(payload), np.bool_)
    new[1:] = (payload[sorted_][1:] != payload[sorted_][:-1]) | (
        time[sorted_][1:] != time[sorted_][:-1]
    )
    position = np.arange(len(payload))
    rank = np.empty(len(payload), np.int64)
    rank[sorted_] = position - np.maximum.accumulate(np.where(new, position, 0))
    return rank

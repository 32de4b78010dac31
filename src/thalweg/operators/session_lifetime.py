"""Session lifetime (Trill's session): (s, e, p) -> (s, session end, p); the running form of a
session.

A row ends `timeout` after the last start of its chain (see `sessions`). With `max_duration` m the
chain is also cut at L, L + m, L + 2m, ..., L being the first multiple of m after the chain's first
start if that is itself a multiple, and the second if it is not. Ends of the input do not matter.

State: rows whose session end has not been passed by the CTI, or by the promise of their group, and
the last settled row of each open chain, marked with the chain's first start. Progress passes, that of
groups too: a later start moves only ends that lie after it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.time import Times
from thalweg.operators.groups import group_codes
from thalweg.operators.regroup import RegroupKernel, marks_of, only_starts, with_marks
from thalweg.operators.sessions import Chains, chains_of
from thalweg.plan.nodes import SessionLifetime

__all__ = ["SessionLifetimeKernel"]


class SessionLifetimeKernel(RegroupKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "string"}).session_lifetime(6)
    >>> tw.table(query, {"s": [tw.insert({"v": "a"}, 11, 15), tw.insert({"v": "b"}, 12, 14), tw.insert({"v": "c"}, 21, 26)]})
    [(11, 18, {'v': 'a'}), (12, 18, {'v': 'b'}), (21, 27, {'v': 'c'})]
    """

    def __init__(self, node: SessionLifetime) -> None:
        super().__init__(node.schema, node.schema, node.keys, None)
        self._timeout, self._limit = node.timeout, node.max_duration

    def project(self, batch: Batch) -> Delta:
        return only_starts(Delta.of_batch(batch))

    def _ends(self, rows: Delta) -> tuple[Chains, Times]:
        group, _ = group_codes(rows.payload, self._keys)
        chains = chains_of(group, rows.start, marks_of(rows), self._timeout)
        end = (chains.last + self._timeout)[chains.of_row]
        if self._limit is None:
            return chains, end
        m = self._limit
        first_cut = chains.first // m * m + np.where(chains.first % m == 0, 1, 2) * m
        cut = first_cut[chains.of_row]
        next_cut = np.where(rows.start < cut, cut, cut + ((rows.start - cut) // m + 1) * m)
        return chains, np.minimum(end, next_cut)

    def answer(self, rows: Delta) -> Delta:
        _, end = self._ends(rows)
        payload = pa.RecordBatch.from_arrays(rows.payload.columns[:-1], schema=self.schema)
        return Delta(payload, rows.start, end, rows.weight)

    def keep(self, rows: Delta, cti: int) -> tuple[Delta, int]:
        return self.keep_groups(rows, np.full(len(rows), cti)), cti

    def keep_groups(self, rows: Delta, promised: Times) -> Delta:
        settled = rows.start < promised
        if not settled.any():
            return rows
        chains, end = self._ends(rows)
        last_settled = np.full(len(chains.first), np.iinfo(np.int64).min)
        np.maximum.at(last_settled, chains.of_row[settled], rows.start[settled])
        open_ = chains.last[chains.of_row] + self._timeout > promised
        needed = settled & (rows.start == last_settled[chains.of_row]) & open_
        marks = np.where(settled, chains.first[chains.of_row], marks_of(rows))
        return with_marks(rows, marks).filter((end >= promised) | needed)

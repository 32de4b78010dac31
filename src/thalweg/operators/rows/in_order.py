"""In order: every row leaves once, when nothing can change it, and rows leave by their starts.

    R' = R

Cleanse, in the words of the LMerge document: it makes a stream fit a merge at R0 or R1. A row is
ready when the CTI has passed its end (or its start, where ends never move). It leaves when no row
that starts earlier can still come or change, so that all rows of one start leave in one batch;
among themselves they are ordered by their digests, which is the same order in every copy of the
stream.

The price is latency: a row waits for the ends of all rows that start before it, and a row without
an end holds everything after it until the stream ends. Nulls and duplicates are rows like others.

State: the rows that have not left. Its promise is the start of the earliest of them that is not
ready.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.digests import digest_rows
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Rows
from thalweg.model.time import MIN_TIME, greatest, least
from thalweg.operators.base import Operator, Slices, StateSize, progress_of_slice, slice_of_progress
from thalweg.operators.consistency import Consistency, Gate
from thalweg.plan.nodes import InOrder
from thalweg.state import RowSet

__all__ = ["InOrderKernel", "canonical_order"]


class InOrderKernel(Operator):
    """
    >>> import thalweg as tw
    >>> rows = [tw.insert({"v": 1}, 4, 9), tw.insert({"v": 2}, 0, 20), tw.cti(10), tw.cti(30)]
    >>> [str(e.start) for e in tw.changes(tw.source("s", {"v": "int64"}).in_order(), {"s": rows})
    ...  if isinstance(e, tw.Insert)]
    ['0', '4']
    """

    def __init__(self, node: InOrder) -> None:
        self.schema = node.schema
        firm = node.input.properties.firm_ends
        self._gate = Gate(
            node.schema, Consistency("final"), settled="start" if firm else "past end"
        )
        self._ready = RowSet(node.schema, marks=1, what="in_order")
        """Rows that are final and wait for earlier ones, as points; their ends are marks."""
        self._progress = NO_PROGRESS
        self._promised = MIN_TIME

    def process(self, port: int, batch: Batch) -> Batch:
        self._progress = self._progress.merge(batch.progress.without_scopes())
        final, promise = self._gate.release(Delta.of_batch(batch), MIN_TIME, self._progress)
        if len(final) and least(final.weight) < 0:
            final = final.consolidate()
        self._promised = max(self._promised, promise.cti)
        early = final.start < self._promised
        parts, waiting = [final.filter(early)], final.filter(~early)
        if len(waiting):
            points = Delta(waiting.payload, waiting.start, waiting.start + 1, waiting.weight)
            self._ready.change(points, (waiting.end,))
        if not self._ready.is_empty():
            found = self._ready.release(self._promised)
            parts.append(Delta(found.payload(), found.start, found.mark(0), found.weight))
        leaving = Delta.concat(parts, self.schema)
        if len(leaving) and greatest(leaving.weight) > 1:
            leaving = leaving.take(np.repeat(np.arange(len(leaving)), leaving.weight))
        out = Batch(leaving.payload, leaving.start, leaving.end, progress=Progress(self._promised))
        return canonical_order(out)

    def needs(self, time: int) -> tuple[int, ...]:
        return (self._gate.needs(time),)

    def snapshot(self) -> Slices:
        own = slice_of_progress([self._progress, Progress(self._promised)])
        return {"progress": own, **self._gate.snapshot(), **self._ready.snapshot("ready")}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._progress, promised = progress_of_slice(slices["progress"])
        self._promised = promised.cti
        self._gate.restore(dict(slices))
        self._ready.restore("ready", slices)
        self._ready.purge(self._promised)

    def state_size(self) -> StateSize:
        return self._gate.state_size() + self._ready.size()


def canonical_order(batch: Batch) -> Batch:
    """Rows by start, and of one start by digest: the same order in every stream that has them."""
    order = np.argsort(batch.start, kind="stable")
    start = batch.start[order]
    if (start[1:] == start[:-1]).any():
        digests = digest_rows([*batch.payload.columns, batch.end], len(batch))
        order = np.lexsort((digests.high, digests.low, batch.start))
    return batch.take(order) if (order[1:] < order[:-1]).any() else batch

"""Top-k over snapshots: per group and snapshot the rows whose rank is at most k, each living as
long as the snapshot.

rank = 1 + the number of rows of the window that are strictly better by `by`: ties are kept whole. A
null `by` is worse than any value. State: see `snapshots`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.order import dense_ranks, whole_keys
from thalweg.model.rows import Bools, Codes, Rows, whole_column
from thalweg.model.sorting import sort_pairs
from thalweg.operators.consistency import Consistency
from thalweg.operators.frames import frame_of
from thalweg.operators.window.snapshot.snapshots import SnapshotKernel, Snapshots
from thalweg.plan.nodes import TopK
from thalweg.state import Hits

__all__ = ["ORDER", "Ranking", "TopKKernel"]

ORDER = internal("order")


class Ranking:
    """What a top-k does with rows, whatever its windows are. A number to sort by is not enough for
    text: beside each row the value that it is ranked by is kept, as `_order`."""

    def __init__(self, node: TopK) -> None:
        self._node, self._used = node, node.by.columns()
        seen = pa.schema([*node.input.schema, pa.field("_start", pa.int64())])
        self.schema = pa.schema([*node.input.schema, pa.field(ORDER, node.by.type_in(seen))])
        self.shown = node.input.schema.names

    def project(self, batch: Batch) -> Delta:
        """The changes of a batch to rows with `_order`."""
        delta = Delta.of_batch(batch)
        values = self._node.by.evaluate(frame_of(delta.payload, delta.start, self._used))
        payload = pa.RecordBatch.from_arrays([*delta.payload.columns, values], schema=self.schema)
        return Delta(payload, delta.start, delta.end, delta.weight)

    def best(self, order: pa.Array, member: Codes, cell: Codes) -> tuple[Codes, Codes]:
        """Which members have a rank of at most k, and their ranks. Row `member[i]` belongs to
        `cell[i]`, and is ranked by `order[member[i]]`."""
        rank = _rank_members(order, member, cell, descending=self._node.descending)
        best = (rank <= self._node.k).nonzero()[0]
        return best, rank[best]

    def answer(self, columns: list[pa.Array], rank: Codes) -> Rows:
        """Rows as they are shown, with their ranks if the node has them."""
        if self._node.rank is not None:
            columns = [*columns, whole_column(rank)]
        return pa.RecordBatch.from_arrays(columns, schema=self._node.schema)


def _rank_members(order: pa.Array, member: Codes, cell: Codes, *, descending: bool) -> Codes:
    """The rank of each member within its cell, ties sharing the best; nulls rank last."""
    ranks = _order_keys(order, descending=descending)[member]
    sorted_ = sort_pairs(cell, ranks)
    cells, values = cell[sorted_], ranks[sorted_]
    position = np.arange(len(cell))
    new_cell = np.ones(len(cell), np.bool_)
    new_cell[1:] = cells[1:] != cells[:-1]
    new_value: Bools = new_cell.copy()
    new_value[1:] |= values[1:] != values[:-1]
    begin = np.maximum.accumulate(np.where(new_cell, position, 0))
    tie = np.maximum.accumulate(np.where(new_value, position, 0))
    result = np.empty(len(cell), np.int64)
    result[sorted_] = tie - begin + 1
    return result


def _order_keys(order: pa.Array, *, descending: bool) -> Codes:
    """Numbers in the order in which values are better."""
    keys = None if order.null_count else whole_keys(order)
    if keys is not None:
        return ~keys if descending else keys
    ranks = dense_ranks(order)
    if not descending:
        return ranks
    return np.where(order.is_null().to_numpy(zero_copy_only=False), ranks, -ranks)


class TopKKernel(SnapshotKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).top_k(1, by="v", rank="place")
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 1, 5), tw.insert({"v": 2}, 1, 3)]})
    [(1, 3, {'v': 2, 'place': 1}), (3, 5, {'v': 1, 'place': 1})]
    """

    def __init__(self, node: TopK, consistency: Consistency) -> None:
        self._ranking = Ranking(node)
        super().__init__(node.schema, self._ranking.schema, node.keys, consistency)

    def project(self, batch: Batch) -> Delta:
        return self._ranking.project(batch)

    def answer(self, rows: Hits, snapshots: Snapshots, alive: Codes) -> tuple[Rows, Codes]:
        member, window = snapshots.members(alive)
        best, rank = self._ranking.best(rows.column(ORDER), member, window)
        which = member[best]
        columns = [rows.column(name, which) for name in self._ranking.shown]
        return self._ranking.answer(columns, rank), window[best]

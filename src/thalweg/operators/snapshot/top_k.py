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
from thalweg.model.rows import Bools, Codes, Rows, take_rows
from thalweg.model.sorting import sort_pairs
from thalweg.operators.consistency import Consistency
from thalweg.operators.frames import frame_of
from thalweg.operators.groups import append_column
from thalweg.operators.snapshot.snapshots import SnapshotKernel, Snapshots, make_gate
from thalweg.plan.nodes import TopK

__all__ = ["ORDER", "TopKKernel", "rank_members", "ranked_projection"]

ORDER = internal("order")


def ranked_projection(node: TopK, delta: Delta) -> Delta:
    """Rows with `_order`, a number to sort by is not enough for text: the value itself is kept."""
    values = node.by.evaluate(frame_of(delta.payload, delta.start))
    arrays = [*delta.payload.columns, values]
    payload = pa.RecordBatch.from_arrays(arrays, names=[*delta.schema.names, ORDER])
    return Delta(payload, delta.start, delta.end, delta.weight)


def rank_members(order: pa.Array, member: Codes, cell: Codes, *, descending: bool) -> Codes:
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
        self._node = node
        by = node.by.type_in(pa.schema([*node.input.schema, pa.field("_start", pa.int64())]))
        held = pa.schema([*node.input.schema, pa.field(ORDER, by)])
        super().__init__(node.schema, held, node.keys, make_gate(node.schema, consistency))

    def project(self, batch: Batch) -> Delta:
        return ranked_projection(self._node, Delta.of_batch(batch))

    def answer(self, rows: Delta, snapshots: Snapshots, alive: Codes) -> tuple[Rows, Codes]:
        member, window = snapshots.members()
        rank = rank_members(
            rows.payload.column(ORDER), member, window, descending=self._node.descending
        )
        best = np.flatnonzero(rank <= self._node.k)
        return self._output(take_rows(rows.payload, member[best]), rank[best]), window[best]

    def _output(self, rows: Rows, rank: Codes) -> Rows:
        names = self._node.input.schema.names
        kept = pa.RecordBatch.from_arrays([rows.column(name) for name in names], names=names)
        return append_column(kept, self._node.rank, rank) if self._node.rank is not None else kept

"""Ranks of rows among those of their window, whatever its kind.

rank = 1 + the number of rows of the window that are strictly better by `by`: ties are kept whole. A
null `by` is worse than any value.
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
from thalweg.operators.frames import frame_of
from thalweg.plan.nodes import TopK

__all__ = ["ORDER", "Ranking"]

ORDER = internal("order")


class Ranking:
    """The ranking of a top-k, for any windows. Beside each row the value that it is ranked by is
    kept, as `_order`: for text a number is not enough."""

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
        """The members with a rank of at most k, and their ranks. Row `member[i]` belongs to
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
    """Numbers that sort like the values, the best first."""
    keys = None if order.null_count else whole_keys(order)
    if keys is not None:
        return ~keys if descending else keys
    ranks = dense_ranks(order)
    if not descending:
        return ranks
    return np.where(order.is_null().to_numpy(zero_copy_only=False), ranks, -ranks)

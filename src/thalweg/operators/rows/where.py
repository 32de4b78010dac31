"""Where: R' = {(s, e, p) in R | predicate(p, s)}.

Null conditions count as false. An adjust has the payload and start of its insert, so both pass or
neither does. Late, duplicate and empty input need no care. No state; progress passes unchanged.
"""

from __future__ import annotations

from thalweg.model.batch import Batch
from thalweg.operators.base import Operator
from thalweg.operators.frames import evaluate_mask, frame_of
from thalweg.operators.rows.one_row import OneRow, Step, keep_where
from thalweg.plan.nodes import Where

__all__ = ["WhereKernel"]


class WhereKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"len": "int64"}).where("len > 40")
    >>> tw.table(query, {"s": [tw.insert({"len": 40}, 0, 9), tw.insert({"len": 41}, 1, 9)]})
    [(1, 9, {'len': 41})]
    """

    row_by_row = True
    knows_group_column_promises = True

    def __init__(self, node: Where) -> None:
        self.schema = node.schema
        self._predicate = node.predicate
        self._used = tuple(node.predicate.columns())

    def one_row(self, row: OneRow) -> Step | None:
        return keep_where(row, self._predicate)

    def process(self, port: int, batch: Batch) -> Batch:
        if not len(batch):
            return batch
        return batch.filter(
            evaluate_mask(self._predicate, frame_of(batch.payload, batch.start, self._used))
        )

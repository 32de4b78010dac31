"""Select: R' = {(s, e, f(p, s))}.

Lifetimes stay, so adjusts stay adjusts. A promise for one group passes when the columns of its scope do. No state.
"""

from __future__ import annotations

from thalweg.model.batch import Batch
from thalweg.operators.base import Operator, rename_scopes
from thalweg.operators.frames import evaluate_columns, frame_of, plain_renames
from thalweg.plan.nodes import Select

__all__ = ["SelectKernel"]


class SelectKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"len": "int64"}).select(bits="len * 8")
    >>> tw.table(query, {"s": [tw.insert({"len": 2}, 0, 9)]})
    [(0, 9, {'bits': 16})]
    """

    def __init__(self, node: Select) -> None:
        self.schema = node.schema
        self._columns = node.columns
        self._names = plain_renames(node.columns)

    def process(self, port: int, batch: Batch) -> Batch:
        progress = rename_scopes(batch.progress, self._names)
        if not len(batch):
            return Batch.empty(self.schema, progress)
        payload = evaluate_columns(self._columns, frame_of(batch.payload, batch.start), self.schema)
        return batch.with_payload(payload).with_progress(progress)

"""Select: R' = {(s, e, f(p, s))}.

Lifetimes stay, so adjusts stay adjusts. A promise for one group, or over columns, passes when its
columns do. Where ends do not move, a column that rises with the start has a promise of its own:
rows below it are settled. No state.
"""

from __future__ import annotations

from thalweg.expr import is_monotone_in_start
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.operators.attribute_promises import LeastValue
from thalweg.operators.base import Operator, rename_scopes
from thalweg.operators.frames import Projection, frame_of, plain_renames
from thalweg.operators.rows.one_row import OneRow, Step, compute
from thalweg.plan.nodes import Select

__all__ = ["SelectKernel"]


class SelectKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"len": "int64"}).select(bits="len * 8")
    >>> tw.table(query, {"s": [tw.insert({"len": 2}, 0, 9)]})
    [(0, 9, {'bits': 16})]
    """

    row_by_row = True
    knows_group_column_promises = True

    def __init__(self, node: Select) -> None:
        self.schema = node.schema
        self._columns = node.columns
        self._projection = Projection(node.columns, node.schema)
        self._names = plain_renames(node.columns)
        firm = node.input.properties.firm_ends
        self._rising = [
            (name, LeastValue(expr))
            for name, expr in node.columns
            if firm and "_start" in expr.columns() and is_monotone_in_start(expr)
        ]

    def moves(self, progress: Progress) -> Progress:
        moved = rename_scopes(progress, self._names)
        if not self._rising:
            return moved
        return moved.merge(
            Progress(
                column_promises={(name,): (least.at(progress.cti),) for name, least in self._rising}
            )
        )

    def one_row(self, row: OneRow) -> Step | None:
        return compute(row, self._columns, self.schema)

    def process(self, port: int, batch: Batch) -> Batch:
        progress = self.moves(batch.progress)
        if not len(batch):
            return Batch.empty(self.schema, progress)
        frame = frame_of(batch.payload, batch.start, self._projection.used)
        payload = self._projection.of(frame)
        return Batch(payload, batch.start, batch.end, batch.new_end, batch.is_adjust, progress)

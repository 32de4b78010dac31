"""Rows that may stand alone: what left, right, full, semi and anti joins share.

A side is preserved when its rows are part of the answer by themselves. Alone, a row is
`left_only(p1)` or `right_only(p2)` of a join that has pairs, and the left row itself in a semi or
anti join. Null keys match nothing.
"""

from __future__ import annotations

from abc import abstractmethod

from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.model.time import Times
from thalweg.operators.frames import Projection, frame_of, plain_renames
from thalweg.operators.joining.join import JoinKernel
from thalweg.plan.nodes import Join, Named

__all__ = ["OuterKernel"]


class OuterKernel(JoinKernel):
    marks_alone: int
    """Whole numbers that are kept with each row of a preserved side."""

    def __init__(self, node: Join) -> None:
        super().__init__(node)
        self._preserved = node.kind.preserved
        self._gives_pairs = node.kind.pairs
        self._alone_columns: tuple[Named, Named] = (node.left_only, node.right_only)
        self._alone_projection = tuple(
            Projection(columns, node.schema) if kept and self._gives_pairs else None
            for columns, kept in zip(self._alone_columns, self._preserved, strict=True)
        )
        left, right = (self.marks_alone * preserved for preserved in self._preserved)
        self._state = self._empty_state((left, right))
        self._held = self._state.held
        self._scope_names = self._named_in_every_row()

    @abstractmethod
    def process(self, port: int, batch: Batch) -> Batch: ...

    def _alone_payload(self, port: int, rows: Rows, start: Times) -> Rows:
        """Rows of one side, with their own starts, as they stand in the answer by themselves."""
        rows = self._sides[port].payload(rows)
        alone = self._alone_projection[port]
        return rows if alone is None else alone.of(frame_of(rows, start, alone.used))

    def _named_in_every_row(self) -> dict[str, str]:
        """The columns that name a group in every row of the answer, under their names there. They
        are keys of both sides, so that a pair has them from either."""
        if not self._gives_pairs:
            return {name: name for name in self.schema.names}
        alone = [
            plain_renames(columns)
            for columns, kept in zip(self._alone_columns, self._preserved, strict=True)
            if kept
        ]
        pairs = [*self._renames[0].items(), *self._renames[1].items()]
        return {old: new for old, new in pairs if all(names.get(old) == new for names in alone)}

"""Point at end: R' = {(e, e + 1, p) | e finite}.

A row without an end has no point yet. A change of the end moves the point. No state. Progress
passes; where every row lasts the same and comes and goes whole, the promise is that much later.
"""

from __future__ import annotations

from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, Times, add_saturating
from thalweg.operators.rows.lifetimes import LifetimeKernel
from thalweg.plan.nodes import PointAtEnd

__all__ = ["PointAtEndKernel"]


class PointAtEndKernel(LifetimeKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).point_at_end()
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 0, 5), tw.insert({"v": 2}, 1)]})
    [(5, 6, {'v': 1})]
    """

    name = "point_at_end"

    def __init__(self, node: PointAtEnd) -> None:
        super().__init__(node.schema)
        facts = node.input.properties
        lasts = facts.constant_duration
        self._lasts = lasts if lasts is not None and lasts != INFINITY and facts.firm_ends else 0

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        return end, add_saturating(end, 1)

    def lifetime(self, start: int, end: int) -> tuple[int, int] | None:
        return end, end if end == INFINITY else end + 1

    def promise(self, cti: int) -> int:
        return cti + self._lasts

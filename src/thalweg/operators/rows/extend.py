"""Extend: R' = {(s, e + by, p) | e + by > s}.

With a negative amount a row can vanish, and a change at e moves to e + by: the promise moves with
it. No state.
"""

from __future__ import annotations

from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, Times, add_saturating
from thalweg.operators.rows.lifetimes import LifetimeKernel
from thalweg.plan.nodes import Extend

__all__ = ["ExtendKernel"]


class ExtendKernel(LifetimeKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).extend(-3)
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 0, 9), tw.insert({"v": 2}, 1, 4)]})
    [(0, 6, {'v': 1})]
    """

    name = "extend"

    def __init__(self, node: Extend) -> None:
        super().__init__(node.schema)
        self._by = node.by
        self.keeps_every_row = self._by >= 0

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        return start, add_saturating(end, self._by)

    def lifetime(self, start: int, end: int) -> tuple[int, int] | None:
        return start, end if end == INFINITY else end + self._by

    def promise(self, cti: int) -> int:
        return cti + min(self._by, 0)

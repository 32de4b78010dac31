"""Shift: R' = {(s + by, e + by, p)}.

A constant shift moves promises too. A shift that depends on the row could move a future change to
any time, so then only the end of the stream is a promise. Infinite ends stay infinite. A row whose
amount is null is left out. No state.
"""

from __future__ import annotations

import numpy as np

from thalweg.expr import Expr
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times, add_saturating
from thalweg.operators.rows.lifetimes import LifetimeKernel, Ticks, refuse_beyond
from thalweg.plan.nodes import Shift

__all__ = ["ShiftKernel"]


class ShiftKernel(LifetimeKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).shift(5)
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 3, 4)]})
    [(8, 9, {'v': 1})]
    """

    name = "shift"

    def __init__(self, node: Shift) -> None:
        super().__init__(node.schema)
        self._by: int | Ticks = Ticks(node.by) if isinstance(node.by, Expr) else node.by
        self.keeps_every_row = not isinstance(self._by, Ticks)

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        if isinstance(self._by, Ticks):
            by, valid = self._by.of(payload, start)
            refuse_beyond(by, self.name)
            moved, until = start + by, add_saturating(end, by)
            return (
                (moved, until)
                if valid is None
                else (np.where(valid, moved, 0), np.where(valid, until, 0))
            )
        return start + self._by, add_saturating(end, self._by)

    def lifetime(self, start: int, end: int) -> tuple[int, int] | None:
        if isinstance(self._by, Ticks):
            return None
        return start + self._by, end if end == INFINITY else end + self._by

    def promise(self, cti: int) -> int:
        return MIN_TIME if isinstance(self._by, Ticks) else cti + self._by

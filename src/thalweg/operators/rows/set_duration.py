"""Set duration: R' = {(s, s + ticks, p)}; without a duration, [s, infinity).

The end of the input is forgotten, so an adjust matters only when it removes its row. No state;
progress passes.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, Times
from thalweg.operators.rows.lifetimes import LifetimeKernel
from thalweg.plan.nodes import SetDuration

__all__ = ["SetDurationKernel"]


class SetDurationKernel(LifetimeKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).set_duration(10)
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 3, 4)]})
    [(3, 13, {'v': 1})]
    """

    name = "set_duration"
    keeps_every_row = True

    def __init__(self, node: SetDuration) -> None:
        super().__init__(node.schema)
        self._ticks = node.ticks

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        return start, np.full(
            len(start), INFINITY
        ) if self._ticks == INFINITY else start + self._ticks

    def lifetime(self, start: int, end: int) -> tuple[int, int] | None:
        return start, INFINITY if self._ticks == INFINITY else start + self._ticks

    def promise(self, cti: int) -> int:
        return cti

"""Clip duration: R' = {(s, min(e, s + limit), p)}.

A change of an end beyond the limit is no change. No state; progress passes.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Rows
from thalweg.model.time import Times
from thalweg.operators.rows.lifetimes import LifetimeKernel
from thalweg.plan.nodes import ClipDuration

__all__ = ["ClipDurationKernel"]


class ClipDurationKernel(LifetimeKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).clip_duration(3)
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 0), tw.insert({"v": 2}, 1, 2)]})
    [(0, 3, {'v': 1}), (1, 2, {'v': 2})]
    """

    name = "clip_duration"
    keeps_every_row = True

    def __init__(self, node: ClipDuration) -> None:
        super().__init__(node.schema)
        self._limit = node.limit

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        return start, np.minimum(end, start + self._limit)

    def lifetime(self, start: int, end: int) -> tuple[int, int] | None:
        return start, min(end, start + self._limit)

    def promise(self, cti: int) -> int:
        return cti

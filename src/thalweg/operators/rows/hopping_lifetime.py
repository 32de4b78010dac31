"""Hopping lifetime (Trill's hopping window): (s, e, p) -> (ceil(s), ceil(s + size), p) on the grid
offset + k * hop.

The end is ignored: the value of an aggregate over [T, T + hop) covers starts in (T - size, T].
Where windows have gaps (size < hop) a row lives over [T, T + size) if its start lies in (T - size,
T], T being ceil(s), and vanishes otherwise. A promise is rounded up like a start. No state. For
windows by overlap, which are what StreamInsight means, use `hopping`.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Rows
from thalweg.model.time import Times, ceil_to_grid
from thalweg.operators.rows.lifetimes import LifetimeKernel
from thalweg.plan.nodes import HoppingLifetime

__all__ = ["HoppingLifetimeKernel"]


class HoppingLifetimeKernel(LifetimeKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).hopping_lifetime(20, 10)
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 11, 12), tw.insert({"v": 2}, 20, 21)]})
    [(20, 40, {'v': 1}), (20, 40, {'v': 2})]
    """

    name = "hopping_lifetime"

    def __init__(self, node: HoppingLifetime) -> None:
        super().__init__(node.schema)
        self._size, self._hop, self._offset = node.size, node.hop, node.offset

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        first = ceil_to_grid(start, self._hop, self._offset)
        if self._size < self._hop:
            return first, np.where(start > first - self._size, first + self._size, first)
        return first, ceil_to_grid(start + self._size, self._hop, self._offset)

    def promise(self, cti: int) -> int:
        return int(ceil_to_grid(np.array([cti]), self._hop, self._offset)[0])

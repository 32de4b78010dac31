"""Quantize (Trill's): (s, e, p) -> (floor(s, g), max(ceil(e, hop), floor(s + size, hop)), p), g
being `progress` or hop.

With size == hop it stretches a lifetime over every tumbling window it touches. A promise is rounded
down. No state.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Rows
from thalweg.model.time import Times, ceil_to_grid, floor_to_grid
from thalweg.operators.rows.lifetimes import LifetimeKernel
from thalweg.plan.nodes import Quantize

__all__ = ["QuantizeKernel"]


class QuantizeKernel(LifetimeKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).quantize(10, 10)
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 3, 17)]})
    [(0, 20, {'v': 1})]
    """

    name = "quantize"
    keeps_every_row = True

    def __init__(self, node: Quantize) -> None:
        super().__init__(node.schema)
        self._size, self._hop, self._offset = node.size, node.hop, node.offset
        self._grid = node.progress or node.hop

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        first = floor_to_grid(start, self._grid, self._offset)
        last = np.maximum(
            ceil_to_grid(end, self._hop, self._offset),
            floor_to_grid(start + self._size, self._hop, self._offset),
        )
        return first, last

    def promise(self, cti: int) -> int:
        return int(floor_to_grid(np.array([cti]), self._grid, self._offset)[0])

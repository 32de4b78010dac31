"""Retime: R' = {(f(s, p), g(s, e, p), p) | f < g}.

Where g does not read the end of the input, an adjust matters only when it removes its row. A row
with a null start or end is left out. Promises pass through f as `moved_starts` says. No state.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Rows
from thalweg.model.time import Times
from thalweg.operators.rows.lifetimes import Ticks
from thalweg.operators.rows.moved_starts import MovedStartKernel
from thalweg.plan.nodes import Retime

__all__ = ["RetimeKernel"]


class RetimeKernel(MovedStartKernel):
    """
    >>> import thalweg as tw
    >>> from thalweg.expr import parse
    >>> node = tw.source("s", {"v": "int64"}).node
    >>> query = Retime(node, parse("_start // 10 * 10"), parse("_start + v"))
    >>> tw.table(query, {"s": [tw.insert({"v": 2}, 13, 14), tw.insert({"v": -9}, 13, 14)]})
    [(10, 15, {'v': 2})]
    """

    name = "retime"

    def __init__(self, node: Retime) -> None:
        super().__init__(node.schema, node.start, node.input)
        self._begin, self._until = Ticks(node.start), Ticks(node.end)
        self._reads_end = node.reads_end

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        begin, first = self._begin.of(payload, start)
        until, last = self._until.of(payload, start, end if self._reads_end else None)
        masks = [mask for mask in (first, last) if mask is not None]
        if not masks:
            return begin, until
        valid = np.logical_and.reduce(masks)
        return np.where(valid, begin, 0), np.where(valid, until, 0)

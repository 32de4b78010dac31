"""Alter lifetime: R' = {(f(s, p), f(s, p) + ticks, p)}.

The end of the input is forgotten; a row whose new start is null is left out. A promise passes
through f as `moved_starts` says. No state.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, Times
from thalweg.operators.rows.lifetimes import Ticks, refuse_beyond
from thalweg.operators.rows.moved_starts import MovedStartKernel
from thalweg.plan.nodes import AlterLifetime

__all__ = ["AlterLifetimeKernel"]


class AlterLifetimeKernel(MovedStartKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).alter_lifetime(start="_start + v", duration=5)
    >>> tw.table(query, {"s": [tw.insert({"v": 2}, 3, 4)]})
    [(5, 10, {'v': 2})]
    """

    name = "alter_lifetime"

    def __init__(self, node: AlterLifetime) -> None:
        super().__init__(node.schema, node.start, node.input)
        self._moved = Ticks(node.start)
        self._ticks = node.ticks

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        moved, valid = self._moved.of(payload, start)
        refuse_beyond(moved, self.name)
        end = np.full(len(moved), INFINITY) if self._ticks == INFINITY else moved + self._ticks
        return moved, end if valid is None else np.where(valid, end, moved)

"""Retime: R' = {(f(s, p), g(s, e, p), p) | f < g}.

Where g does not read the end of the input, an adjust matters only when it removes its row. A row
with a null start or end is left out. Promises pass through f as in `alter_lifetime`. No state.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.progress import Progress
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, Times
from thalweg.operators.attribute_promises import (
    has_promises,
    missing_promise,
    move_progress,
    promise_of,
)
from thalweg.operators.rows.lifetimes import LifetimeKernel, ticks_of
from thalweg.plan.nodes import Retime

__all__ = ["RetimeKernel"]


class RetimeKernel(LifetimeKernel):
    """
    >>> import thalweg as tw
    >>> from thalweg.expr import parse
    >>> query = Retime(tw.source("s", {"v": "int64"}).node, parse("_start // 10 * 10"), parse("_start + v"))
    >>> tw.table(query, {"s": [tw.insert({"v": 2}, 13, 14), tw.insert({"v": -9}, 13, 14)]})
    [(10, 15, {'v': 2})]
    """

    knows_group_boxes = True

    def __init__(self, node: Retime) -> None:
        super().__init__(node.schema)
        self._start, self._end, self._reads_end = node.start, node.end, node.reads_end
        self._promised = has_promises(node.start, node.input)

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        begin, first = ticks_of(self._start, payload, start)
        until, last = ticks_of(self._end, payload, start, end if self._reads_end else None)
        valid = first & last
        return np.where(valid, begin, 0), np.where(valid, until, 0)

    def promise(self, cti: int) -> int:
        return promise_of(self._start, Progress(cti))

    def progress(self, before: Progress) -> Progress:
        self._promised |= bool(before.boxes)
        return move_progress(self._start, before)

    def needs(self, time: int) -> tuple[int, ...]:
        """A start that is a column has promises of its own, which come as far as the times it was
        made of; one that nothing promises anything about waits for the end."""
        if not self._promised:
            return (INFINITY,)
        return super().needs(time) if self._start.columns() <= {"_start"} else (time,)

    def lacks(self) -> tuple[str, ...]:
        return () if self._promised else (missing_promise(self._start),)

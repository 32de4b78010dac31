"""Alter lifetime: R' = {(f(s, p), f(s, p) + ticks, p)}.

The end of the input is forgotten; a row whose new start is null is left out. A promise passes
through f when f is a non-decreasing function of the start, or of columns for which there are
promises (see `attribute_promises`); otherwise a future row could land anywhere, and only the end of
the stream is a promise. No state.
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
from thalweg.operators.rows.lifetimes import LifetimeKernel, refuse_beyond, ticks_of
from thalweg.plan.nodes import AlterLifetime

__all__ = ["AlterLifetimeKernel"]


class AlterLifetimeKernel(LifetimeKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).alter_lifetime(start="_start + v", duration=5)
    >>> tw.table(query, {"s": [tw.insert({"v": 2}, 3, 4)]})
    [(5, 10, {'v': 2})]
    """

    knows_group_boxes = True

    def __init__(self, node: AlterLifetime) -> None:
        super().__init__(node.schema)
        self._start, self._ticks = node.start, node.ticks
        self._promised = has_promises(node.start, node.input)

    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        moved, valid = ticks_of(self._start, payload, start)
        refuse_beyond(moved, self.name)
        if self._ticks == INFINITY:
            return moved, np.where(valid, INFINITY, moved)
        return moved, np.where(valid, moved + self._ticks, moved)

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
        columns = self._start.columns()
        return super().needs(time) if "_start" in columns or not columns else (time,)

    def lacks(self) -> tuple[str, ...]:
        return () if self._promised else (missing_promise(self._start),)

"""Operators that give rows another start, f(s, p).

A promise passes through f when f is a non-decreasing function of the start, or of columns for which
there are promises (see `attribute_promises`); otherwise a future row could land anywhere, and only
the end of the stream is a promise.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.expr import Expr
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY
from thalweg.operators.attribute_promises import LeastValue, has_promises, missing_promise
from thalweg.operators.rows.lifetimes import LifetimeKernel
from thalweg.plan.nodes import Node

__all__ = ["MovedStartKernel"]


class MovedStartKernel(LifetimeKernel):
    knows_group_column_promises = True

    def __init__(self, schema: pa.Schema, start: Expr, source: Node) -> None:
        super().__init__(schema)
        self._start = start
        self._least = LeastValue(start)
        self._promised = has_promises(start, source)

    def promise(self, cti: int) -> int:
        return self._least.at(cti)

    def progress(self, before: Progress) -> Progress:
        self._promised |= bool(before.column_promises)
        return self._least.move(before)

    def needs(self, time: int) -> tuple[int, ...]:
        """A start that is a column has promises of its own, which come as far as the times it was
        made of; one that nothing promises anything about waits for the end."""
        if not self._promised:
            return (INFINITY,)
        columns = self._start.columns()
        return super().needs(time) if "_start" in columns or not columns else (time,)

    def lacks(self) -> tuple[str, ...]:
        return () if self._promised else (missing_promise(self._start),)

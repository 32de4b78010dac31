"""Which times of a stream progress: those about which its operators make promises (see
`column_promises`).

A column that is the start of rows whose ends do not move progresses with the CTI; a window join
carries the times of both its sides on, with promises for each (`Node.progressing`). Only such a
column, or the start itself, can be the time of a join or a window.
"""

from __future__ import annotations

from thalweg.expr import Expr, is_monotone_in
from thalweg.plan.expressions import START
from thalweg.plan.nodes import Node

__all__ = ["progresses"]


def progresses(expr: Expr, node: Node) -> bool:
    """Whether rows that start at this expression would have promises.

    >>> import thalweg as tw
    >>> a = tw.source("a", {"k": "int64"})
    >>> pairs = a.window_join(a, "k", window=tw.band(before=1, after=1)).node
    >>> sorted(pairs.progressing), progresses(tw.col("left_time") + 1, pairs)
    (['left_time', 'right_time'], True)
    """
    return bool(expr.columns()) and is_monotone_in(expr, {START, *node.progressing})

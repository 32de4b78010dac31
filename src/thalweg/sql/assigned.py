"""A window as a query says it, before it is applied to a stream.

`apply` makes the windows of the rows of a stream (in groups); `by_start` says that membership goes by the time stamp of a
row and not by its lifetime; `window_end` is the expression, over an aggregated row and its start, for the end of its window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from thalweg.expr import Column, Expr, lit
from thalweg.plan.aggregates import AggregateCall, max_
from thalweg.plan.rules.substitution import START
from thalweg.stream import GroupedStream, WindowedStream

__all__ = ["AssignedWindow", "hop", "session", "snapshot"]

SESSION_LAST = "session_last"


@dataclass(frozen=True, slots=True)
class AssignedWindow:
    """How rows fall into windows."""

    name: str
    apply: Callable[[GroupedStream], WindowedStream]
    by_start: bool = True
    partition: tuple[str, ...] = ()
    """Columns whose values have windows of their own, whatever else is grouped."""
    window_end: Expr | None = None
    helper: tuple[str, AggregateCall] | None = None
    """An aggregate that `window_end` needs."""
    size: int | None = None
    hop: int | None = None
    offset: int = 0


def hop(size: int, step: int, offset: int = 0) -> AssignedWindow:
    """Windows of `size` that begin every `step`."""
    name = "TUMBLE" if size == step else "HOP"
    end = Column(START) + lit(size)
    return AssignedWindow(name, lambda rows: rows.hopping(size, step, offset=offset), window_end=end, size=size, hop=step, offset=offset)


def session(gap: int, partition: tuple[str, ...] = ()) -> AssignedWindow:
    """Windows of activity, closed by a pause of `gap`. A session ends `gap` after its last row."""
    end = Column(SESSION_LAST) + lit(gap)
    helper = (SESSION_LAST, max_(Column(START)))
    return AssignedWindow("SESSION", lambda rows: rows.session(gap), partition=partition, window_end=end, helper=helper)


def snapshot(partition: tuple[str, ...] = ()) -> AssignedWindow:
    """Windows between the instants at which something changes; rows last as long as they last."""
    return AssignedWindow("SNAPSHOT", lambda rows: rows.snapshot(), by_start=False, partition=partition)

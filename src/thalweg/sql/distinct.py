"""Aggregates of distinct values: COUNT(DISTINCT x), SUM(DISTINCT x), AVG(DISTINCT x).

Over windows of time a distinct value is a group of its own: the windows of (keys, x) have one row
for each value, and these rows are aggregated for each (keys, window):

    count(DISTINCT x) of W = count of { x : some row of W has x }

A FILTER makes the value null where it does not hold. MIN and MAX are the same with and without.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.expr import Case, Column, Expr
from thalweg.plan import aggregates
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.expressions import START
from thalweg.sql.assigned import AssignedWindow
from thalweg.stream import GroupedStream, Stream

__all__ = ["DISTINCT", "DistinctCall", "distinct_answer"]

DISTINCT = {"count": aggregates.count, "sum": aggregates.sum_, "avg": aggregates.avg}
"""Aggregates for which repeated values matter."""

_VALUE, _WINDOW = "_value", "_window"


@dataclass(frozen=True, slots=True)
class DistinctCall:
    """An aggregate of the distinct values of an expression."""

    function: str
    of: Expr
    where: Expr | None = None

    @property
    def value(self) -> Expr:
        return self.of if self.where is None else Case(((self.where, self.of),), None)

    def plain(self) -> AggregateCall:
        """The aggregate as it would be of all values: its type and its checks are the same."""
        return DISTINCT[self.function](self.of, where=self.where)

    def __str__(self) -> str:
        return f"{self.function}(distinct {self.value})"


def distinct_answer(
    stream: Stream, keys: tuple[str, ...], window: AssignedWindow, call: DistinctCall, name: str
) -> Stream:
    """One row for each group and window, with the aggregate of its distinct values."""
    valued = stream.with_columns(**{_VALUE: call.value})
    values = window.apply(GroupedStream(valued.node, (*keys, _VALUE))).aggregate(
        {"_rows": aggregates.count()}
    )
    by_window = values.with_columns(**{_WINDOW: Column(START)})
    answers = (
        GroupedStream(by_window.node, (*keys, _WINDOW))
        .snapshot()
        .aggregate({name: DISTINCT[call.function](Column(_VALUE))})
    )
    return answers.select(*keys, name)

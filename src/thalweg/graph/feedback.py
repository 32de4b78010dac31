"""Feedback: readers report upstream which rows they no longer need (section V-D of the LMerge
document).

A merge that has promised t has no use for rows of its inputs that end before t, and neither has a
reader that skips on purpose. Each operator translates that bound for its own inputs
(`Operator.unwanted`); an operator without a translation ends the way upstream. Where several read
one operator, the least bound counts. Operators then skip such rows before they process them and
drop those that they hold (`Operator.forget`), and sources skip them before admission. Promises are
passed on as before.

Rows that end at t or later are the same with and without feedback, at any moment, and no promise is
broken. Only inserts are skipped, and only of streams that have no adjusts: a row that was skipped
could otherwise be adjusted to end after t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from thalweg.graph.graph_operator import GraphOperator
from thalweg.model.time import MIN_TIME
from thalweg.operators.source.ingress import IngressKernel

__all__ = ["set_unwanted"]


def set_unwanted(operators: Sequence[GraphOperator], ends: Mapping[GraphOperator, int]) -> None:
    """Set on all operators the time before which rows that end are not needed. `operators` come
    after those they read; `ends` are the operators whose output leaves, each with that time."""
    bounds: dict[GraphOperator, list[int]] = {operator: [] for operator in operators}
    for operator, time in ends.items():
        bounds[operator].append(time)
    for operator in reversed(operators):
        least = min(bounds[operator], default=MIN_TIME)
        unwanted = operator.kernel.unwanted(least)
        operator.unwanted = unwanted if any(time > MIN_TIME for time in unwanted) else None
        if isinstance(operator.kernel, IngressKernel):
            operator.kernel.unwanted_before = least
        if operator.unwanted is not None:
            ports = zip_longest(operator.unwanted, operator.skips, fillvalue=False)
            operator.kernel.forget(least, tuple(t if skips else MIN_TIME for t, skips in ports))
        for above, time in zip(operator.before, unwanted, strict=False):
            bounds[above].append(time)

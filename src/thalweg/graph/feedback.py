"""Feedback: what is not wanted any more, from readers upstream (section V-D of the LMerge document).

A merge that has promised t has no use for rows of its inputs that end before t, and neither has a
reader that has fallen behind on purpose. Each operator says what that means for its own inputs
(`Operator.unwanted`); an operator that says nothing ends the way upstream. Where several read one
operator, the least of what they do not want counts. Operators then skip such rows before they work
on them and drop those that they hold (`Operator.forget`), and sources skip them before they judge
them. Promises go on.

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
    """Set on all operators the time before which nobody wants their rows. `operators` come after
    those they read; `ends` are the operators whose output leaves, each with that time."""
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

"""Operators in a row: each reads the one before it alone, and is its only reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from thalweg.graph.graph_operator import GraphOperator

__all__ = ["linear_runs"]


def linear_runs(
    operators: Iterable[GraphOperator], readers: Mapping[GraphOperator, int]
) -> list[list[GraphOperator]]:
    """The operators, each after those it reads, as the longest runs. `readers` counts the readers
    of each; an operator that reads none of these, or several operators, begins a run."""
    found: list[list[GraphOperator]] = []
    run_of: dict[GraphOperator, list[GraphOperator]] = {}
    for operator in operators:
        run: list[GraphOperator] | None = None
        if len(operator.before) == 1 and readers[operator.before[0]] == 1:
            run = run_of.get(operator.before[0])
        if run is None:
            run = []
            found.append(run)
        run.append(operator)
        run_of[operator] = run
    return found

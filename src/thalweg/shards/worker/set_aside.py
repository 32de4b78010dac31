"""Rows and windows that the operators of a fragment have set aside: late rows, rows in quarantine,
windows that a module failed on."""

from __future__ import annotations

import pyarrow as pa

from thalweg.graph.query_graph import QueryGraph
from thalweg.operators.source.ingress import IngressKernel
from thalweg.operators.window.modules.dead_letters import WritesLetters

__all__ = ["rows_set_aside", "take_dead_letters", "take_ledgers"]


def _ingresses(graph: QueryGraph) -> dict[str, IngressKernel]:
    kernels = {name: operator.kernel for name, operator in graph.sources.items()}
    return {name: kernel for name, kernel in kernels.items() if isinstance(kernel, IngressKernel)}


def rows_set_aside(graph: QueryGraph) -> int:
    """How many rows came late so far, or were set aside because of their clock."""
    kernels = _ingresses(graph).values()
    return sum(kernel.ledger.count + kernel.quarantined.count for kernel in kernels)


def take_ledgers(graph: QueryGraph) -> dict[str, pa.Table]:
    """By input: its late rows since the last call."""
    taken = {
        name: pa.concat_tables(
            [kernel.ledger.take(kernel.schema), kernel.quarantined.take(kernel.schema)]
        )
        for name, kernel in _ingresses(graph).items()
        if kernel.ledger.tables or kernel.quarantined.tables
    }
    return {name: table for name, table in taken.items() if len(table)}


def take_dead_letters(graph: QueryGraph) -> dict[str, pa.Table]:
    """By operator: the windows that its module failed on since the last call."""
    kernels = {operator.id: operator.kernel for operator in graph.operators}
    writers = {
        name: kernel.dead_letters
        for name, kernel in kernels.items()
        if isinstance(kernel, WritesLetters)
    }
    return {name: dead_letters.take() for name, dead_letters in writers.items() if dead_letters}

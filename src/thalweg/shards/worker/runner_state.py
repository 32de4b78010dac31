"""The state of a fragment in one bucket as slices: those of its operators, and one slice with the
memory of the runner itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from thalweg.graph.query_graph import QueryGraph
from thalweg.model.progress import Progress
from thalweg.model.rows import Rows
from thalweg.operators.base import progress_of_slice, slice_of_progress
from thalweg.plan.explain import operator_ids
from thalweg.shards.fragments.fragment import Fragment
from thalweg.shards.state.signatures import operator_and_slice, signature_of, slice_name

__all__ = [
    "MEMORY_SLICE",
    "RunnerMemory",
    "operator_signatures",
    "restore_graph",
    "slices_of_graph",
]

MEMORY_SLICE = "progress"
"""The slice with the memory of the runner."""


@dataclass(frozen=True, slots=True)
class RunnerMemory:
    inputs: Mapping[str, Mapping[str, Any]]
    """By input: its `InputMemory`, as JSON."""
    progress: Progress
    """The promises to the readers of the fragment."""
    arcs: Mapping[str, Sequence[str]]
    """By operator: the progress that has arrived at its ports (see `QueryGraph.arcs`)."""

    def to_rows(self) -> Rows:
        return pa.RecordBatch.from_arrays(
            [
                pa.array([json.dumps(self.inputs)]),
                slice_of_progress([self.progress]).column(0),
                pa.array([json.dumps(self.arcs)]),
            ],
            names=["memory", "progress", "arcs"],
        )

    @classmethod
    def of_rows(cls, rows: Rows) -> Self:
        (progress,) = progress_of_slice(rows.select(["progress"]))
        memory, arcs = (json.loads(rows.column(name)[0].as_py()) for name in ("memory", "arcs"))
        return cls(memory, progress, arcs)


def slices_of_graph(graph: QueryGraph) -> dict[str, Rows]:
    """The slices of all operators, by the names under which they are stored."""
    return {
        slice_name(operator, name): rows
        for operator, slices in graph.snapshot().items()
        for name, rows in slices.items()
    }


def restore_graph(graph: QueryGraph, slices: Mapping[str, Rows]) -> None:
    """The inverse of `slices_of_graph`; slices of operators that do not exist are ignored."""
    state: dict[str, dict[str, Rows]] = {operator.id: {} for operator in graph.operators}
    for name, rows in slices.items():
        operator, part = operator_and_slice(name)
        if operator in state:
            state[operator][part] = rows
    graph.restore(state)


def operator_signatures(fragment: Fragment, graph: QueryGraph) -> dict[str, str]:
    """By operator: its signature. State fits only an operator with the same signature."""
    names = {identity: node for node, identity in operator_ids(fragment.plan).items()}
    found = {}
    for operator in graph.operators:
        node = names.get(operator.id)
        text = operator.id
        if node is not None:
            text = f"{node.signature}, kept by {type(operator.kernel).__name__}"
        found[operator.id] = signature_of(text, keeps_state=bool(operator.kernel.snapshot()))
    return found

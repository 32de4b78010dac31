"""The report of a fragment in one bucket: what it has promised and waits for, as a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from thalweg.graph.query_graph import QueryGraph
from thalweg.graph.why import Why, explain_wait, late_counts, notes_of
from thalweg.model.progress import Progress
from thalweg.model.time import MIN_TIME
from thalweg.operators.merging.named_inputs import NamedInputsKernel
from thalweg.plan.nodes import MergedSource
from thalweg.shards.fragment_input import FragmentInput

__all__ = ["report_of"]


def report_of(
    graph: QueryGraph,
    inputs: Mapping[str, FragmentInput],
    progress: Progress,
    oldest: int | None,
) -> dict[str, Any]:
    """The promise, the waits and the notes of a bucket. `oldest` is the time of a row that waits
    for the first promise."""
    why = explain_wait(graph, progress, None)
    waits = missing = _waits(why, inputs)
    if progress.cti == MIN_TIME and oldest is not None:
        missing = _waits(explain_wait(graph, progress, oldest), inputs)
    newest = (input_.memory.newest for input_ in inputs.values())
    warnings = [text for i in inputs.values() for text in i.memory.warnings()]
    return {
        "promise": why.promise,
        "waits": waits,
        "missing": missing,
        "notes": [*notes_of(graph), *warnings],
        "late": _late(graph, inputs),
        "newest": max((time for time in newest if time is not None), default=None),
        "merged": {
            name: operator.kernel.standing()
            for name, operator in graph.sources.items()
            if isinstance(operator.kernel, NamedInputsKernel)
        },
    }


def _late(graph: QueryGraph, inputs: Mapping[str, FragmentInput]) -> dict[str, dict[str, int]]:
    """By source and input: how many rows came late. Inputs that read one source see the same
    rows."""
    late: dict[str, dict[str, int]] = {}
    for name, count in late_counts(graph).items():
        source = inputs[name].entry.source
        if source is not None:
            late.setdefault(source.name, {})[name] = count + inputs[name].memory.late
    return late


def _waits(why: Why, inputs: Mapping[str, FragmentInput]) -> list[dict[str, Any]]:
    """What is waited for, with the sources and fragments that the inputs stand for."""
    waits = [
        asdict(wait) | {"path": [asdict(step) for step in wait.path], "upstream": None}
        for wait in why.waits
    ]
    for wait in waits:
        entry, memory = inputs[wait["source"]].entry, inputs[wait["source"]].memory
        if entry.source is None:
            wait["since"], wait["release"] = memory.source.since, []
            wait["upstream"] = entry.upstream
            continue
        if not inputs[wait["source"]].sees_rows and not isinstance(entry.source, MergedSource):
            wait["since"] = memory.source.since
            wait["release"] = memory.needed(wait["needs"], entry.source.clock)
        wait["source"] = entry.source.name
    return waits

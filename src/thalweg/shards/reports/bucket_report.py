"""The report of a fragment in one bucket after a micro-batch: its promise, the promises it waits
for, and the figures of its operators. It is sent as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from thalweg.graph.graph_operator import OperatorFigures
from thalweg.graph.query_graph import QueryGraph
from thalweg.graph.why import Step, Wait, Why, explain_wait, late_counts, notes_of
from thalweg.model.progress import Progress
from thalweg.model.time import MIN_TIME
from thalweg.operators.merging.named_inputs import NamedInputsKernel
from thalweg.plan.nodes import MergedSource
from thalweg.shards.worker.fragment_input import FragmentInput

__all__ = ["BucketReport", "ReportedWait", "report_of"]


@dataclass(frozen=True, slots=True)
class ReportedWait:
    """A source, or the fragment that an input comes from, that a bucket waits for."""

    wait: Wait
    upstream: int | None = None
    """The number of that fragment."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> ReportedWait:
        wait = dict(fields["wait"])
        path = tuple(Step(**step) for step in wait.pop("path"))
        release = tuple(wait.pop("release"))
        return cls(Wait(**wait, release=release, path=path), fields["upstream"])


@dataclass(frozen=True, slots=True)
class BucketReport:
    fragment: int
    promise: int
    waits: tuple[ReportedWait, ...] = ()
    missing: tuple[ReportedWait, ...] = ()
    """Promises to ask of sources that promise on demand: as `waits`; before the first promise those
    that the oldest row waits for."""
    notes: tuple[str, ...] = ()
    late: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By source and input: how many rows came late."""
    newest: int | None = None
    """The largest sync time that any source has shown."""
    merged: Mapping[str, Any] = field(default_factory=dict)
    """By merge: its leader, and the progress of each of its inputs."""
    stuck: tuple[str, ...] = ()
    """Warnings about inputs that hold up the others."""
    operators: Mapping[str, OperatorFigures] = field(default_factory=dict)
    """By operator: its figures for the micro-batch, and its state."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BucketReport:
        return cls.from_fields(json.loads(text))

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> BucketReport:
        """From what JSON has read: an error where a field is missing or has another form."""
        waits, missing = (
            tuple(map(ReportedWait.from_fields, fields[name])) for name in ("waits", "missing")
        )
        operators = {name: OperatorFigures(**done) for name, done in fields["operators"].items()}
        report = cls(
            **{**fields, "waits": waits, "missing": missing, "operators": operators},
        )
        return replace(
            report,
            fragment=int(report.fragment),
            promise=int(report.promise),
            notes=tuple(report.notes),
            stuck=tuple(report.stuck),
        )


def report_of(
    fragment: int,
    graph: QueryGraph,
    inputs: Mapping[str, FragmentInput],
    progress: Progress,
    oldest: int | None,
) -> BucketReport:
    """The promise, the waits and the notes of a bucket. `oldest` is the time of a row that waits
    for the first promise."""
    why = explain_wait(graph, progress, None)
    waits = missing = _waits(why, inputs)
    if progress.cti == MIN_TIME and oldest is not None:
        missing = _waits(explain_wait(graph, progress, oldest), inputs)
    newest = (input_.memory.newest for input_ in inputs.values())
    warnings = [text for i in inputs.values() for text in i.memory.warnings()]
    return BucketReport(
        fragment,
        why.promise,
        waits,
        missing,
        notes=(*notes_of(graph), *warnings),
        late=_late(graph, inputs),
        newest=max((time for time in newest if time is not None), default=None),
        merged={
            name: operator.kernel.standing()
            for name, operator in graph.sources.items()
            if isinstance(operator.kernel, NamedInputsKernel)
        },
    )


def _late(graph: QueryGraph, inputs: Mapping[str, FragmentInput]) -> dict[str, dict[str, int]]:
    """By source and input: how many rows came late. Inputs that read one source see the same
    rows."""
    late: dict[str, dict[str, int]] = {}
    for name, count in late_counts(graph).items():
        source = inputs[name].entry.source
        if source is not None:
            late.setdefault(source.name, {})[name] = count + inputs[name].memory.late
    return late


def _waits(why: Why, inputs: Mapping[str, FragmentInput]) -> tuple[ReportedWait, ...]:
    """The waits of a bucket, with the sources and fragments that its inputs read."""
    return tuple(_reported(wait, inputs[wait.source]) for wait in why.waits)


def _reported(wait: Wait, input_: FragmentInput) -> ReportedWait:
    entry, memory = input_.entry, input_.memory
    source = entry.source
    if source is None:
        return ReportedWait(replace(wait, since=memory.source.since, release=()), entry.upstream)
    wait = replace(wait, source=source.name)
    if not input_.sees_rows and not isinstance(source, MergedSource):
        release = tuple(memory.needed(wait.needs, source.clock))
        wait = replace(wait, since=memory.source.since, release=release)
    return ReportedWait(wait)

"""The reports of all buckets of all fragments, combined: the promises that the query waits for, and
the figures of each operator.

A bucket reports only on its own fragment. So where the last fragment waits for an earlier one, the
wait is followed to the bucket of that fragment that has promised least.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from thalweg.errors import StateError
from thalweg.graph.graph_operator import OperatorFigures
from thalweg.graph.why import Step, Wait, Why, late_notes
from thalweg.io.whole_files import write_whole
from thalweg.model.time import MIN_TIME
from thalweg.shards.reports.bucket_report import BucketReport

__all__ = [
    "combined_figures",
    "combined_why",
    "notes_of_reports",
    "read_reports",
    "write_reports",
]


def _file(checkpoint: Path) -> Path:
    return checkpoint / "thalweg" / "reports.json"


def write_reports(
    checkpoint: Path, batch: int, reports: Sequence[BucketReport], *, run: str = ""
) -> None:
    """Write the reports of a micro-batch to the checkpoint, for tools outside the query. Nothing
    depends on them.

    There are two writers, of which one may lag: within a run, an earlier micro-batch never replaces
    a later one.
    """
    file = _file(checkpoint)
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
        if saved["run"] == run and saved["batch"] > batch:
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none yet, or one that cannot be read
    content = {"run": run, "batch": batch, "reports": [asdict(report) for report in reports]}
    with contextlib.suppress(OSError):  # Spark itself reports a checkpoint that was removed
        write_whole(file, json.dumps(content), durable=False)


def read_reports(checkpoint: Path) -> tuple[int, list[BucketReport]]:
    """The number of the last micro-batch that left reports, and the reports."""
    try:
        content = json.loads(_file(checkpoint).read_text(encoding="utf-8"))
        reports = [BucketReport.from_fields(fields) for fields in content["reports"]]
        for report in reports:
            list(_waits(reports, report, ()))  # the fragments that it waits for have reports too
        return int(content["batch"]), reports
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as reason:
        raise StateError(
            f"{checkpoint.name} has no report: no query has run a micro-batch with it yet, or it is"
            " damaged."
        ) from reason


def combined_why(reports: Sequence[BucketReport], time: int | None = None) -> Why:
    """Why the answers that start at `time` are not final (by default: the first time that is not).
    The waits named release the first of them."""
    if not reports:
        return Why(
            MIN_TIME if time is None else time, MIN_TIME, (), ("no micro-batch has run yet",)
        )
    last = max(report.fragment for report in reports)
    slowest = _slowest(reports, last)
    promise = slowest.promise
    target = promise if time is None else time
    notes = notes_of_reports(reports)
    if promise > target:
        return Why(target, promise, (), notes)
    return Why(target, promise, tuple(_waits(reports, slowest, ())), notes)


def notes_of_reports(reports: Sequence[BucketReport]) -> tuple[str, ...]:
    """The notes of all buckets, each once; of late rows, how many in all."""
    late: dict[str, Counter[str]] = {}
    for report in reports:
        for source, counts in report.late.items():
            late.setdefault(source, Counter()).update(counts)
    counts = {source: max(by_input.values()) for source, by_input in sorted(late.items())}
    return (
        *late_notes(counts),
        *dict.fromkeys(note for report in reports for note in report.notes),
    )


def _slowest(reports: Sequence[BucketReport], fragment: int) -> BucketReport:
    return min(
        (report for report in reports if report.fragment == fragment),
        key=lambda report: report.promise,
    )


def _waits(
    reports: Sequence[BucketReport], report: BucketReport, path: tuple[Step, ...]
) -> Iterator[Wait]:
    """The sources that a bucket waits for, directly or through the fragments that it reads; each
    source once."""
    named: set[str] = set()
    for entry in report.waits:
        steps = [
            replace(step, operator=f"{report.fragment}/{step.operator}") for step in entry.wait.path
        ]
        whole_path = (*path, *steps)
        found: Iterable[Wait] = (
            [replace(entry.wait, path=whole_path)]
            if entry.upstream is None
            else _waits(reports, _slowest(reports, entry.upstream), whole_path)
        )
        for wait in found:
            if wait.source not in named:
                named.add(wait.source)
                yield wait


def combined_figures(reports: Sequence[BucketReport]) -> dict[str, OperatorFigures]:
    """The figures of each operator over all buckets, by fragment and id."""
    return sum_figures(
        {f"{report.fragment}/{operator}": done for operator, done in report.operators.items()}
        for report in reports
    )


def sum_figures(parts: Iterable[Mapping[str, OperatorFigures]]) -> dict[str, OperatorFigures]:
    """The sum of the figures of each operator."""
    total: dict[str, OperatorFigures] = {}
    for figures in parts:
        for name, done in figures.items():
            total[name] = total.get(name, OperatorFigures()) + done
    return total

"""What all buckets of all fragments report, put together: what the query waits for, and what each operator did.

A bucket knows its own fragment. So what the last fragment waits for from an earlier one is followed there, to the bucket of it that
has promised least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thalweg.graph.stations import OperatorFigures
from thalweg.graph.why import Step, Wait, Why
from thalweg.model.time import MIN_TIME

__all__ = ["combined_figures", "combined_why"]

Report = Mapping[str, Any]
_FRAGMENT = "fragment-"


def combined_why(reports: Sequence[Report], time: int | None = None) -> Why:
    """Why what starts at `time` is not final (by default: the first time that is not). What is named releases the first of it."""
    if not reports:
        return Why(MIN_TIME if time is None else time, MIN_TIME, (), ("no micro-batch has run yet",))
    last = max(report["fragment"] for report in reports)
    slowest = _slowest(reports, last)
    promise = int(slowest["promise"])
    wanted = promise if time is None else time
    notes = tuple(dict.fromkeys(note for report in reports for note in report["notes"]))
    if promise > wanted:
        return Why(wanted, promise, (), notes)
    return Why(wanted, promise, tuple(_waits(reports, slowest, ())), notes)


def _slowest(reports: Sequence[Report], fragment: int) -> Report:
    return min((report for report in reports if report["fragment"] == fragment), key=lambda report: int(report["promise"]))


def _waits(reports: Sequence[Report], report: Report, path: tuple[Step, ...]) -> Iterator[Wait]:
    named: set[str] = set()
    for told in report["waits"]:
        steps = (*path, *(Step(f"{report['fragment']}/{step[0]}", *step[1:]) for step in told["path"]))
        source = told["source"]
        if source.startswith(_FRAGMENT) and not told["release"]:
            found = _waits(reports, _slowest(reports, int(source.removeprefix(_FRAGMENT))), steps)
        else:
            found = iter([Wait(source, told["needs"], told["has"], told["since"], tuple(told["release"]), steps)])
        for wait in found:
            if wait.source not in named:
                named.add(wait.source)
                yield wait


def combined_figures(reports: Sequence[Report]) -> dict[str, OperatorFigures]:
    """The figures of each operator over all buckets, by fragment and id."""
    total: dict[str, OperatorFigures] = {}
    for report in reports:
        for operator, figures in report["operators"].items():
            name = f"{report['fragment']}/{operator}"
            total[name] = total.get(name, OperatorFigures()) + OperatorFigures(*figures)
    return total

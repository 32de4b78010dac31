"""A source behind an update queue: only the newest row of each key, or the newest window, matters.

What may stand behind such a source: `update_streams`.
"""

from __future__ import annotations

from dataclasses import replace

from thalweg.errors import PlanError, WindowError, did_you_mean, require_choice
from thalweg.plan.nodes import Node, Source
from thalweg.progress.conflation import SCHEDULE_NAMES, WINDOW_RULES, Conflation, NewestWindow

__all__ = ["conflating_source", "newest_window"]


def conflating_source(node: Node, conflation: Conflation) -> Source:
    """A source behind an update queue. Promises by disorder are made where rows enter the queue."""
    if not isinstance(node, Source):
        raise PlanError(
            f"update_key: an update queue stands before a source, not behind {node.label}; call it "
            "on the source."
        )
    where = f"source {node.name!r}, update_key"
    _check_queue(conflation, where)
    _check_source(node, where)
    entry = node.ingress
    return replace(
        node,
        ingress=replace(entry, disorder=None, period=None),
        declared=node.declared.but(ordered=False),
        conflation=replace(conflation, disorder=entry.disorder),
    )


def _check_queue(queue: Conflation, where: str) -> None:
    """Refuse settings that do not go together."""
    require_choice(queue.schedule, SCHEDULE_NAMES, f"{where}: schedule")
    if queue.targets and queue.schedule != "deadline":
        raise PlanError(
            f"{where}: targets of single keys are met by schedule='deadline' alone; leave targets= "
            f"out, or {queue.schedule!r}."
        )
    for values, _ in queue.targets:
        if len(values) != len(queue.key):
            raise PlanError(
                f"{where}: the target of {values!r} names {len(values)} values; the key has "
                f"{len(queue.key)} columns."
            )
    if queue.truth is not None and queue.truth not in queue.inputs:
        raise PlanError(
            f"{where}: truth={queue.truth!r} is none of the inputs"
            f"{did_you_mean(queue.truth, queue.inputs)} They are: "
            f"{', '.join(queue.inputs) or 'none'}."
        )
    if queue.adaptive and queue.freshness is None:
        raise PlanError(
            f"{where}: adaptive=True needs freshness=: all rows are served as long as that is kept."
        )
    if queue.adaptive and queue.inputs:
        raise PlanError(
            f"{where}: adaptive=True serves all rows, and inputs= leaves out rows that another "
            "input has had already; choose one."
        )


def _check_source(source: Source, where: str) -> None:
    """Refuse a source whose declarations a queue cannot keep."""
    if not source.declared.insert_only:
        raise PlanError(
            f"{where}: rows that are replaced cannot be adjusted; declare the source with "
            "insert_only=True."
        )
    entry = source.ingress
    if entry.observed or entry.partition is not None or entry.quarantine is not None:
        raise PlanError(
            f"{where}: rows leave a queue in another order than they came, so policies that follow "
            "the rows cannot stand behind it; give disorder=, or CTIs in the data."
        )


def newest_window(node: Node, window: NewestWindow) -> Source:
    """The same source, with whole windows of each key as its queue's unit."""
    if not isinstance(node, Source) or node.conflation is None:
        raise PlanError(
            "newest_window: windows are served by the queue before a source; call it right behind "
            "update_key."
        )
    if node.conflation.inputs or node.conflation.targets:
        raise PlanError("newest_window: inputs= and targets= of update_key are for single rows.")
    if node.conflation.adaptive:
        raise PlanError(
            "newest_window: adaptive=True of update_key serves all rows while it can; windows of "
            "all rows need no queue of windows."
        )
    require_choice(window.rule, WINDOW_RULES, "newest_window: rule")
    if window.hop > window.size:
        raise WindowError(
            f"newest_window: windows of {window.size} every {window.hop} leave rows out; hop must "
            "not be larger than size."
        )
    key = node.conflation.key
    served = node.declared.but(constant_duration=1, group_ctis=bool(key), group_keys=key)
    return replace(node, conflation=replace(node.conflation, window=window), declared=served)

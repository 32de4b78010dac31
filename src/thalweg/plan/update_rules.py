"""What may stand behind a conflating source: the rules of update streams, checked when a query is
built.

A row of an update stream replaces the row before it of its key, and rows may have been left out. So
an operator must keep the key visible in its output, and must not mistake the rows that are there
for all rows that were:

| operator | allowed |
| --- | --- |
| filter | always |
| map, lifetimes | if the key's columns are passed on unchanged (they may be renamed) |
| newest row per key (`edges`) | on the key: each row lasts until the next of its key |
| join | of two streams of newest rows, on both keys: then it joins the newest with the newest |
| aggregate of `newest_window` | by key and mark, the start of rows: whole windows are served |
| other windows and aggregates | refused: a window would be answered from the rows that are left |
| union | as named inputs of one source, whose queue drops what is older; else refused |
| everything else | refused |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from thalweg.errors import PlanError, WindowError, did_you_mean
from thalweg.expr import col
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes import (
    ClipBy,
    Join,
    Node,
    SelectMany,
    Source,
    Union,
    WindowAggregate,
)
from thalweg.plan.nodes.families import GroupedOperator, columns_of
from thalweg.progress.conflation import (
    SCHEDULE_NAMES,
    WINDOW_RULES,
    Conflation,
    NewestWindow,
)
from thalweg.windows.kinds import HoppingWindow

__all__ = ["UpdateStream", "check_update_rules", "conflating_source", "newest_window"]


@dataclass(frozen=True, slots=True)
class UpdateStream:
    """The output of a node over a conflating source."""

    keys: Keys
    source: str
    newest: bool = False
    """At every time there is one row of each key: the newest."""
    window: NewestWindow | None = None
    """Its rows are those of whole windows, and all start where their window does: the mark."""


_CHECKED: WeakKeyDictionary[Node, UpdateStream | None] = WeakKeyDictionary()


def conflating_source(
    node: Node,
    key: tuple[str, ...],
    *,
    schedule: str,
    freshness: int | None,
    capacity: int,
    targets: tuple[tuple[tuple[Any, ...], int], ...] = (),
    inputs: tuple[str, ...] = (),
    truth: str | None = None,
    adaptive: bool = False,
) -> Source:
    """A source behind an update queue. Promises by disorder are made where rows enter the queue."""
    if not isinstance(node, Source):
        raise PlanError(
            f"update_key: an update queue stands before a source, not behind {node.label}; call it "
            "on the source."
        )
    where = f"source {node.name!r}, update_key"
    if schedule not in SCHEDULE_NAMES:
        raise PlanError(
            f"{where}: no schedule {schedule!r}{did_you_mean(schedule, SCHEDULE_NAMES)} There are: "
            f"{', '.join(SCHEDULE_NAMES)}."
        )
    if targets and schedule != "deadline":
        raise PlanError(
            f"{where}: targets of single keys are met by schedule='deadline'; {schedule!r} knows "
            "none."
        )
    for values, _ in targets:
        if len(values) != len(key):
            raise PlanError(
                f"{where}: the target of {values!r} names {len(values)} values; the key has "
                f"{len(key)} columns."
            )
    if not node.declared.insert_only:
        raise PlanError(
            f"{where}: rows that are replaced cannot be adjusted; declare the source with "
            "insert_only=True."
        )
    entry = node.ingress
    if entry.observed or entry.partition is not None or entry.quarantine is not None:
        raise PlanError(
            f"{where}: rows leave a queue in another order than they came, so policies that follow "
            "the rows cannot stand behind it; give disorder=, or CTIs in the data."
        )
    if truth is not None and truth not in inputs:
        raise PlanError(
            f"{where}: truth={truth!r} is none of the inputs{did_you_mean(truth, inputs)} They are:"
            f" {', '.join(inputs) or 'none'}."
        )
    if adaptive and freshness is None:
        raise PlanError(
            f"{where}: adaptive=True needs freshness=: all rows are served as long as that is kept."
        )
    if adaptive and inputs:
        raise PlanError(
            f"{where}: adaptive=True serves all rows, and inputs= leaves out those that another "
            "input has said; choose one."
        )
    conflation = Conflation(
        key,
        schedule,
        freshness,
        capacity,
        entry.disorder,
        targets,
        inputs,
        truth,
        adaptive=adaptive,
    )
    unordered = node.declared.but(ordered=False)
    return replace(
        node,
        ingress=replace(entry, disorder=None, period=None),
        declared=unordered,
        conflation=conflation,
    )


def check_update_rules(node: Node) -> UpdateStream | None:
    """What kind of update stream a node gives, None for a stream of all rows; raises where a rule
    is broken."""
    if node not in _CHECKED:
        _CHECKED[node] = _derive(node)
    return _CHECKED[node]


def _derive(node: Node) -> UpdateStream | None:
    if isinstance(node, Source):
        if node.conflation is None:
            return None
        return UpdateStream(
            tuple(col(name) for name in node.conflation.key),
            node.name,
            window=node.conflation.window,
        )
    below = [check_update_rules(each) for each in node.inputs]
    found = next((side for side in below if side is not None), None)
    if found is None:
        return None
    if isinstance(node, Join):
        return _join(node, below, found)
    if isinstance(node, ClipBy):
        return _clip(node, below, found)
    if isinstance(node, Union):
        raise _refusal(
            node,
            found,
            "a union would give rows that a younger one of the other input has replaced. Feed both "
            "inputs to one source, update_key(inputs=(...), truth=...): its queue keeps the "
            "youngest row of each key",
        )
    if isinstance(node, WindowAggregate) and _goes_by_mark(node, found):
        return UpdateStream(found.keys, found.source)
    if isinstance(node, GroupedOperator) and node.covers_windows:
        raise _refusal(node, found, _window_reason(node, found))
    if isinstance(node, SelectMany):
        raise _refusal(node, found, "a key would get several rows at one time")
    if not node.row_by_row:
        raise _refusal(
            node, found, "it would be computed from the rows that are left, not from all rows"
        )
    keys = node.result_keys(found.keys)
    if keys is None:
        raise _refusal(
            node,
            found,
            f"the update key ({_show(found.keys)}) must be passed on unchanged; it may be renamed",
        )
    if found.window is not None and not node.before_exchange:
        raise _refusal(node, found, "rows of served windows start where their window does")
    return UpdateStream(keys, found.source, found.newest, found.window)


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
    if window.rule not in WINDOW_RULES:
        raise PlanError(
            f"newest_window: no rule {window.rule!r}{did_you_mean(window.rule, WINDOW_RULES)} There"
            f" are: {', '.join(WINDOW_RULES)}."
        )
    if window.hop > window.size:
        raise WindowError(
            f"newest_window: windows of {window.size} every {window.hop} leave rows out; hop must "
            "not be larger than size."
        )
    key = node.conflation.key
    served = node.declared.but(constant_duration=1, group_ctis=bool(key), group_keys=key)
    return replace(node, conflation=replace(node.conflation, window=window), declared=served)


def _goes_by_mark(node: WindowAggregate, found: UpdateStream) -> bool:
    """One answer for each window that was served: windows start at multiples of the hop, so rows in
    one tumbling window of that size have one mark."""
    served = found.window
    return (
        served is not None
        and node.window == HoppingWindow(served.hop, served.hop, 0)
        and columns_of(*found.keys) <= set(node.grouping)
    )


def _window_reason(node: GroupedOperator, found: UpdateStream) -> str:
    if not columns_of(*found.keys) <= set(node.grouping):
        return (
            f"the groups must contain the update key ({_show(found.keys)}); rows of different keys "
            "would be mixed of which some are left out"
        )
    return (
        "a window that lost rows in the queue must have no answer, and this one would answer from "
        "the rows that are left. Let the queue serve whole windows (newest_window), aggregate "
        "before the queue, or use a source of all rows"
    )


def _clip(node: ClipBy, below: list[UpdateStream | None], found: UpdateStream) -> UpdateStream:
    keyed = {str(key) for key in found.keys}
    if not node.of_itself or below[0] is None or {str(key) for key in node.left_keys} != keyed:
        raise _refusal(
            node, found, f"rows may only be cut by the next row of their key ({_show(found.keys)})"
        )
    return UpdateStream(found.keys, found.source, newest=True)


def _join(node: Join, below: list[UpdateStream | None], found: UpdateStream) -> UpdateStream:
    if any(side is None for side in below):
        raise _refusal(node, found, "both sides of a join must be update streams, or none of them")
    left, right = (side for side in below if side is not None)
    if not (left.newest and right.newest):
        raise _refusal(
            node,
            found,
            "only the newest match counts: let each row last until the next of its key first, by "
            f"edges({_show(found.keys)!r}) on both sides",
        )
    pairs = {
        (str(left_key), str(right_key))
        for left_key, right_key in zip(node.left_keys, node.right_keys, strict=True)
    }
    needed = {
        (str(left_key), str(right_key))
        for left_key, right_key in zip(left.keys, right.keys, strict=False)
    }
    if len(left.keys) != len(right.keys) or not needed <= pairs:
        raise _refusal(
            node,
            found,
            f"the keys ({_show(left.keys)}) and ({_show(right.keys)}) must be equal in it",
        )
    keys = node.result_keys(left.keys, right.keys)
    if keys is None:
        raise _refusal(node, found, "the update key must be among its result columns")
    return UpdateStream(keys, found.source, newest=True)


def _refusal(node: Node, found: UpdateStream, reason: str) -> PlanError:
    return PlanError(
        f"{node.label} over {found.source!r}, which keeps only the newest row of each key: "
        f"{reason}."
    )


def _show(keys: Keys) -> str:
    return ", ".join(str(key) for key in keys) or "none"

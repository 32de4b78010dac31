"""The laws of modules, one function each: given a window of random rows they return, or raise
`Broken`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.testing._module_trial import (
    Broken,
    Row,
    Trial,
    cells_of,
    require_equal,
    require_same,
    rows_found,
    shown_rows,
)
from thalweg.testing.compare import difference
from thalweg.testing.identity import identity, order
from thalweg.udm import Module

__all__ = ["LAWS", "Law"]


def types(trial: Trial) -> None:
    """Every output fits the declared columns, and none is stamped before its window."""
    found = trial.answer() if trial.inside() else []
    if trial.module.stamp in ("keep", "time-bound"):
        early = [row for row in found if row[0] < trial.window.start]
        if early:
            raise Broken(f"an output is stamped before the window: {early[0]}")


def deterministic(trial: Trial) -> None:
    """The same rows give the same answer: of another object, and of the same one again."""
    rows = trial.inside()
    if rows:
        caller = trial.caller()
        first, again = (rows_found(caller.compute(cells_of(trial, [rows]))) for _ in range(2))
        require_same(first, again, "two calls of one object differ")
        require_same(first, trial.answer(), "calls of two objects differ")


def any_order(trial: Trial) -> None:
    """Shuffled rows give the same answer."""
    rows = trial.inside()
    if rows:
        shuffled = Random(trial.seed).sample(rows, len(rows))
        require_same(trial.answer(rows), trial.answer(shuffled), "another order of the rows")


def steps(trial: Trial) -> None:
    """Adding rows in two steps is adding them at once; and it is what `compute` gives, where there
    is one."""
    first, second = trial.halves()
    own = trial.own()
    if not first:
        return
    whole = trial.result(own, own.add(own.empty(), trial.shaped(first + second)))
    parts = trial.result(
        own, own.add(own.add(own.empty(), trial.shaped(first)), trial.shaped(second))
    )
    require_equal(trial, parts, whole, "in two steps against at once")
    if "compute" in trial.module.methods:
        extra = (trial.window,) if trial.module.time_sensitive else ()
        require_equal(
            trial,
            whole,
            own.compute(trial.shaped(first + second), *extra),
            "add and result against compute",
        )


def remove_undoes_add(trial: Trial) -> None:
    """Removing some of the rows added gives the result of the others: for the last rows, the first
    ones, and a random choice."""
    first, second = trial.halves()
    rows = first + second
    random = Random(trial.seed)
    chosen = [random.random() < 0.5 for _ in rows]
    random_split = (
        [row for row, is_removed in zip(rows, chosen, strict=True) if not is_removed],
        [row for row, is_removed in zip(rows, chosen, strict=True) if is_removed],
    )
    own = trial.own()
    for kept, removed in ((first, second), (second, first), random_split):
        if not kept:
            continue
        alone = trial.result(own, own.add(own.empty(), trial.shaped(kept)))
        added = own.add(own.add(own.empty(), trial.shaped(first)), trial.shaped(second))
        left = own.remove(added, trial.shaped(removed))
        require_equal(trial, trial.result(own, left), alone, "after removing against without")


def merging(trial: Trial) -> None:
    """Merging is associative and agrees with adding; saved states are as good as the states
    themselves."""
    first, second = trial.halves()
    own = trial.own()
    if not second:
        return
    third = second[: len(second) // 2]
    rest = second[len(second) // 2 :]

    def state(rows: list[Row]) -> Any:
        added = own.add(own.empty(), trial.shaped(rows))
        return own.load(own.save(added)) if "save" in trial.module.methods else added

    whole = trial.result(own, own.add(own.empty(), trial.shaped(first + second)))
    left = own.merge(own.merge(state(first), state(third)), state(rest))
    right = own.merge(state(first), own.merge(state(third), state(rest)))
    require_equal(
        trial,
        trial.result(own, left),
        trial.result(own, right),
        "merging from the left against from the right",
    )
    require_equal(trial, trial.result(own, left), whole, "merged against added")


def in_columns(trial: Trial) -> None:
    """All windows in one call give what each of them gives alone."""
    first, second = trial.halves()
    windows = [rows for rows in (first, second, first + second) if rows]
    answers = trial.caller().compute(cells_of(trial, windows))
    for at, rows in enumerate(windows):
        require_same(
            rows_found(answers, at),
            trial.answer(rows),
            f"window {at} of {len(windows)} in one call against alone",
        )


def partials(trial: Trial) -> None:
    """Merged partial states give the result of the whole."""
    first, second = trial.halves()
    if not second:
        return
    own = trial.own()
    apart, whole = cells_of(trial, [first, second]), cells_of(trial, [first + second])
    if trial.module.nulls == "skip":
        apart, whole = apart.without_nulls(), whole.without_nulls()
    merged = own.merge_groups(own.partials(apart.rows, apart.offsets), np.array([0, 2]))
    merged_result, whole_result = (
        pa.array(own.results(states))[0].as_py()
        for states in (merged, own.partials(whole.rows, whole.offsets))
    )
    require_equal(trial, merged_result, whole_result, "merged partials against the whole")


def ignores_ends(trial: Trial) -> None:
    """Rows with other ends give the same answer."""
    rows = trial.inside()
    if rows:
        random = Random(trial.seed)
        other = [
            (start, max(start, trial.window.start) + random.randint(1, 9), payload)
            for start, _, payload in rows
        ]
        require_same(trial.answer(rows), trial.answer(other), "other ends")


def time_bound(trial: Trial) -> None:
    """A change at time t changes no output before t: one row more, and one row with another end."""
    rows = trial.inside()
    if len(rows) < 2:
        return
    at = Random(trial.seed).randrange(len(rows))
    without = [*rows[:at], *rows[at + 1 :]]
    _unchanged_before(rows[at][0], trial.answer(without), trial.answer(rows))
    start, end, payload = rows[at]
    longer = [*without, (start, end + 3, payload)]
    longer.sort(key=lambda row: (row[0], [order(value) for value in row[2].values()], row[1]))
    _unchanged_before(end, trial.answer(rows), trial.answer(longer))


def _unchanged_before(time: int, left: list[Row], right: list[Row]) -> None:
    early = [[(s, min(e, time), p) for s, e, p in rows if s < time] for rows in (left, right)]
    if difference(*early) is not None:
        raise Broken(
            f"a change at {time} changed what lies before it: {shown_rows(early[0])} against "
            f"{shown_rows(early[1])}"
        )


def filters(trial: Trial) -> None:
    """Filtering by columns that commute gives the same before and after the module."""
    rows = trial.inside()
    for name in trial.module.properties.commutes_with_filter:
        values = {identity(row[2][name]) for row in rows}
        for value in sorted(values, key=repr):
            before = [row for row in rows if identity(row[2][name]) == value]
            after = [row for row in trial.answer(rows) if identity(row[2][name]) == value]
            require_same(
                trial.answer(before), after, f"only {name} = {value!r}, before against after"
            )


def ordered(trial: Trial) -> None:
    """The output of a window comes in order of start."""
    if trial.inside():
        starts = [row[0] for row in trial.answer()]
        if starts != sorted(starts):
            raise Broken(f"the starts are {starts}")


@dataclass(frozen=True, slots=True)
class Law:
    """A law by its name in reports, and which modules claim it."""

    name: str
    check: Callable[[Trial], None]
    claimed: Callable[[Module], bool]


LAWS = (
    Law("types", types, lambda _: True),
    Law("deterministic", deterministic, lambda module: module.properties.deterministic),
    Law("any order", any_order, lambda module: module.properties.any_order),
    Law("steps", steps, lambda module: module.incremental),
    Law("remove undoes add", remove_undoes_add, lambda module: module.differential),
    Law("merging", merging, lambda module: "merge" in module.methods),
    Law("in columns", in_columns, lambda module: module.in_columns),
    Law("partials", partials, lambda module: "partials" in module.methods),
    Law("ignores ends", ignores_ends, lambda module: module.properties.ignores_ends),
    Law("time-bound", time_bound, lambda module: module.properties.time_bound),
    Law("filters", filters, lambda module: bool(module.properties.commutes_with_filter)),
    Law("ordered", ordered, lambda module: module.properties.ordered),
)

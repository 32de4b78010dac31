"""The laws of modules, one function each: given a window of random rows they return, or raise
`Broken`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.time import Times
from thalweg.testing.compare import difference
from thalweg.testing.identity import identity, order
from thalweg.udm import Module, Window
from thalweg.udm.calls import Caller, Cells
from thalweg.udm.module import Params
from thalweg.udm.shapes import slicer

__all__ = ["LAWS", "Broken", "Trial", "applies"]

Row = tuple[int, int, dict[str, Any]]


class Broken(Exception):  # noqa: N818 - the finding of a law, not a failure of the checker
    """A law that does not hold."""


@dataclass(frozen=True)
class Trial:
    """A module and a window of rows."""

    module: Module
    params: Params
    schema: pa.Schema
    rows: list[Row]
    window: Window
    seed: int

    def but(self, **changes: Any) -> Trial:
        return replace(self, **changes)

    def inside(self) -> list[Row]:
        """The rows that overlap the window, in canonical order, clipped as the module would have
        it."""
        clip, window = self.module.clip, self.window
        rows = [row for row in self.rows if row[0] < window.end and row[1] > window.start]
        rows.sort(key=lambda row: (row[0], [order(value) for value in row[2].values()], row[1]))
        left, right = (
            clip in ("left", "full"),
            clip in ("right", "full") or self.module.properties.ignores_ends,
        )
        return [
            (max(s, window.start) if left else s, min(e, window.end) if right else e, p)
            for s, e, p in rows
        ]

    def caller(self) -> Caller:
        return Caller(self.module, self.params, self.module.output_schema(self.schema), 10.0)

    def answer(self, rows: list[Row] | None = None) -> list[Row]:
        """What the module answers, as rows; fails when it fails."""
        answers = self.caller().compute(_cells(self, [self.inside() if rows is None else rows]))
        return _found(answers)

    def own(self) -> Any:
        return self.module.instance(self.params)

    def shaped(self, rows: list[Row]) -> Any:
        """Rows in the shape that the module takes."""
        if self.module.nulls == "skip":
            rows = [row for row in rows if None not in row[2].values()]
        cells = _cells(self, [rows])
        times: tuple[Times | None, Times | None] = (
            (cells.row_start, cells.row_end) if self.module.time_sensitive else (None, None)
        )
        return slicer(self.module.takes, cells.rows, *times)(0, len(rows))

    def result(self, own: Any, state: Any) -> Any:
        return own.result(state, self.window) if self.module.time_sensitive else own.result(state)

    def halves(self) -> tuple[list[Row], list[Row]]:
        """The rows of the window in two parts, neither of them empty if that can be."""
        rows = self.inside()
        at = Random(self.seed).randint(min(1, len(rows)), max(len(rows) - 1, min(1, len(rows))))
        return rows[:at], rows[at:]


def _cells(trial: Trial, windows: list[list[Row]]) -> Cells:
    rows = [row for window in windows for row in window]
    columns = [
        pa.array([payload[field.name] for _, _, payload in rows], field.type)
        for field in trial.schema
    ]
    offsets = np.cumsum([0, *(len(window) for window in windows)]).astype(np.int64)
    start, end = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
    spans = [np.full(len(windows), time) for time in trial.window]
    return Cells(
        pa.RecordBatch.from_arrays(columns, schema=trial.schema), start, end, offsets, *spans
    )


def _found(answers: Any, cell: int = 0) -> list[Row]:
    if cell in answers.failures:
        raise Broken(answers.failures[cell])
    rows = zip(
        answers.cell.tolist(),
        answers.start.tolist(),
        answers.end.tolist(),
        answers.payload.to_pylist(),
        strict=True,
    )
    return [(start, end, payload) for at, start, end, payload in rows if at == cell]


def _same(left: list[Row], right: list[Row], what: str) -> None:
    wrong = difference(left, right)
    if wrong is not None:
        raise Broken(f"{what}: {_rows(left)} against {_rows(right)}")


def _equal(trial: Trial, left: Any, right: Any, what: str) -> None:
    name = trial.module.short_name
    if trial.module.kind == "aggregate":
        wrap = [(0, 1, {name: left})], [(0, 1, {name: right})]
    else:
        wrap = tuple(
            [(0, 1, {"item": repr(item)}) for item in items or ()] for items in (left, right)
        )  # type: ignore[assignment]
    if difference(*wrap) is not None:
        raise Broken(f"{what}: {left!r} against {right!r}")


def _rows(rows: list[Row]) -> str:
    shown = ", ".join(map(str, rows[:4]))
    return f"[{shown}{', ...' if len(rows) > 4 else ''}]"


# ------------------------------------------------------------------------------------------------
# the laws


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
        first, again = (_found(caller.compute(_cells(trial, [rows]))) for _ in range(2))
        _same(first, again, "two calls of one object differ")
        _same(first, trial.answer(), "calls of two objects differ")


def any_order(trial: Trial) -> None:
    """Shuffled rows give the same answer."""
    rows = trial.inside()
    if rows:
        shuffled = Random(trial.seed).sample(rows, len(rows))
        _same(trial.answer(rows), trial.answer(shuffled), "another order of the rows")


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
    _equal(trial, parts, whole, "in two steps against at once")
    if "compute" in trial.module.methods:
        extra = (trial.window,) if trial.module.time_sensitive else ()
        _equal(
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
        _equal(trial, trial.result(own, left), alone, "after removing against without")


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
    _equal(
        trial,
        trial.result(own, left),
        trial.result(own, right),
        "merging from the left against from the right",
    )
    _equal(trial, trial.result(own, left), whole, "merged against added")


def in_columns(trial: Trial) -> None:
    """All windows in one call give what each of them gives alone."""
    first, second = trial.halves()
    windows = [rows for rows in (first, second, first + second) if rows]
    answers = trial.caller().compute(_cells(trial, windows))
    for at, rows in enumerate(windows):
        _same(
            _found(answers, at),
            trial.answer(rows),
            f"window {at} of {len(windows)} in one call against alone",
        )


def partials(trial: Trial) -> None:
    """Merged partial states give the result of the whole."""
    first, second = trial.halves()
    if not second:
        return
    own = trial.own()
    apart, whole = _cells(trial, [first, second]), _cells(trial, [first + second])
    if trial.module.nulls == "skip":
        apart, whole = apart.without_nulls(), whole.without_nulls()
    merged = own.merge_groups(own.partials(apart.rows, apart.offsets), np.array([0, 2]))
    merged_result, whole_result = (
        pa.array(own.results(states))[0].as_py()
        for states in (merged, own.partials(whole.rows, whole.offsets))
    )
    _equal(trial, merged_result, whole_result, "merged partials against the whole")


def ignores_ends(trial: Trial) -> None:
    """Rows with other ends give the same answer."""
    rows = trial.inside()
    if rows:
        random = Random(trial.seed)
        other = [
            (start, max(start, trial.window.start) + random.randint(1, 9), payload)
            for start, _, payload in rows
        ]
        _same(trial.answer(rows), trial.answer(other), "other ends")


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
            f"a change at {time} changed what lies before it: {_rows(early[0])} against "
            f"{_rows(early[1])}"
        )


def filters(trial: Trial) -> None:
    """Filtering by columns that commute gives the same before and after the module."""
    rows = trial.inside()
    for name in trial.module.properties.commutes_with_filter:
        values = {identity(row[2][name]) for row in rows}
        for value in sorted(values, key=repr):
            before = [row for row in rows if identity(row[2][name]) == value]
            after = [row for row in trial.answer(rows) if identity(row[2][name]) == value]
            _same(trial.answer(before), after, f"only {name} = {value!r}, before against after")


def ordered(trial: Trial) -> None:
    """The output of a window comes in order of start."""
    if trial.inside():
        starts = [row[0] for row in trial.answer()]
        if starts != sorted(starts):
            raise Broken(f"the starts are {starts}")


LAWS: dict[str, Callable[[Trial], None]] = {
    "types": types,
    "deterministic": deterministic,
    "any order": any_order,
    "steps": steps,
    "remove undoes add": remove_undoes_add,
    "merging": merging,
    "in columns": in_columns,
    "partials": partials,
    "ignores ends": ignores_ends,
    "time-bound": time_bound,
    "filters": filters,
    "ordered": ordered,
}


def applies(law: str, module: Module) -> bool:
    """Whether a module claims what a law says."""
    facts = module.properties
    return {
        "types": True,
        "deterministic": facts.deterministic,
        "any order": facts.any_order,
        "steps": module.incremental,
        "remove undoes add": module.differential,
        "merging": "merge" in module.methods,
        "in columns": module.in_columns,
        "partials": "partials" in module.methods,
        "ignores ends": facts.ignores_ends,
        "time-bound": facts.time_bound,
        "filters": bool(facts.commutes_with_filter),
        "ordered": facts.ordered,
    }[law]

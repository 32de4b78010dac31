"""A module tried on a window of random rows, and how its answers are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.time import Times
from thalweg.testing.compare import difference
from thalweg.testing.identity import order
from thalweg.udm import Module, Window
from thalweg.udm.calls import Caller
from thalweg.udm.cells import Cells
from thalweg.udm.module import Params
from thalweg.udm.shapes import slicer

__all__ = [
    "Broken",
    "Row",
    "Trial",
    "cells_of",
    "require_equal",
    "require_same",
    "rows_found",
    "shown_rows",
]

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
        answers = self.caller().compute(cells_of(self, [self.inside() if rows is None else rows]))
        return rows_found(answers)

    def own(self) -> Any:
        return self.module.instance(self.params)

    def shaped(self, rows: list[Row]) -> Any:
        """Rows in the shape that the module takes."""
        if self.module.nulls == "skip":
            rows = [row for row in rows if None not in row[2].values()]
        cells = cells_of(self, [rows])
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


def cells_of(trial: Trial, windows: list[list[Row]]) -> Cells:
    """The rows of windows in the columns that a module is called with."""
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


def rows_found(answers: Any, cell: int = 0) -> list[Row]:
    """The rows that a module made of one window; a failure of the module breaks the law."""
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


def require_same(left: list[Row], right: list[Row], what: str) -> None:
    """Break the law where two tables differ."""
    wrong = difference(left, right)
    if wrong is not None:
        raise Broken(f"{what}: {shown_rows(left)} against {shown_rows(right)}")


def require_equal(trial: Trial, left: Any, right: Any, what: str) -> None:
    """Break the law where two results of `result` differ."""
    name = trial.module.short_name
    if trial.module.kind == "aggregate":
        wrap = [(0, 1, {name: left})], [(0, 1, {name: right})]
    else:
        wrap = tuple(
            [(0, 1, {"item": repr(item)}) for item in items or ()] for items in (left, right)
        )  # type: ignore[assignment]
    if difference(*wrap) is not None:
        raise Broken(f"{what}: {left!r} against {right!r}")


def shown_rows(rows: list[Row]) -> str:
    shown = ", ".join(map(str, rows[:4]))
    return f"[{shown}{', ...' if len(rows) > 4 else ''}]"

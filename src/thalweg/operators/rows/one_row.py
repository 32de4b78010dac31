"""A chain of row operators over a batch of one row, worked out on Python values.

A row operator defines what it does with one row (`Operator.one_row`): a step over the values of the
row that answers whether the row stays, and where the columns are then. A chain of them reads the
columns it needs once and makes the columns of its answer once; columns that pass through are not
looked at. Where an operator has no such form, neither has the chain, and the kernels are used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.expr.one_row import Cell, NeedsKernel, RowFunction, Values, row_function
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME
from thalweg.operators.base import Operator
from thalweg.plan.nodes import Named

__all__ = [
    "OneRow",
    "RowChain",
    "Step",
    "compute",
    "keep_where",
    "move_lifetime",
    "row_chain",
]

START, END = 0, 1
"""The slots of the lifetime."""
_FIRST = 2
Step: TypeAlias = Callable[[Values], bool]
"""Changes the values of a row; whether the row stays."""

_PLAIN = {pa.int64(): struct.Struct("=q").pack, pa.float64(): struct.Struct("=d").pack}


@dataclass(slots=True)
class OneRow:
    """A row on its way through a chain: where its columns are, the cells that were read, and how
    many slots there are."""

    cells: dict[str, Cell]
    used: set[Cell]
    width: int

    @classmethod
    def of_schema(cls, schema: pa.Schema) -> OneRow:
        cells = {field.name: Cell(_FIRST + at, field.type, at) for at, field in enumerate(schema)}
        return cls(cells, set(), _FIRST + len(cells))

    def visible(self) -> Mapping[str, Cell]:
        """The columns that an expression sees."""
        return {**self.cells, "_start": Cell(START, pa.int64())}


def keep_where(row: OneRow, predicate: Any) -> Step | None:
    """The step of a condition; null counts as false."""
    found = row_function(predicate, row.visible(), row.used)
    if found is None or found[1] != pa.bool_():
        return None
    holds = found[0]
    return lambda values: holds(values) is True


def compute(row: OneRow, columns: Named, schema: pa.Schema) -> Step | None:
    """The step of new columns, which are put behind all others."""
    cells: dict[str, Cell] = {}
    made: list[RowFunction] = []
    for (name, expr), field in zip(columns, schema, strict=True):
        plain = row.cells.get(getattr(expr, "name", ""))
        if plain is not None and plain.type == field.type:
            cells[name] = plain
            continue
        found = row_function(expr, row.visible(), row.used)
        if found is None or found[1] != field.type:
            return None
        cells[name] = Cell(row.width + len(made), field.type)
        made.append(found[0])
    row.cells, row.width = cells, row.width + len(made)

    def step(values: Values) -> bool:
        values += [function(values) for function in made]
        return True

    return step


def move_lifetime(lifetime: Callable[[int, int], tuple[int, int] | None]) -> Step:
    """The step of another lifetime; a row whose lifetime is empty does not stay."""

    def step(values: Values) -> bool:
        moved = lifetime(values[START], values[END])
        if moved is None:
            raise NeedsKernel
        start, end = moved
        if start >= end:
            return False
        if not MIN_TIME < start < MAX_TIME or MAX_TIME <= end != INFINITY:
            raise NeedsKernel
        values[START], values[END] = start, end
        return True

    return step


class RowChain:
    """The steps of a chain, of which each is an operator."""

    __slots__ = ("_loads", "_made", "_schema", "_steps", "_width")

    def __init__(self, steps: Sequence[Step], row: OneRow, width: int, schema: pa.Schema) -> None:
        self._steps = tuple(steps)
        self._schema = schema
        self._width = width
        self._loads = [(cell.slot, cell.source) for cell in row.used if cell.source is not None]
        self._made = [row.cells[name] for name in schema.names]

    def pass_through(self, batch: Batch) -> tuple[int, Values]:
        """How many operators the row of a batch passes, and its values then. Raises `NeedsKernel`
        where only the kernels can tell."""
        values: Values = [None] * self._width
        values[START], values[END] = batch.start.item(), batch.end.item()
        payload = batch.payload
        for slot, source in self._loads:
            try:
                values[slot] = payload.column(source)[0].as_py()
            except ValueError:  # text that is no text: the kernels compare its bytes
                raise NeedsKernel from None
        for at, step in enumerate(self._steps):
            if not step(values):
                return at, values
        return len(self._steps), values

    def answer(self, batch: Batch, values: Values, progress: Progress) -> Batch:
        """The row after all operators, as a batch."""
        payload = batch.payload
        arrays = [
            payload.column(cell.source)
            if cell.source is not None
            else _array(values[cell.slot], cell.type)
            for cell in self._made
        ]
        rows: Rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        start, end = values[START], values[END]
        if start == batch.start.item() and end == batch.end.item():
            return Batch(rows, batch.start, batch.end, progress=progress)
        times = np.array([start, end])
        return Batch(rows, times[:1], times[1:], progress=progress)


def row_chain(operators: Sequence[Operator], schema: pa.Schema) -> RowChain | None:
    """The operators as steps over one row of this schema; None where one of them has none."""
    row = OneRow.of_schema(schema)
    input_width = row.width
    steps = []
    for operator in operators:
        step = operator.one_row(row)
        if step is None:
            return None
        steps.append(step)
    return RowChain(steps, row, input_width, operators[-1].schema)


def _array(value: Any, kind: pa.DataType) -> pa.Array:
    """One value as a column; numbers are written straight into a buffer, which costs the least."""
    pack = _PLAIN.get(kind)
    if pack is None or value is None:
        return pa.array([value], kind)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(pack(value))])

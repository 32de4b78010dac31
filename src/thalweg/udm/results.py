"""What modules return, as columns.

An aggregate returns a value; an operator returns an iterable of payloads (mappings, tuples in the
order of its output columns, or bare values when it has one), a table (Arrow, pandas, Polars), or
None for nothing. A time-sensitive module may return `Event`s, or tables with `_start` and `_end`;
what has no stamp lives as long as the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.python_rows import column_of
from thalweg.model.rows import Codes, Rows, concat_rows
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times
from thalweg.udm.events import Event

__all__ = ["Answers", "Collector", "WrongResult"]

_MISFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


class WrongResult(Exception):  # noqa: N818
    """Something that cannot be an answer of the module: it becomes the reason of a failure."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Rows of output, each of one cell (a window of a group); and the cells that failed, with the
    reason."""

    cell: Codes
    start: Times
    end: Times
    payload: Rows
    failures: dict[int, str]


@dataclass
class Collector:
    """Takes the results of one cell after the other."""

    schema: pa.Schema
    aggregate: bool
    window_start: Times
    window_end: Times
    cells: list[int] = field(default_factory=list)
    stamps: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By position: where an output has a lifetime of its own."""
    failures: dict[int, str] = field(default_factory=dict)
    _tables: list[tuple[int, Rows, Times, Times]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._values: list[list[Any]] = [[] for _ in self.schema]

    def add(self, cell: int, result: Any) -> None:
        """The result for one cell; raises WrongResult."""
        if self.aggregate:
            if isinstance(result, Event):
                self.stamps[len(self.cells)] = _stamp(result.start, result.end)
                result = result.payload
            self._values[0].append(result)
            self.cells.append(cell)
            return
        if result is None:
            return
        table = _table_of(result)
        if table is not None:
            self._add_table(cell, table)
        elif isinstance(result, (str, bytes, Mapping)) or not isinstance(result, Iterable):
            raise WrongResult(
                f"it returned {_short(result)}; an operator returns a list of payloads, or a table"
            )
        else:
            for item in list(result):
                self._add_item(cell, item)

    def _add_item(self, cell: int, item: Any) -> None:
        stamp = None
        if isinstance(item, Event):
            stamp, item = _stamp(item.start, item.end), item.payload
        names = self.schema.names
        if isinstance(item, Mapping):
            if set(item) - set(names):
                raise WrongResult(
                    f"it returned the column {min(map(str, set(item) - set(names)))!r}; it declared"
                    f" {', '.join(names)}"
                )
            values = [item.get(name) for name in names]
        elif isinstance(item, (tuple, list)):
            values = list(item)
        else:
            values = [item]
        if len(values) != len(names):
            raise WrongResult(f"it returned {_short(item)}; it declared {', '.join(names)}")
        if stamp is not None:
            self.stamps[len(self.cells)] = stamp
        for column, value in zip(self._values, values, strict=True):
            column.append(value)
        self.cells.append(cell)

    def _add_table(self, cell: int, table: pa.Table) -> None:
        names = table.schema.names
        missing = [name for name in self.schema.names if name not in names]
        if missing:
            raise WrongResult(
                f"it returned a table without the column {missing[0]!r}, which it declared"
            )
        size = table.num_rows
        try:
            columns = [table.column(f.name).combine_chunks().cast(f.type) for f in self.schema]
            start, end = (
                (
                    table.column(name)
                    .combine_chunks()
                    .cast(pa.int64())
                    .to_numpy(zero_copy_only=False)
                    if name in names
                    else np.full(size, edge)
                )
                for name, edge in (
                    ("_start", self.window_start[cell]),
                    ("_end", self.window_end[cell]),
                )
            )
        except _MISFIT as reason:
            raise WrongResult(
                f"it returned a table of other types than it declared: {reason}"
            ) from reason
        if (start >= end).any():
            at = int(np.argmax(start >= end))
            _stamp(int(start[at]), int(end[at]))
        self._tables.append(
            (cell, pa.RecordBatch.from_arrays(columns, schema=self.schema), start, end)
        )

    def forget(self, cell: int) -> None:
        """Remove the results of a cell that failed half-way."""
        while self.cells and self.cells[-1] == cell:
            self.cells.pop()
            self.stamps.pop(len(self.cells), None)
            for column in self._values:
                column.pop()
        self._tables = [entry for entry in self._tables if entry[0] != cell]

    def finish(self) -> Answers:
        """All results as columns; a value that does not fit its column makes its cell a failure."""
        arrays, good = self._columns()
        cell = np.array(self.cells, np.int64)
        start, end = self.window_start[cell], self.window_end[cell]
        for at, (first, last) in self.stamps.items():
            start[at], end[at] = first, last
        payload = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if good is not None:
            payload, cell, start, end = (
                payload.take(pa.array(np.flatnonzero(good))),
                cell[good],
                start[good],
                end[good],
            )
        if not self._tables:
            return Answers(cell, start, end, payload, self.failures)
        tables = self._tables
        return Answers(
            np.concatenate(
                [cell, *(np.full(rows.num_rows, number) for number, rows, _, _ in tables)]
            ),
            np.concatenate([start, *(entry[2] for entry in tables)]),
            np.concatenate([end, *(entry[3] for entry in tables)]),
            concat_rows([payload, *(entry[1] for entry in tables)], self.schema),
            self.failures,
        )

    def _columns(self) -> tuple[list[pa.Array], np.ndarray[Any, np.dtype[np.bool_]] | None]:
        try:
            return [
                column_of(values, f.type)
                for values, f in zip(self._values, self.schema, strict=True)
            ], None
        except _MISFIT:
            pass
        for values, f in zip(self._values, self.schema, strict=True):
            for at, value in enumerate(values):
                try:
                    column_of([value], f.type)
                except _MISFIT:
                    self.failures[self.cells[at]] = (
                        f"it returned {_short(value)} for {f.name!r}, which it declared as {f.type}"
                    )
        good = np.array([cell not in self.failures for cell in self.cells], np.bool_)
        kept = [
            [value if fine else None for value, fine in zip(values, good, strict=True)]
            for values in self._values
        ]
        return [
            column_of(values, f.type) for values, f in zip(kept, self.schema, strict=True)
        ], good


def _stamp(start: Any, end: Any) -> tuple[int, int]:
    try:
        first, last = int(start), INFINITY if end is None else int(end)
    except (TypeError, ValueError) as reason:
        raise WrongResult(
            f"it stamped an event [{start!r}, {end!r}); times are whole ticks"
        ) from reason
    if not (MIN_TIME < first < MAX_TIME and first < last and (last == INFINITY or last < MAX_TIME)):
        raise WrongResult(f"it stamped an event [{start}, {end}), which is no lifetime")
    return first, last


def _table_of(result: Any) -> pa.Table | None:
    if isinstance(result, pa.Table):
        return result
    if isinstance(result, pa.RecordBatch):
        return pa.Table.from_batches([result])
    kind = type(result).__module__.partition(".")[0]
    if kind == "pandas" and hasattr(result, "columns"):
        return pa.Table.from_pandas(result, preserve_index=False)
    return result.to_arrow() if kind == "polars" and hasattr(result, "to_arrow") else None


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."

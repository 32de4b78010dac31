"""How rows reach a module: in the shape it takes, one slice for each window, cut from columns that
are converted once.

What a module is given cannot be changed by it: tuples, read-only mappings, read-only arrays, Arrow
tables. A pandas frame is made anew for each window and looked at again afterwards (see `changed`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.model.rows import Rows
from thalweg.model.time import Times
from thalweg.udm.events import Event

__all__ = ["changed", "require_shape", "slicer", "with_lifetimes"]

Slice = Callable[[int, int], Any]
"""The rows from one position up to another, as the module takes them."""


def require_shape(takes: str, where: str) -> None:
    """Refuse a shape whose library is not installed."""
    if takes == "polars":
        try:
            import polars  # noqa: F401
        except ImportError as reason:
            raise PlanError(
                f"{where} takes Polars frames, but polars is not installed: pip install polars."
            ) from reason


def slicer(takes: str, rows: Rows, start: Times | None, end: Times | None) -> Slice:
    """How to cut these rows. With times, the module sees lifetimes: events, or the columns `_start`
    and `_end`."""
    if takes == "values":
        return _items(_values(rows), start, end)
    if takes == "rows":
        return _items([MappingProxyType(row) for row in rows.to_pylist()], start, end)
    if start is not None and end is not None:
        rows = with_lifetimes(rows, start, end)
    if takes == "numpy":
        return _arrays(rows)
    table = pa.Table.from_batches([rows])
    if takes == "arrow":
        return lambda begin, stop: table.slice(begin, stop - begin)
    if takes == "pandas":
        frame = table.to_pandas()
        return lambda begin, stop: frame.iloc[begin:stop].reset_index(drop=True)
    import polars

    whole = polars.from_arrow(table)
    return lambda begin, stop: whole.slice(begin, stop - begin)


def with_lifetimes(rows: Rows, start: Times, end: Times) -> Rows:
    """The rows with their lifetimes as the columns `_start` and `_end`."""
    return pa.RecordBatch.from_arrays(
        [*rows.columns, pa.array(start), pa.array(end)],
        names=[*rows.schema.names, "_start", "_end"],
    )


def _values(rows: Rows) -> list[Any]:
    if rows.num_columns == 1:
        values: list[Any] = rows.column(0).to_pylist()
        return values
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _items(items: list[Any], start: Times | None, end: Times | None) -> Slice:
    if start is not None and end is not None:
        items = [Event(*entry) for entry in zip(start.tolist(), end.tolist(), items, strict=True)]
    whole = tuple(items)
    return lambda begin, stop: whole[begin:stop]


def _arrays(rows: Rows) -> Slice:
    columns: dict[str, Any] = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        values = column.to_numpy(zero_copy_only=False)
        if values.flags.writeable:
            values = values.view()
            values.flags.writeable = False
        columns[name] = values
    if len(columns) == 1:
        (only,) = columns.values()
        return lambda begin, stop: only[begin:stop]
    return lambda begin, stop: {name: values[begin:stop] for name, values in columns.items()}


def changed(takes: str, rows: Any, again: Any) -> bool:
    """Whether a module has changed its input `rows`; `again` is the same slice, cut once more."""
    if takes != "pandas":
        return False
    same = list(rows.columns) == list(again.columns) and len(rows) == len(again)
    return not (
        same and all(_same(rows[name].to_numpy(), again[name].to_numpy()) for name in again.columns)
    )


def _same(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    if first.dtype != second.dtype:
        return False
    if first.dtype.kind == "O":
        pairs = zip(first.tolist(), second.tolist(), strict=False)
        return len(first) == len(second) and all(_alike(left, right) for left, right in pairs)
    return bool(np.array_equal(first, second, equal_nan=first.dtype.kind == "f"))


def _alike(first: Any, second: Any) -> bool:
    """Whether two values of a cell are the same; lists come as arrays, structs as dictionaries."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return (
            isinstance(first, np.ndarray)
            and isinstance(second, np.ndarray)
            and first.shape == second.shape
            and _same(first, second)
        )
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            _alike(first[name], second[name]) for name in first
        )
    return bool(first == second) or (first != first and second != second)  # NaN is the same as NaN

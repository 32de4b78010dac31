"""Calling modules: all windows of a batch, one after the other or in one call, whatever the user's
code does.

A call that raises, takes longer than the time limit, returns something of the wrong type or changes
its input is a failure of its window alone; the others go on. When a call for many windows fails,
they are computed one by one, to find the windows that fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.expr.limits import TimeUp, Watch
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import Times
from thalweg.udm.cells import Cells
from thalweg.udm.events import Window
from thalweg.udm.module import Module, Params
from thalweg.udm.results import Answers, Collector, WrongResult
from thalweg.udm.shapes import changed, require_shape, slicer, with_lifetimes

__all__ = ["Caller", "Failures"]

Failures = dict[int, str]

_READ_ONLY = ("read-only", "does not support item", "has no attribute", "immutable")
"""Parts of Python's messages for an attempt to change what cannot be changed."""


class Caller:
    """A module with its parameters, ready to be called. `outputs` is what it declared to give."""

    def __init__(
        self, module: Module, params: Params, outputs: pa.Schema, time_limit: float | None = None
    ) -> None:
        require_shape(module.takes, f"module {module.name!r}")
        self.module = module
        self.outputs = outputs
        self._self = module.instance(params)
        self._timed = module.time_sensitive
        self._watch = Watch(time_limit)
        self._skips = module.nulls == "skip"

    # --------------------------------------------------------------------------------------------
    # whole windows

    def compute(self, cells: Cells) -> Answers:
        """What the module gives for each cell."""
        if self._skips:
            cells = cells.without_nulls()
        if self.module.in_columns and len(cells):
            found = self._in_columns(cells)
            if found is not None:
                return found
        if not {"compute", "add"} & self.module.methods:
            return self._each(cells, lambda at, _begin, _stop: self._one_in_columns(cells.one(at)))
        cut, call = self._slicer(cells), self._call_on_rows()
        if not self._timed and self.module.takes != "pandas":
            return self._each(cells, lambda _at, begin, stop: call(cut(begin, stop)))
        return self._each(
            cells,
            lambda at, begin, stop: self._checked(
                call, cut, begin, stop, Window(int(cells.start[at]), int(cells.end[at]))
            ),
        )

    def _slicer(self, cells: Cells) -> Callable[[int, int], Any]:
        times = (cells.row_start, cells.row_end) if self._timed else (None, None)
        return slicer(self.module.takes, cells.rows, *times)

    def _call_on_rows(self) -> Callable[..., Any]:
        """How one window is computed from its rows."""
        own = self._self
        if "compute" in self.module.methods:
            found: Callable[..., Any] = own.compute
            return found
        return lambda rows, *window: own.result(own.add(own.empty(), rows), *window)

    def _checked(
        self,
        call: Callable[..., Any],
        cut: Callable[[int, int], Any],
        begin: int,
        stop: int,
        window: Window,
    ) -> Any:
        rows = cut(begin, stop)
        result = call(rows, window) if self._timed else call(rows)
        if self.module.takes == "pandas" and changed("pandas", rows, cut(begin, stop)):
            raise WrongResult("it changed its input; work on a copy")
        return result

    def _each(self, cells: Cells, call: Callable[[int, int, int], Any]) -> Answers:
        """Call for one cell after the other; a failure ends only its own cell."""
        collector = Collector(self.outputs, self.module.is_aggregate, cells.start, cells.end)
        offsets = cells.offsets.tolist()
        at, size, watch = 0, len(cells), self._watch
        empty_is_null = self._skips
        while at < size:
            try:
                with watch:
                    while at < size:
                        watch.at = at
                        begin, stop = offsets[at], offsets[at + 1]
                        if empty_is_null and begin == stop:
                            if collector.aggregate:
                                collector.add(at, None)
                        else:
                            collector.add(at, call(at, begin, stop))
                        at += 1
            except (TimeUp, Exception) as raised:  # whatever a user's code raises
                reason = self._failure(raised, at)
                if reason is not None:
                    collector.forget(at)
                    collector.failures[at] = reason
                    at += 1
        return collector.finish()

    def _failure(self, raised: BaseException, at: int) -> str | None:
        """Why a cell failed; None where the time was up when its call had just ended."""
        if isinstance(raised, TimeUp):
            watch = self._watch
            return f"it took longer than {watch.limit:g} s" if watch.fired == at else None
        return str(raised) if isinstance(raised, WrongResult) else self.reason(raised)

    @staticmethod
    def reason(raised: BaseException) -> str:
        """The text for an exception that a module raised."""
        text = f"it raised {type(raised).__name__}: {raised}"
        mutation = isinstance(raised, (TypeError, ValueError, AttributeError)) and any(
            sign in str(raised) for sign in _READ_ONLY
        )
        return f"{text} (a module must not change its input; work on a copy)" if mutation else text

    # --------------------------------------------------------------------------------------------
    # in one call

    def _in_columns(self, cells: Cells) -> Answers | None:
        """All cells in one call; None when that failed, and each has to be computed alone."""
        try:
            with self._watch:
                self._watch.at = 0
                return self._answers(cells)
        except TimeUp:
            return None
        except Exception:  # raised again by the cell that causes it, computed alone
            return None

    def _one_in_columns(self, cell: Cells) -> Any:
        """The result of one cell, in the form that the collector takes."""
        answers = self._answers(cell)
        if self.module.is_aggregate:
            (value,) = answers.payload.column(0).to_pylist()
            return value
        stamped = with_lifetimes(answers.payload, answers.start, answers.end)
        return pa.Table.from_batches([stamped])

    def _answers(self, cells: Cells) -> Answers:
        own, size = self._self, len(cells)
        rows = cells.rows
        windows: tuple[Rows, ...] = ()
        if self._timed:
            rows = with_lifetimes(rows, cells.row_start, cells.row_end)
            windows = (
                pa.RecordBatch.from_arrays(
                    [pa.array(cells.start), pa.array(cells.end)], names=["start", "end"]
                ),
            )
        if "compute_groups" in self.module.methods:
            result = own.compute_groups(rows, cells.offsets, *windows)
        else:
            result = own.results(own.partials(rows, cells.offsets), *windows)
        if not self.module.is_aggregate:
            return self._many(result, cells)
        array = values_of(result, self.outputs.field(0).type)
        if len(array) != size:
            raise WrongResult(f"it returned {len(array)} values for {size} windows")
        if self._skips:
            empty = cells.offsets[1:] == cells.offsets[:-1]
            if np.count_nonzero(empty):
                array = pa.array(np.arange(size), mask=empty)
                array = values_of(result, self.outputs.field(0).type).take(array)
        payload = pa.RecordBatch.from_arrays([array], schema=self.outputs)
        return Answers(np.arange(size), cells.start, cells.end, payload, {})

    def _many(self, result: Any, cells: Cells) -> Answers:
        """An operator's answer: a table and, for each of its rows, which window it is of."""
        table, cell = result
        names = table.schema.names
        which: Codes = np.asarray(cell, np.int64)
        if len(which) != table.num_rows or (
            len(which) and not 0 <= which.min() <= which.max() < len(cells)
        ):
            raise WrongResult(
                f"it returned {table.num_rows} rows and {len(which)} numbers of windows, of which "
                f"there are {len(cells)}"
            )
        columns = [values_of(table.column(f.name), f.type) for f in self.outputs]
        start, end = (
            (
                values_of(table.column(name), pa.int64()).to_numpy(zero_copy_only=False)
                if name in names
                else edges[which]
            )
            for name, edges in (("_start", cells.start), ("_end", cells.end))
        )
        if (start >= end).any():
            raise WrongResult("it stamped an event that ends before it starts")
        return Answers(
            which, start, end, pa.RecordBatch.from_arrays(columns, schema=self.outputs), {}
        )

    # --------------------------------------------------------------------------------------------
    # in steps

    def build(self, cells: Cells) -> tuple[list[Any], Failures]:
        """The state of each cell, from its rows."""
        own = self._self
        return self._states(cells, lambda _at, rows: own.add(own.empty(), rows))

    def update(
        self, states: list[Any], cells: Cells, *, adding: bool
    ) -> tuple[list[Any], Failures]:
        """The states after some rows were added to their cells, or removed."""
        own = self._self
        step = own.add if adding else own.remove
        return self._states(cells, lambda at, rows: step(states[at], rows))

    def _states(self, cells: Cells, step: Callable[[int, Any], Any]) -> tuple[list[Any], Failures]:
        if self._skips:
            cells = cells.without_nulls()
        cut = self._slicer(cells)
        offsets = cells.offsets.tolist()
        states: list[Any] = [None] * len(cells)
        failures: Failures = {}
        at, size, watch = 0, len(cells), self._watch
        while at < size:
            try:
                with watch:
                    while at < size:
                        watch.at = at
                        states[at] = step(at, cut(offsets[at], offsets[at + 1]))
                        at += 1
            except (TimeUp, Exception) as raised:  # whatever a user's code raises
                reason = self._failure(raised, at)
                if reason is not None:
                    failures[at] = reason
                    at += 1
        return states, failures

    def results(self, states: list[Any], filled: Codes, start: Times, end: Times) -> Answers:
        """What states give; `filled` says how many rows each has, of those that count."""
        own = self._self
        none = np.zeros(len(states) + 1, np.int64)
        none[1:] = np.cumsum(np.maximum(filled, 0))  # only emptiness is looked at
        cells = Cells(
            pa.RecordBatch.from_arrays([pa.array([], pa.int64())], names=["_"]),
            none[:0],
            none[:0],
            none,
            start,
            end,
        )
        if self._timed:
            return self._each(
                cells,
                lambda at, _begin, _stop: own.result(
                    states[at], Window(int(start[at]), int(end[at]))
                ),
            )
        return self._each(cells, lambda at, _begin, _stop: own.result(states[at]))

    @property
    def object(self) -> Any:
        """The user's object itself."""
        return self._self


def values_of(values: Any, kind: pa.DataType) -> pa.Array:
    """Values as one array of a type; raises what Arrow raises."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if not isinstance(array, pa.Array):
        array = pa.array(array, from_pandas=False)
    return array if array.type == kind else array.cast(kind)

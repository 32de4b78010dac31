"""The rows of windows as the input of a module: its arguments, clipped, in canonical order.

The rows of a window reach the module in the order of their starts, then of the values of its
inputs, then of their ends, so that its answer cannot depend on the order of arrival.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.expr import Frame
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.nested import nested_texts
from thalweg.model.rows import Codes, Rows, encode, take_rows
from thalweg.model.sorting import order_by_code, representatives, sort_pairs
from thalweg.model.time import Times, greatest, least
from thalweg.operators.arguments import PRESENT
from thalweg.operators.frames import frame_of
from thalweg.operators.window.modules.window_frames import Spans
from thalweg.plan.nodes import WidApply, WindowApply
from thalweg.udm.cells import Cells

__all__ = ["ModuleRows"]


class ModuleRows:
    """The input of a node's module: the keys and arguments of rows, held until windows need
    them."""

    def __init__(self, node: WindowApply | WidApply) -> None:
        self.node = node
        self.module = node.module
        keys = [node.input.schema.field(name) for name in node.columns]
        self.key_schema = pa.schema(keys or [PRESENT])
        """Arrow cannot count rows without columns: a stream without groups has a constant
        column."""
        self._names = [internal(f"argument{at}") for at in range(len(node.arguments))]
        self._used = frozenset(name for _, expr in node.arguments for name in expr.columns())
        self.inputs = node.input_schema()
        types = self.inputs.types
        self.held = pa.schema(
            [
                *self.key_schema,
                *(pa.field(name, kind) for name, kind in zip(self._names, types, strict=True)),
            ]
        )

    def project(self, batch: Batch) -> Delta:
        """The changes of a batch, with keys and arguments as columns."""
        delta = Delta.of_batch(batch)
        frame = frame_of(delta.payload, delta.start, self._used)
        columns = [delta.payload.column(name) for name in self.node.columns] or [
            pa.array(np.ones(len(delta), np.bool_))
        ]
        columns += self._evaluated(frame)
        return Delta(
            pa.RecordBatch.from_arrays(columns, schema=self.held),
            delta.start,
            delta.end,
            delta.weight,
        )

    def _evaluated(self, frame: Frame) -> list[pa.Array]:
        found = []
        for (_, expr), kind in zip(self.node.arguments, self.inputs.types, strict=True):
            array = expr.evaluate(frame)
            found.append(array if array.type == kind else _cast(array, kind))
        return found

    @property
    def argument_fields(self) -> list[pa.Field]:
        return list(self.held)[len(self.key_schema) :]

    def argument_columns(self, delta: Delta) -> list[pa.Array]:
        """The module's inputs for some rows."""
        return self._evaluated(frame_of(delta.payload, delta.start, self._used))

    def arguments(self, rows: Rows) -> Rows:
        return pa.RecordBatch.from_arrays(rows.columns[len(self.key_schema) :], schema=self.inputs)

    def keys(self, rows: Rows) -> Rows:
        return pa.RecordBatch.from_arrays(
            rows.columns[: len(self.key_schema)], schema=self.key_schema
        )

    def clipped(self, start: Times, end: Times, spans: Spans, window: Codes) -> tuple[Times, Times]:
        """Lifetimes as the module sees them; all alike if it sees none."""
        if not self.module.time_sensitive:
            return np.zeros(len(start), np.int64), np.ones(len(start), np.int64)
        if self.node.clip in ("left", "full"):
            start = np.maximum(start, spans.start[window])
        if not self.node.ends_matter:
            end = np.minimum(end, spans.end[window])
        return start, end

    def net(
        self, delta: Delta, row: Codes, window: Codes, spans: Spans
    ) -> tuple[Codes, Codes, Codes]:
        """The net changes of windows: pairs (row, window), and how often the row is added or
        removed. Rows that the module cannot tell apart cancel out."""
        if least(delta.weight) > 0:  # nothing cancels out
            return row, window, delta.weight[row]
        start, end = self.clipped(delta.start[row], delta.end[row], spans, window)
        payload, _ = encode(self.arguments(delta.payload).columns, len(delta))
        position = (
            [] if self.module.properties.any_order else [delta.start[row]]
        )  # rows come in order of start
        alike, count = encode([window, payload[row], start, end, *position], len(row))
        total = np.zeros(count, np.int64)
        np.add.at(total, alike, delta.weight[row])
        representative = representatives(alike, count)
        live = np.flatnonzero(total)
        return row[representative[live]], window[representative[live]], total[live]

    def cells(self, rows: Delta, row: Codes, window: Codes, times: Codes, spans: Spans) -> Cells:
        """The windows with their rows, in canonical order. `times` says how often each pair
        counts."""
        if not (times == 1).all():
            row, window = np.repeat(row, times), np.repeat(window, times)
        return self.cells_of(self.arguments(rows.payload), rows.start, rows.end, row, window, spans)

    def cells_of(
        self, inputs: Rows, start: Times, end: Times, row: Codes, window: Codes, spans: Spans
    ) -> Cells:
        """The windows with their rows, in canonical order, each pair of a row and a window once;
        `inputs` are the module's inputs of the rows."""
        order = (
            order_by_code(window, len(spans))
            if self.module.properties.any_order
            else self.order(inputs, start, end, row, window)
        )
        row, window = row[order], window[order]
        start, end = start[row], end[row]
        if self.module.time_sensitive:
            start, end = self.clipped(start, end, spans, window)
        offsets = np.zeros(len(spans) + 1, np.int64)
        np.cumsum(np.bincount(window, minlength=len(spans)), out=offsets[1:])
        return Cells(take_rows(inputs, row), start, end, offsets, spans.start, spans.end)

    def order(self, rows: Rows, start: Times, end: Times, row: Codes, window: Codes) -> Codes:
        """The canonical order of pairs of a row and a window."""
        starts = start[row]
        order = sort_pairs(window, starts)
        cell, first = window[order], starts[order]
        if not ((cell[1:] == cell[:-1]) & (first[1:] == first[:-1])).any():
            return order
        ranks = [_rank(column)[row] for column in rows.columns]
        return np.lexsort((end[row], *reversed(ranks), starts, window))


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array of another type. Whole numbers that are floats without rounding need no kernel of
    Arrow, which costs as much as ten thousand of them."""
    if pa.types.is_int64(array.type) and pa.types.is_float64(kind) and not array.null_count:
        whole = array.to_numpy()
        if len(whole) and least(whole) >= -_EXACT and greatest(whole) <= _EXACT:
            return pa.array(whole.astype(np.float64))
    return array.cast(kind)


_EXACT = 2**53
"""Whole numbers up to this are floats."""


def _rank(column: pa.Array) -> Codes:
    """Numbers that sort like the values of a column, nulls last."""
    if pa.types.is_nested(column.type):
        column = nested_texts(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    ranks: Codes = (
        pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    )
    return ranks

"""Cells: panes of a source that Spark itself sums up, before its rows become Arrow columns.

`Cells` describes the sums, over the columns of the source alone: a count, a sum modulo 2^64 or the
sum of the upper halves (see `aggregates.sums`), each of one column and perhaps of some rows only.
`batch_of_cells` reads the results. Two cells may have the same keys and pane: they are partial sums
like those of two batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.aggregates.base import PlainSum
from thalweg.expr import Column, Expr
from thalweg.model.batch import Batch
from thalweg.plan.aggregates import ROWS, AggregateCall
from thalweg.plan.nodes import Node, Panes, Select, Source, Where, lifetime_schema
from thalweg.shards.exchange.header import Header

__all__ = ["CellSum", "Cells", "bad_times", "batch_of_cells", "cells_of"]


@dataclass(frozen=True)
class CellSum:
    """One number of a cell."""

    what: PlainSum
    of: str | None
    """The column; None: the rows themselves."""
    where: Expr | None
    """The rows that count; None: all."""


@dataclass(frozen=True)
class Cells:
    """What to sum, in columns of the source."""

    panes: Panes
    keys: tuple[str, ...]
    wheres: tuple[Expr, ...]
    """Conditions that all have to be true; the other rows only count as read."""
    sums: tuple[CellSum, ...]
    """Beside the number of rows."""

    @property
    def conditions(self) -> list[Expr]:
        """All conditions, of the rows and of single sums."""
        return [*self.wheres, *(part.where for part in self.sums if part.where is not None)]


def cells_of(node: Node | None) -> Cells | None:
    """The cells of partial sums over a source; None where something is computed on the way, or
    where an aggregate is no sum of whole numbers."""
    if not isinstance(node, Panes) or node.table is not None:
        return None
    below = _below(node.input)
    if below is None:
        return None
    names, wheres = below
    calls = [
        _sums_of(index, call, node.input.schema, names)
        for index, (_, call) in enumerate(node.aggregates)
    ]
    keys = [names.get(key) for key in node.keys]
    if None in keys or None in calls:
        return None
    sums = tuple(part for call in calls for part in call or [])
    return Cells(node, tuple(key for key in keys if key is not None), wheres, sums)


def _below(node: Node) -> tuple[dict[str, str], tuple[Expr, ...]] | None:
    """By column of the node: the column of the source that it copies; and the conditions between
    the source and the node. None if a column is computed there."""
    chain: list[Select | Where] = []
    while isinstance(node, (Select, Where)):
        chain.append(node)
        node = node.input
    if not isinstance(node, Source):
        return None
    names, wheres = {name: name for name in node.columns.names}, []
    for step in reversed(chain):
        if isinstance(step, Where):
            if not step.predicate.columns() <= names.keys():
                return None
            wheres.append(step.predicate.rename(names))
        else:
            names = {
                name: names[expr.name]
                for name, expr in step.columns
                if isinstance(expr, Column) and expr.name in names
            }
    return names, tuple(wheres)


def _sums_of(
    index: int, call: AggregateCall, schema: pa.Schema, names: dict[str, str]
) -> list[CellSum] | None:
    """The numbers of one call, in the order of its partial columns."""
    fields = call.partials_in(index, lifetime_schema(schema))
    if fields == [ROWS]:
        return []
    if not call.aggregate.plain_sums or not call.adds_up(lifetime_schema(schema)):
        return None
    if call.of is not None and not (isinstance(call.of, Column) and call.of.name in names):
        return None
    if call.where is not None and not call.where.columns() <= names.keys():
        return None
    of = None if call.of is None else names[call.of.name]
    where = None if call.where is None else call.where.rename(names)
    return [
        CellSum(what, of, where) for what, _ in zip(call.aggregate.plain_sums, fields, strict=False)
    ]


def bad_times(table: pa.Table, panes: Panes) -> pa.ChunkedArray:
    """The invalid times of a table of cells: those of entries without a number of rows."""
    _, newest, rows = table.columns[len(panes.keys) :][:3]
    return newest.filter(pc.is_null(rows))


def batch_of_cells(table: pa.Table, panes: Panes) -> tuple[Batch, Header]:
    """A table of keys, start of the pane, newest time, number of rows and sums as a batch of
    partial sums, and the header for the rows that became them. Rows without a pane were rejected by
    a condition: they count as read."""
    by = len(panes.keys)
    pane, newest, rows = table.columns[by:][:3]
    header = Header(newest=pc.max(newest).as_py(), rows=pc.sum(rows).as_py() or 0)
    held = table.filter(pc.is_valid(pane)) if pane.null_count else table
    start = held.column(by).combine_chunks().to_numpy()
    arrays = [
        column.combine_chunks().cast(entry.type)
        for column, entry in zip(
            [*held.columns[:by], *held.columns[by + 2 :]], panes.schema, strict=True
        )
    ]
    payload = pa.RecordBatch.from_arrays(arrays, schema=panes.schema)
    return Batch(payload, start, start + panes.window.hop), header

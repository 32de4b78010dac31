"""Evaluating expressions over a batch: the payload columns plus `_start`."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from thalweg.expr import Column, Expr, Frame, Literal
from thalweg.model.rows import Bools, Rows, whole_column
from thalweg.model.time import Times
from thalweg.plan.nodes import Named

__all__ = ["Projection", "evaluate_mask", "frame_of", "plain_renames"]


def frame_of(payload: Rows, start: Times, used: Collection[str] | None = None) -> Frame:
    """What an expression sees; of small batches, only the columns it uses are worth making."""
    if used is not None:
        found = {
            name: whole_column(start) if name == "_start" else payload.column(name) for name in used
        }
        return Frame(found, len(start))
    columns = dict(zip(payload.schema.names, payload.columns, strict=True))
    columns["_start"] = whole_column(start)
    return Frame(columns, len(start))


def evaluate_mask(predicate: Expr, frame: Frame) -> Bools:
    """Where the condition is true; null counts as false."""
    array = predicate.evaluate(frame)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    if array.null_count:
        array = array.fill_null(False)
    mask: Bools = array.to_numpy(zero_copy_only=False)
    return mask


class Projection:
    """New columns computed from others, in the types the plan derived. What follows from the
    expressions alone is found once: small batches pay for it each time.

    >>> rows = pa.RecordBatch.from_pydict({"len": [2, 3]})
    >>> bits = Projection((("bits", Column("len") * 8),), pa.schema([("bits", pa.int64())]))
    >>> bits.of(frame_of(rows, np.array([0, 0]), bits.used)).to_pydict()
    {'bits': [16, 24]}
    """

    def __init__(self, columns: Named, schema: pa.Schema) -> None:
        self.used = frozenset(name for _, expr in columns for name in expr.columns())
        """The columns that the expressions read."""
        self._schema = schema
        self._columns = [
            (
                expr.name if isinstance(expr, Column) else None,
                None if isinstance(expr, Literal) and expr.value is None else expr,
                kind,
            )
            for (_, expr), kind in zip(columns, schema.types, strict=True)
        ]

    def of(self, frame: Frame) -> Rows:
        """The new columns of the rows of a frame."""
        arrays, read = [], frame.columns
        for name, expr, kind in self._columns:
            if name is not None:
                array = read[name]
            elif expr is None:
                array = pa.nulls(frame.length, kind)
            else:
                array = expr.evaluate(frame)
            arrays.append(array if array.type == kind else array.cast(kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def plain_renames(columns: Named, prefix: str = "") -> dict[str, str]:
    """Columns that come through unchanged: old name -> new name."""
    return {
        expr.name.removeprefix(prefix): name
        for name, expr in columns
        if isinstance(expr, Column) and expr.name.startswith(prefix)
    }

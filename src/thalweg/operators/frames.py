"""Evaluating expressions over a batch: the payload columns plus `_start`."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from thalweg.expr import Column, Expr, Frame
from thalweg.model.rows import Bools, Rows
from thalweg.model.time import Times
from thalweg.plan.nodes import Named

__all__ = ["evaluate_columns", "evaluate_mask", "frame_of", "plain_renames"]


def frame_of(payload: Rows, start: Times, used: Collection[str] | None = None) -> Frame:
    """What an expression sees; of small batches, only the columns it uses are worth making."""
    if used is not None:
        found = {name: payload.column(name) for name in used if name != "_start"}
        if "_start" in used:
            found["_start"] = pa.array(start)
        return Frame(found, len(start))
    columns = dict(zip(payload.schema.names, payload.columns, strict=True))
    columns["_start"] = pa.array(start)
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


def evaluate_columns(columns: Named, frame: Frame, schema: pa.Schema) -> Rows:
    """New columns, in the types the plan derived."""
    arrays = []
    for (_, expr), kind in zip(columns, schema.types, strict=True):
        array = expr.evaluate(frame)
        arrays.append(array if array.type == kind else array.cast(kind))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def plain_renames(columns: Named, prefix: str = "") -> dict[str, str]:
    """Columns that come through unchanged: old name -> new name."""
    return {
        expr.name.removeprefix(prefix): name
        for name, expr in columns
        if isinstance(expr, Column) and expr.name.startswith(prefix)
    }

"""The results of windows that a module computes: a user's aggregate or operator.

The module gets the rows of a window in canonical order, each as the event [s, s + 1) at its start,
so that the same rows always give the same answer: an answer is retracted by computing it again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, take_column
from thalweg.operators.groups import ranges
from thalweg.operators.window.extents import Frames, Occupied
from thalweg.operators.window.held_rows import Located
from thalweg.operators.window.modules.at_once import compute_at_once
from thalweg.operators.window.modules.module_windows import ModuleWindows
from thalweg.operators.window.values import Values
from thalweg.plan.nodes import WidApply, WindowApply
from thalweg.udm.cells import Cells

__all__ = ["ModuleValues"]

_ZERO = np.zeros(1, np.int64)


class ModuleValues(Values):
    def __init__(self, node: WidApply | WindowApply) -> None:
        self._module = ModuleWindows(node)
        self.fields = self._module.argument_fields

    def columns(self, delta: Delta) -> list[pa.Array]:
        return self._module.argument_columns(delta)

    def answer(self, keys: list[pa.Array], rows: Located, frames: Frames, found: Occupied) -> Delta:
        module, count = self._module, found.hi - found.lo
        cell, member = ranges(found.lo, count)
        row = found.rows[member]
        if not module.module.properties.any_order:
            every = self._inputs(rows, rows.at)
            row = row[module.order(every, rows.start, rows.start, row, cell)]
        offsets = np.concatenate([_ZERO, count.cumsum()])
        begin, end = frames.start[found.frame], frames.end[found.frame]
        seen = rows.start[row]
        inputs = self._inputs(rows, rows.at[row])
        cells = Cells(inputs, seen, seen + 1, offsets, begin, end)
        return compute_at_once(module, keys, cells)[0]

    def _inputs(self, rows: Located, at: Codes) -> Rows:
        """The inputs of the module from the rows that are stored at some positions."""
        columns = [take_column(rows.stored.column(field.name), at) for field in self.fields]
        return pa.RecordBatch.from_arrays(columns, schema=self._module.inputs)

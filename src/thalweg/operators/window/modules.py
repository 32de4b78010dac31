"""What windows give where a module computes it: a user's aggregate or operator.

The rows of a window reach the module in canonical order, each as the event [s, s + 1) at its start,
so that the same rows give the same answer whenever they are asked: an answer is taken back by
computing it again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, take_column
from thalweg.model.time import Times
from thalweg.operators.groups import ranges
from thalweg.operators.hopping.extents import Frames, Occupied
from thalweg.operators.modules.module_windows import ModuleWindows
from thalweg.operators.modules.window_index import Entries
from thalweg.operators.window.held_rows import Located
from thalweg.operators.window.values import Values
from thalweg.plan.nodes import WidApply, WindowApply
from thalweg.udm.calls import Cells

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
        answers = module.caller.compute(cells)
        if answers.failures or module.node.stamp != "align":
            return module.answered(answers, _entries(keys, begin, end, count), cells)[0].rows
        if module.module.kind != "aggregate":  # any number of rows of each window
            keys = [take_column(key, answers.cell) for key in keys]
        payload = pa.RecordBatch.from_arrays(
            [*keys, *answers.payload.columns], schema=module.node.schema
        )
        return Delta(payload, answers.start, answers.end, np.ones(len(answers.cell), np.int64))

    def _inputs(self, rows: Located, at: Codes) -> Rows:
        """What the module gets of the rows that are stored at some positions."""
        columns = [take_column(rows.stored.column(field.name), at) for field in self.fields]
        return pa.RecordBatch.from_arrays(columns, schema=self._module.inputs)


def _entries(keys: list[pa.Array], start: Times, end: Times, events: Codes) -> Entries:
    size = len(start)
    named = pa.RecordBatch.from_arrays(
        keys or [pa.nulls(size)], names=[str(at) for at in range(max(len(keys), 1))]
    )
    no, none = np.zeros(size, np.bool_), np.zeros(size, np.int64)
    return Entries(
        named,
        none,
        np.arange(size),
        start,
        end,
        end,
        events,
        no,
        none,
        no,
        np.full(size, None, object),
    )

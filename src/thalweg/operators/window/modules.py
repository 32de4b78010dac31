"""What windows give where a module computes it: a user's aggregate or operator.

The rows of a window reach the module in canonical order, each as the event [s, s + 1) at its start,
so that the same rows give the same answer whenever they are asked: an answer is taken back by
computing it again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Rows
from thalweg.model.time import Times
from thalweg.operators.groups import ranges
from thalweg.operators.hopping.extents import Frames, Occupied
from thalweg.operators.modules.module_windows import ModuleWindows
from thalweg.operators.modules.window_frames import Spans
from thalweg.operators.modules.window_index import Entries
from thalweg.operators.window.values import Values
from thalweg.plan.nodes import WidApply

__all__ = ["ModuleValues"]


class ModuleValues(Values):
    def __init__(self, node: WidApply) -> None:
        self._module = ModuleWindows(node)
        self.fields = self._module.argument_fields

    def columns(self, delta: Delta) -> list[pa.Array]:
        return self._module.argument_columns(delta)

    def answer(
        self, keys: list[pa.Array], parts: Rows, start: Times, frames: Frames, found: Occupied
    ) -> Delta:
        module, size = self._module, len(found.frame)
        cell, member = ranges(found.lo, found.hi - found.lo)
        row = found.rows[member]
        spans = Spans(np.arange(size), frames.start[found.frame], frames.end[found.frame])
        arguments = parts.columns[parts.num_columns - len(self.fields) :]
        blank = [pa.nulls(parts.num_rows, field.type) for field in module.key_schema]
        held = pa.RecordBatch.from_arrays([*blank, *arguments], schema=module.held)
        ones = np.ones(parts.num_rows, np.int64)
        rows = Delta(held, start, start + 1, ones)
        cells = module.cells(rows, row, cell, ones[row], spans)
        windows = _entries(keys, spans, found.hi - found.lo)
        answered, _ = module.answered(module.caller.compute(cells), windows, cells)
        return answered.rows


def _entries(keys: list[pa.Array], spans: Spans, events: Times) -> Entries:
    size = len(spans)
    named = pa.RecordBatch.from_arrays(
        keys or [pa.nulls(size)], names=[str(at) for at in range(max(len(keys), 1))]
    )
    no, none = np.zeros(size, np.bool_), np.zeros(size, np.int64)
    return Entries(
        named,
        none,
        np.arange(size),
        spans.start,
        spans.end,
        spans.end,
        events,
        no,
        none,
        no,
        np.full(size, None, object),
    )

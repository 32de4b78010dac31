"""Windows computed from their rows in one call, both when they answer and when they are retracted.

That is right for modules that are deterministic and know no time (see `WindowApply.at_once`), so
that only rows need to be held.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, take_column
from thalweg.operators.window.modules.module_windows import ModuleWindows
from thalweg.operators.window.modules.window_entries import Entries
from thalweg.udm.cells import Cells

__all__ = ["compute_at_once"]


def compute_at_once(
    module: ModuleWindows, keys: list[pa.Array], cells: Cells
) -> tuple[Delta, Codes]:
    """The answers of some windows as rows of the stream, and the window of each; `keys` are the
    leading columns, with one value for each window."""
    answers = module.caller.compute(cells)
    if answers.failures or module.node.stamp != "align":
        answered, _ = module.answered(answers, _entries(keys, cells), cells)
        return answered.rows, answered.window
    if module.module.kind != "aggregate":  # any number of rows of each window
        keys = [take_column(key, answers.cell) for key in keys]
    payload = pa.RecordBatch.from_arrays(
        [*keys, *answers.payload.columns], schema=module.node.schema
    )
    rows = Delta(payload, answers.start, answers.end, np.ones(len(answers.cell), np.int64))
    return rows, answers.cell


def _entries(keys: list[pa.Array], cells: Cells) -> Entries:
    """Entries for windows that are in no index; their ids are their positions."""
    size = len(cells)
    named = pa.RecordBatch.from_arrays(
        keys or [pa.nulls(size)], names=[str(at) for at in range(max(len(keys), 1))]
    )
    no, none = np.zeros(size, np.bool_), np.zeros(size, np.int64)
    return Entries(
        keys=named,
        partition=none,
        id=np.arange(size),
        start=cells.start,
        end=cells.end,
        closes=cells.end,
        events=np.diff(cells.offsets),
        recomputed=no,
        checksum=none,
        failed=no,
        state=np.full(size, None, object),
    )

"""A late row costs the windows that it is in, however many rows its group has: counted in rows that
are looked at and in bytes that are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.graph import build_graph
from thalweg.model.batch import Batch
from thalweg.model.rows import Codes, Rows
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.engine import WindowEngine
from thalweg.operators.window.modules.module_kernel import ModuleKernel
from thalweg.operators.window.modules.paned_apply import PanedApplyKernel
from thalweg.operators.window.snapshot.apply import SnapshotApplyKernel
from thalweg.state import Hits

SCHEMA = pa.schema([("v", pa.float64())])
S = tw.source("s", SCHEMA)
INSERTED = tw.source("s", SCHEMA, insert_only=True)
QUERIES = {
    "snapshot": S.snapshot().apply("median", "v"),
    "snapshot, in columns": S.snapshot().apply("average", "v"),
    "snapshot, ends matter": S.snapshot().apply("time_weighted_average", "v", clip="none"),
    "hopping, in steps": S.hopping(20, 10).apply("average", "v"),
    "hopping, whole": S.hopping(20, 10).apply("median", "v"),
    "hopping, ends matter": S.hopping(20, 10).apply("time_weighted_average", "v", clip="none"),
    "hopping, in panes": INSERTED.hopping(20, 10).apply("average", "v"),
    "session": S.session(3).apply("median", "v"),
    "count": S.count_by_start(3).apply("median", "v"),
    "count by end": S.count_by_end(3).apply("median", "v"),
    "session, in columns": S.session(3).apply("average", "v"),
    "count, in columns": S.count_by_start(3).apply("average", "v"),
    "count by end, in columns": S.count_by_end(3).apply("average", "v"),
}
KERNELS = ModuleKernel | PanedApplyKernel | WindowEngine | SnapshotApplyKernel
FEW, MANY = 1_000, 20_000


def kernel_with(query: tw.Stream, rows: int) -> Operator:
    """The module's kernel, holding so many rows of one group, most of them in windows that have
    answered."""
    graph, _ = build_graph(query.node, Consistency("speculative"))
    (kernel,) = [
        operator.kernel for operator in graph.operators if isinstance(operator.kernel, KERNELS)
    ]
    kernel.process(0, batch(np.arange(rows) * 4, 3))
    kernel.snapshot()
    return kernel


def batch(start: np.ndarray[tuple[int], np.dtype[np.int64]], duration: int) -> Batch:
    values = pa.array(start % 7, pa.float64())
    return Batch(pa.RecordBatch.from_arrays([values], schema=SCHEMA), start, start + duration)


@contextmanager
def counted_rows() -> Iterator[list[int]]:
    """The rows that are taken from state, as long as it lasts."""
    counts: list[int] = []
    whole, one_column = Hits.payload, Hits.column

    def payload(self: Hits, names: list[str] | None = None) -> Rows:
        counts.append(len(self))
        return whole(self, names)

    def column(self: Hits, name: str, which: Codes | None = None) -> pa.Array:
        counts.append(len(self))
        return one_column(self, name, which)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hits, "payload", payload)
        patch.setattr(Hits, "column", column)
        yield counts


def work_of_a_late_row(query: tw.Stream, rows: int) -> tuple[int, int]:
    """Rows that are looked at, and bytes that are written, for one row in the midst."""
    kernel = kernel_with(query, rows)
    before = kernel.snapshot()
    with counted_rows() as counts:
        out = kernel.process(0, batch(np.array([rows // 2 * 4 + 1]), 1))
    assert len(out), "windows were out, and are revised"
    after = kernel.snapshot()
    written = sum(rows.nbytes for name, rows in after.items() if before.get(name) is not rows)
    return sum(counts), written


@pytest.mark.parametrize("name", QUERIES)
def test_a_late_row_costs_what_it_touches(name: str) -> None:
    seen, written = work_of_a_late_row(QUERIES[name], MANY)
    assert 0 < seen < 200
    assert written < 64_000
    few, _ = work_of_a_late_row(QUERIES[name], FEW)
    assert seen == few, "the same windows, whatever lies beside them"

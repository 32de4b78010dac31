"""`recent` of two steps is the as-of join: on recorded quotes it has the rows of DuckDB's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import thalweg as tw
from benchmarks.patterns import joined_by_duckdb, joined_by_recent, two_connections
from thalweg.operators.joining.clip_by import ClipByKernel


def test_recent_has_the_rows_of_an_asof_join() -> None:
    first, second = two_connections()
    expected, _ = joined_by_duckdb(first, second)
    assert sum(expected.values()) > 100
    assert set(expected.values()) == {1}
    for size in (10_000, 37):
        found, _ = joined_by_recent(first, second, size)
        assert found == expected


def test_many_rows_of_a_key_in_one_batch_are_each_looked_at_once() -> None:
    """All of them last until the next one comes, which is in the same batch."""
    rows = 5_000
    a, b = (tw.source(name, {"k": "int64"}, insert_only=True) for name in "ab")
    engine = tw.Engine(tw.sequence({"a": a, "b": b}, "k", mode="recent"))
    table = pa.table({"_start": np.arange(rows) * 2, "k": np.ones(rows, np.int64)})
    engine.push("a", table)
    kernels = [operator.kernel for operator in engine._graph.operators]
    (clip,) = [kernel for kernel in kernels if isinstance(kernel, ClipByKernel)]
    assert clip.looked_at <= 2 * rows
    later = pa.table({"_start": np.arange(rows) * 2 + 1, "k": np.ones(rows, np.int64)})
    assert sum(len(batch) for batch in engine.push("b", later)) == rows

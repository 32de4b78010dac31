"""Panes of points and of rows that last: each cell has the windows that its rows lie in."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from thalweg import count
from thalweg.model.batch import Batch
from thalweg.operators.window.grid.panes import PanesKernel
from thalweg.plan.nodes import Panes, Source
from thalweg.windows import HoppingWindow

SCHEMA = pa.schema([("k", pa.int64())])
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-60, 60), st.integers(1, 25)), min_size=1, max_size=30
)


def windows_of(start: int, end: int, window: HoppingWindow) -> tuple[int, int]:
    """The first and the last window that a row lies in, found by looking at all of them."""
    found = [
        k
        for k in range(-150, 150)
        if k * window.hop + window.offset < end
        and k * window.hop + window.offset + window.size > start
    ]
    return found[0], found[-1]


@given(ROWS, st.integers(1, 7), st.integers(1, 4), st.integers(-9, 9), st.booleans())
def test_cells_have_the_windows_of_their_rows(
    rows: list[tuple[int, int, int]], hop: int, hops: int, offset: int, points: bool
) -> None:
    window = HoppingWindow(hop * hops, hop, offset % hop)
    kernel = PanesKernel(Panes(Source("s", SCHEMA), window, (("n", count()),), ("k",)))
    key, start, lasts = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    end = start + (1 if points else lasts)
    payload = pa.RecordBatch.from_arrays([pa.array(key)], schema=SCHEMA)
    out = kernel.process(0, Batch(payload, start, end))
    expected = Counter(
        (k, *windows_of(s, e, window))
        for k, s, e in zip(key.tolist(), start.tolist(), end.tolist(), strict=True)
    )
    numbers = [column.to_pylist() for column in out.payload.columns]
    found = {
        (k, *windows_of(s, e, window)): n
        for k, n, s, e in zip(*numbers, out.start.tolist(), out.end.tolist(), strict=True)
    }
    assert found == dict(expected)

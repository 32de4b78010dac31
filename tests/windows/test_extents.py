"""Which rows are in which windows: what compares each window with each row says the same as what
searches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.model.rows import Codes
from thalweg.operators.window import extents
from thalweg.operators.window.extents import Frames, Occupied, occupied

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-5, 20)), max_size=30)


def found(cells: Occupied, group: Codes) -> list[tuple[int, int, list[int]]]:
    """The group, the window and the rows of each pair."""
    return [
        (int(group[one]), int(frame), cells.rows[low:high].tolist())
        for one, frame, low, high in zip(
            cells.representative, cells.frame, cells.lo, cells.hi, strict=True
        )
    ]


@given(rows=ROWS, size=st.integers(1, 6), hop=st.integers(1, 6))
def test_comparing_and_searching_find_the_same_rows(
    rows: list[tuple[int, int, int]], size: int, hop: int
) -> None:
    rows.sort(key=lambda row: (row[0], row[2]))
    partition, some, coordinate = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    group = 3 * partition + some
    begins = np.arange(-5, 20, hop)
    low = np.tile(begins, 3)
    frames = Frames(
        np.repeat(np.arange(3), len(begins)), low, low + size, low, low + size, low // hop
    )
    compared = found(occupied(frames, partition, group, coordinate), group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extents, "_FEW", -1)
        searched = found(occupied(frames, partition, group, coordinate), group)
    assert compared == searched
    for owner, window, members in compared:
        assert members == [
            at
            for at, (one, other, when) in enumerate(rows)
            if 3 * one + other == owner and low[window] <= when < low[window] + size
            and frames.partition[window] == one
        ]  # fmt: skip

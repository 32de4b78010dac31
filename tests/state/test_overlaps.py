"""Pairs of rows that overlap, against comparing each with each."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.model.rows import Codes
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times
from thalweg.state.overlaps import overlapping_pairs

Side = tuple[Codes, Times, Times]

INSTANTS = np.array(
    [MIN_TIME, MIN_TIME + 1, -(2**61), -(2**60), -5, 0, 3, 2**60, 2**61, MAX_TIME - 1, INFINITY]
)


def side(random: np.random.Generator, codes: int) -> Side:
    """Rows between instants that lie up to the whole clock apart."""
    size = int(random.integers(1, 90))
    begin = random.integers(0, len(INSTANTS) - 1, size)
    end = INSTANTS[random.integers(begin + 1, len(INSTANTS))]
    start = INSTANTS[begin]
    end = np.where(random.random(size) < 0.5, start + 1, end)
    return random.integers(0, codes, size), start, end


@pytest.mark.parametrize("codes", [1, 3, 2**20])
def test_law(codes: int) -> None:
    for seed in range(60):
        random = np.random.default_rng(seed)
        left, right = side(random, codes), side(random, codes)
        alike = left[0][:, None] == right[0]
        overlap = (left[1][:, None] < right[2]) & (right[1] < left[2][:, None])
        wanted = [pair.tolist() for pair in np.nonzero(alike & overlap)]
        found = sorted(zip(*overlapping_pairs(*left, *right), strict=True))
        assert found == sorted(zip(*wanted, strict=True))

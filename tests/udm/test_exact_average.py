"""The average in columns: the sum of small whole numbers and the digits of all other values give
what exact fractions give, however rows are divided into panes."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from thalweg.udm.library.averages import Average

VALUES = {
    "whole": [0.0, -0.0, 1.0, -7.0, 2.0**31 - 1, 1 - 2.0**31],
    "fractions": [0.1, -0.2, 1e-300, 5e-324, 0.5],
    "large": [2.0**31, -(2.0**31), 2.0**53, 1e300, -1e300, 1e16],
    "special": [float("nan"), float("inf"), float("-inf")],
}


def merged(values: list[float], cuts: list[int]) -> float:
    """By panes between the cuts, put together."""
    module = Average()
    rows = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.float64())})
    offsets = np.array([0, *cuts, len(values)])
    states = module.partials(rows, offsets)
    assert states.column("total").type == pa.list_(pa.field("item", pa.int64(), nullable=False))
    whole = module.merge_groups(states, np.array([0, states.num_rows]))
    return float(module.results(whole)[0])


@pytest.mark.parametrize("kinds", [("whole",), ("whole", "fractions"), tuple(VALUES)])
@pytest.mark.parametrize("seed", range(30))
def test_the_same_as_exact_fractions(kinds: tuple[str, ...], seed: int) -> None:
    random = Random(f"{kinds}/{seed}")
    pool = [value for kind in kinds for value in VALUES[kind]]
    values = random.choices(pool, k=random.randint(1, 20))
    module = Average()
    expected = module.result(module.add(module.empty(), values))
    for _ in range(3):
        cuts = sorted(random.choices(range(len(values) + 1), k=random.randint(0, 4)))
        found = merged(values, cuts)
        assert found == expected or (found != found and expected != expected)


def test_whole_numbers_need_no_digits() -> None:
    values = pa.array([1.0, 2.0, 3.0, 0.5])
    states = Average().partials(
        pa.RecordBatch.from_pydict({"value": values}), np.array([0, 2, 3, 4])
    )
    assert states.column("whole").to_pylist() == [3, 3, 0]
    assert states.column("total").is_valid().to_pylist() == [False, False, True]

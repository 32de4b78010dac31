"""How many rows the next micro-batch gets, from what the ones before took."""

from __future__ import annotations

from random import Random

import pytest

from thalweg.freshness.batch_cost import BatchCost

TARGET = 4_000_000


@pytest.mark.parametrize("noise", [0.03, 0.3])
@pytest.mark.parametrize(
    ("overhead", "row"),
    [(500_000, 50), (500_000, 200), (2_000_000, 5), (18_000_000, 200)],
    ids=["usual", "dear rows", "half of the target", "a slow machine"],
)
def test_batches_grow_to_what_can_be_digested(overhead: int, row: int, noise: float) -> None:
    """Also where a small batch alone takes half of the target, or much more: then a batch gets as
    many rows as cost as much as the overhead. The first ones all had one size."""
    random, cost = Random(1), BatchCost()

    def took(rows: int) -> int:
        return int((overhead + row * rows) * random.uniform(1 - noise, 1 + noise))

    for _ in range(5):
        cost.observe(500, took(500))
    sizes = []
    for _ in range(40):
        sizes.append(cost.rows_within(TARGET))
        cost.observe(sizes[-1], took(sizes[-1]))
    best = max(TARGET / 2 - overhead, overhead) / row
    late = sorted(sizes[-20:])
    assert 0.5 * best < late[10] < 2 * best
    assert all(after <= 2 * max(sizes[: at + 1]) for at, after in enumerate(sizes[1:]))

"""The long form of the flipped bits: a hundred of them, and more in a checkpoint whose last
micro-batch is not finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.spark.jobs.flips import Flips
from tests.spark.jobs.streams import Arrivals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
]


@pytest.mark.parametrize(
    ("name", "pending", "count"),
    [("priced", False, 100), ("windows", True, 48), ("spread", True, 24)],
    ids=["finished", "unfinished", "two exchanges"],
)
def test_no_flipped_bit_gives_a_wrong_answer(
    tmp_path: Path,
    name: str,
    pending: bool,
    count: int,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    flips = Flips(Arrivals(tmp_path, 5, seed=2, rows=40), name, pending)
    flips.run(count, Random(2))
    for (kind, outcome), times in sorted(flips.outcomes.items()):
        record_testsuite_property(f"{name}, {kind}: {outcome}", times)

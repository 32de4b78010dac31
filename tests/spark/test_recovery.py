"""A query that was killed goes on from its checkpoint as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.spark.jobs.killing import assert_right, survive_kills
from tests.spark.jobs.streams import Arrivals

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="processes are found through /proc"
    ),
]


def test_killed_queries_go_on_with_nothing_lost_or_doubled(tmp_path: Path) -> None:
    """Driver, JVM and workers die by SIGKILL: when the first micro-batch is planned, and twice
    while windows and a join are at work, and beside them a query without state."""
    hits = survive_kills(
        Arrivals(tmp_path, 8, seed=1),
        3,
        Random(1),
        "--queries",
        "priced,large",
        "--consistency",
        "speculative",
    )
    assert hits >= 1
    for name in ("priced", "large"):
        assert_right(tmp_path, name)

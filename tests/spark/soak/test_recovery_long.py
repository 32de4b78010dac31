"""The long form of the recovery tests: many kills of everything, of workers, and disks that are
full at many moments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.spark.jobs.disks import Disk, live_on_a_full_disk
from tests.spark.jobs.killing import assert_right, commits, kill_workers, survive_kills
from tests.spark.jobs.processes import driver
from tests.spark.jobs.streams import Arrivals, answers, expected

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="processes are found through /proc"
    ),
]


@pytest.mark.parametrize(
    ("kills", "queries", "options"),
    [
        (20, "windows,priced", ()),
        (25, "swing,visits", ()),
        (8, "spread", ()),
        (8, "windows,priced", ("--consistency", "final")),
    ],
    ids=["windows and a join", "a user's aggregate and sessions", "two exchanges", "final"],
)
def test_many_kills(
    tmp_path: Path,
    kills: int,
    queries: str,
    options: tuple[str, ...],
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    read = ("events",) if queries == "swing,visits" else ("events", "rates")
    arrivals = Arrivals(tmp_path, 2 * kills, seed=11, read=read)
    hits = survive_kills(arrivals, kills, Random(11), "--queries", queries, *options)
    record_testsuite_property("kills in a micro-batch", hits)
    assert hits >= kills // 4
    for name in queries.split(","):
        assert_right(tmp_path, name)


def test_many_dead_workers(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path, 14, seed=12, rows=2000)
    with driver(tmp_path, "--queries", "windows") as job:
        arrivals.arrive("events")
        job.until(lambda: commits(tmp_path) > 0, "a micro-batch was done")
        kill_workers(job, arrivals, 10)
        job.kill()
    arrivals.arrive_all()
    with driver(tmp_path, "--queries", "windows", "--trigger", "available now") as job:
        assert job.end() == 0
    assert_right(tmp_path, "windows")


@pytest.mark.usefixtures("spark")
def test_a_disk_that_is_full_at_many_moments(tmp_path: Path) -> None:
    """Each time a little later in the micro-batch."""
    disk = Disk(tmp_path / "checkpoint")
    try:
        assert (
            live_on_a_full_disk(
                Arrivals(tmp_path, 24, seed=13, rows=40), disk, range(0, 80 << 10, 4 << 10)
            )
            >= 4
        )
    finally:
        disk.remove()
    assert answers(tmp_path, "windows") == expected(tmp_path, "windows")

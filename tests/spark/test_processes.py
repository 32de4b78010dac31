"""Queries as processes: workers may die, nothing listens to the outside, and nothing is left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.spark.jobs.killing import assert_right, commits, kill_workers
from tests.spark.jobs.processes import driver
from tests.spark.jobs.streams import Arrivals

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found through /proc"),
]


def test_a_query_survives_a_dead_worker_listens_on_loopback_only_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """One driver script, since starting one is what takes the time."""
    arrivals = Arrivals(tmp_path, 6, seed=5)
    with driver(tmp_path, "--queries", "windows") as job:
        arrivals.arrive("events")
        job.until(lambda: commits(tmp_path) > 0, "a micro-batch was done")
        sockets = job.listening()
        assert sockets, "the driver and its JVM talk through a socket at least"
        assert all(address.is_loopback for address, _ in sockets), sockets

        kill_workers(job, arrivals, 1)
        job.terminate()
        assert job.end(limit=10) != 0
        assert job.gone(), job.members()
    with driver(tmp_path, "--queries", "windows", "--trigger", "available now") as job:
        arrivals.arrive_all()
        assert job.end() == 0
        assert job.gone(), job.members()
    assert_right(tmp_path, "windows")


def test_a_query_runs_under_spark_submit(tmp_path: Path) -> None:
    Arrivals(tmp_path, 2, seed=6).arrive_all()
    submit = Path(sys.executable).with_name("spark-submit")
    arguments = (tmp_path, "--queries", "priced", "--trigger", "available now")
    with driver(*arguments, launcher=(str(submit),), PYSPARK_PYTHON=sys.executable) as job:
        job.until((tmp_path / "running").exists, "the query was started")
        assert all(address.is_loopback for address, _ in job.listening()), job.listening()
        assert job.end() == 0
        assert job.gone(), job.members()
    assert_right(tmp_path, "priced")

"""Queries as processes: workers may die, nothing listens to the outside, and nothing is left
behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.spark.jobs.killing import assert_right, commits, kill_workers
from tests.spark.jobs.processes import assert_on_loopback, driver
from tests.spark.jobs.streams import Arrivals

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="processes are found through /proc"
    ),
]


def test_dead_workers_loopback_the_end_and_spark_submit(tmp_path: Path) -> None:
    """One story, since starting a driver is what takes the time.

    A query loses its workers and goes on; it listens on loopback only; asked to end it does, and
    leaves no process behind; under `spark-submit` it goes on from its checkpoint, and all its
    answers are right.
    """
    arrivals = Arrivals(tmp_path, 6, seed=5)
    with driver(tmp_path, "--queries", "windows") as job:
        arrivals.arrive("events")
        job.until(lambda: commits(tmp_path) > 0, "a micro-batch was done")
        assert job.listening(), "the driver and its JVM talk through a socket at least"
        assert_on_loopback(job)
        kill_workers(job, arrivals, 1)
        job.terminate()
        assert job.end(limit=10) != 0
        assert job.gone(), job.members()

    arrivals.arrive_all()
    (tmp_path / "running").unlink()
    submit = (str(Path(sys.executable).with_name("spark-submit")),)
    arguments = ("--queries", "windows", "--trigger", "available now")
    with driver(tmp_path, *arguments, launcher=submit, PYSPARK_PYTHON=sys.executable) as job:
        job.until((tmp_path / "running").exists, "the query was started")
        assert_on_loopback(job)
        assert job.end() == 0
        assert job.gone(), job.members()
    assert_right(tmp_path, "windows")

"""The same answers on more than one executor: Spark's cluster in one process, and a master with two
workers on loopback."""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.spark.jobs.killing import assert_right
from tests.spark.jobs.processes import Job, assert_on_loopback, driver
from tests.spark.jobs.streams import Arrivals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="processes are found through /proc"
    ),
]

BIN = Path(sys.executable).parent
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def test_a_local_cluster(tmp_path: Path) -> None:
    Arrivals(tmp_path, 3, seed=21).arrive_all()
    with driver(
        tmp_path, "--trigger", "available now", "--master", "local-cluster[2,1,1024]"
    ) as job:
        job.until(
            (tmp_path / "answers" / "priced" / "batch=0" / "_SUCCESS").exists,
            "a micro-batch was done",
        )
        assert_on_loopback(job)
        assert (
            sum("CoarseGrainedExecutorBackend" in member.command for member in job.members()) == 2
        )
        assert job.end() == 0
        assert job.gone(), job.members()
    assert_right(tmp_path, "windows")
    assert_right(tmp_path, "priced")


def test_sums_in_the_jvm_on_a_local_cluster(tmp_path: Path) -> None:
    """Executors get the class that was compiled in the driver. Five windows of seven keys are over;
    one row of 2,500 was rejected, the 5."""
    with driver(tmp_path, "local-cluster[2,1,1024]", script="frames.py") as job:
        assert job.end() == 0, job.log.read_text()
        told = job.log.read_text()
    assert "source events: panes are summed up in the JVM" in told
    assert f"totals: {[35, 2499, sum(range(2500)) - 5]}" in told


def test_a_master_with_two_workers_under_spark_submit(tmp_path: Path) -> None:
    Arrivals(tmp_path, 3, seed=22).arrive_all()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    run = (str(BIN / "spark-class"),)
    ui = ("--webui-port", "0")
    with ExitStack() as stack:
        stack.enter_context(
            Job(
                *run,
                "org.apache.spark.deploy.master.Master",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                *ui,
                **LOOPBACK,
            )
        )
        workers = [
            stack.enter_context(
                Job(
                    *run,
                    "org.apache.spark.deploy.worker.Worker",
                    "-c",
                    "1",
                    "-m",
                    "1g",
                    *ui,
                    master,
                    **LOOPBACK,
                )
            )
            for _ in range(2)
        ]
        for worker in workers:
            log = worker.log
            worker.until(
                lambda log=log: "Successfully registered" in log.read_text(),  # type: ignore[misc]
                "the worker was there",
            )
        submit = (str(BIN / "spark-submit"), "--master", master)
        job = stack.enter_context(
            driver(tmp_path, "--trigger", "available now", launcher=submit, **LOOPBACK)
        )
        job.until(
            (tmp_path / "answers" / "priced" / "batch=0" / "_SUCCESS").exists,
            "a micro-batch was done",
        )
        assert_on_loopback(job, *workers)
        assert all(
            "CoarseGrainedExecutorBackend" in " ".join(m.command for m in worker.members())
            for worker in workers
        )
        assert job.end() == 0
        assert job.gone(), job.members()
    assert_right(tmp_path, "windows")
    assert_right(tmp_path, "priced")

"""Queries that come and go on one Spark query, which is killed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import hosting
from tests.spark.jobs.killing import begun, commits
from tests.spark.jobs.processes import driver
from tests.spark.jobs.streams import Arrivals, query
from thalweg.errors import StateError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="processes are found through /proc"
    ),
]


def test_queries_come_and_go_and_survive_a_kill(tmp_path: Path, spark: SparkSession) -> None:
    """Two queries are added, all processes die in the middle of a micro-batch, a third is added and
    one removed in another process: every table is that of the rows since its version, and a bit
    that was flipped in the registry is refused."""
    arrivals = Arrivals(tmp_path, 6, seed=8)
    with driver(tmp_path, script="hosting.py") as job:
        arrivals.arrive("events")
        arrivals.arrive("rates")
        windows = hosting.command(tmp_path, 1, {"add": "windows"})
        job.until(windows.exists, "a query was added")
        job.until(lambda: commits(tmp_path) > 0, "a micro-batch was done")
        arrivals.arrive("events")
        job.until(lambda: commits(tmp_path) > 1, "another was done")
        priced = hosting.command(tmp_path, 2, {"add": "priced"})
        job.until(priced.exists, "another query was added")
        planned = begun(tmp_path)
        arrivals.arrive("events")
        job.until(lambda: begun(tmp_path) > planned, "a micro-batch was planned")
        job.kill()
    assert set(hosting.hosted(tmp_path)) == hosting.acknowledged(tmp_path) == {"windows", "priced"}

    host = hosting.open_host(tmp_path).start()
    assert host.queries == ["windows", "priced"]
    hosting.perform(host, tmp_path, {"add": "spread"})
    host.add("table", query(tmp_path, "windows"), partial=True)
    arrivals.arrive("events")
    assert host.wait_for_batches(2, 300)
    hosting.perform(host, tmp_path, {"remove": "windows"})
    arrivals.arrive_all()
    host.stop()
    host = hosting.open_host(tmp_path)
    assert host.start("available now").wait(600)
    assert host.queries == ["priced", "spread", "table"]
    for name in ("priced", "spread"):
        assert hosting.answers(tmp_path, name) == hosting.expected(tmp_path, name), name
    first = hosting.expected(tmp_path, "spread")
    assert first and len(host.table("table"))
    host.stop()

    file = sorted((tmp_path / "checkpoints" / "host" / "thalweg" / "queries").iterdir())[1]
    written = bytearray(file.read_bytes())
    written[len(written) // 2] ^= 4
    file.write_bytes(written)
    with pytest.raises(StateError, match=f"{file.name}: this version .* is not what was written"):
        hosting.open_host(tmp_path)

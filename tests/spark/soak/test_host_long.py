"""A host that is killed again and again while queries come and go; and one with a hundred
queries."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import thalweg as tw
from tests.spark.jobs import hosting
from tests.spark.jobs.processes import driver
from tests.spark.jobs.streams import Arrivals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="processes are found through /proc"
    ),
]


def test_the_queries_that_were_acknowledged_survive_twenty_kills(
    tmp_path: Path, spark: SparkSession
) -> None:
    random = Random(20)
    arrivals = Arrivals(tmp_path, 60, seed=20)
    names: list[str] = []
    number = 0
    for _ in range(20):
        (tmp_path / "running").unlink(missing_ok=True)
        with driver(tmp_path, script="hosting.py") as job:
            job.until((tmp_path / "running").exists, "the host was started")
            for _ in range(random.randint(1, 3)):
                number += 1
                arrivals.arrive_somewhere(random)
                if names and random.random() < 0.4:
                    move = {"remove": names.pop(random.randrange(len(names)))}
                else:
                    names.append(f"{random.choice(['windows', 'priced', 'spread'])}-{number}")
                    move = {"add": names[-1]}
                ack = hosting.command(tmp_path, number, move)
                if random.random() < 0.7:
                    job.until(ack.exists, "the command was done")
            for _ in range(random.randrange(60)):
                assert not job.tick(), "the job ended by itself"
            job.kill()
        # A command that was not acknowledged may have been done or not.
        assert hosting.acknowledged(tmp_path) <= set(hosting.hosted(tmp_path)) | _open(tmp_path)
    arrivals.arrive_all()
    host = hosting.open_host(tmp_path)
    for move in hosting.unacknowledged(tmp_path):
        hosting.perform(host, tmp_path, move)
    assert sorted(host.queries) == sorted(names)
    assert host.start("available now").wait(1_800)
    for name in names:
        assert hosting.answers(tmp_path, name) == hosting.expected(tmp_path, name), name
    host.stop()


def _open(folder: Path) -> set[str]:
    return {name for move in hosting.unacknowledged(folder) for name in move.values()}


def test_a_hundred_queries_of_which_fifty_go(tmp_path: Path, spark: SparkSession) -> None:
    arrivals = Arrivals(tmp_path, 6, seed=3)
    arrivals.arrive("events", 2)
    host = hosting.open_host(tmp_path)
    events = hosting.source(tmp_path, "events")
    counts = {
        f"q{number}": events.where(f"value > {number % 10}")
        .group_by("key")
        .tumbling(100 + 10 * number)
        .aggregate(n=tw.count())
        for number in range(100)
    }
    host.add_all(counts, partial=True)
    host.start()
    assert host.wait_for_batches(2, 900)
    host.remove(*(f"q{number}" for number in range(50)))
    host.stop()
    arrivals.arrive_all()
    host = hosting.open_host(tmp_path)
    assert host.start("available now").wait(1_800)
    assert host.queries == [f"q{number}" for number in range(50, 100)]
    rows = tw.events(pq.read_table(tmp_path / "events"), "ts")
    for number in range(50, 100):
        name = f"q{number}"
        assert list(host.table(name)) == list(tw.table(counts[name], {"events": rows})), name
    host.stop()

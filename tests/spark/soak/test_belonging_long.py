"""Two drivers at once, and checkpoints and answers that were restored apart: nothing is lost or
doubled; what does not belong together is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs.killing import assert_right, commits
from tests.spark.jobs.processes import driver
from tests.spark.jobs.streams import CONSISTENCY, Arrivals, query
from thalweg import spark as ts
from thalweg.errors import StateError

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are found through /proc"
)
def test_a_second_driver_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path, 8, seed=21)
    with driver(tmp_path, "--queries", "windows,priced") as first:
        for name in ("events", "rates"):
            arrivals.arrive(name)
        first.until(lambda: commits(tmp_path) > 1, "micro-batches were done")
        for _ in range(2):
            with driver(tmp_path, "--queries", "windows,priced") as second:
                arrivals.arrive("events")
                assert second.end(limit=600) != 0
                assert "another query is running with this checkpoint" in second.said()
        known = commits(tmp_path)
        arrivals.arrive("events")
        first.until(lambda: commits(tmp_path) > known, "the first one went on")
        first.kill()
    arrivals.arrive_all()
    with driver(tmp_path, "--queries", "windows,priced", "--trigger", "available now") as last:
        assert last.end(limit=1200) == 0
    for name in ("windows", "priced"):
        assert_right(tmp_path, name)


def run(folder: Path, name: str, *, finish: bool) -> None:
    ts.start(
        query(folder, name, finish=finish),
        to="parquet",
        path=str(folder / "answers" / name),
        checkpoint=str(folder / "checkpoints" / name),
        consistency=CONSISTENCY[name],
        trigger="available now",
        buckets=2,
    ).wait()


def restore(folder: Path, kept: str, *names: str) -> None:
    for name in names:
        shutil.rmtree(folder / name)
        shutil.copytree(folder / kept / name, folder / name)


@pytest.mark.parametrize("name", ["windows", "spread"])
def test_what_was_restored_apart_is_refused(spark: SparkSession, name: str, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path, 6, seed=22, rows=50)
    for moment in ("early", "late"):
        for stream in ("events", "rates"):
            arrivals.arrive(stream, 2)
        run(tmp_path, name, finish=False)
        for folder in ("checkpoints", "answers"):
            shutil.copytree(tmp_path / folder, tmp_path / moment / folder)
    arrivals.arrive_all()
    restore(tmp_path, "early", "checkpoints")
    with pytest.raises(StateError, match="the checkpoint is an older copy"):
        run(tmp_path, name, finish=True)
    restore(tmp_path, "late", "checkpoints")
    restore(tmp_path, "early", "answers")
    with pytest.raises(StateError, match="lacks the micro-batches"):
        run(tmp_path, name, finish=True)
    restore(tmp_path, "early", "checkpoints", "answers")
    run(tmp_path, name, finish=True)
    assert_right(tmp_path, name)
    restore(tmp_path, "late", "checkpoints", "answers")
    run(tmp_path, name, finish=True)
    assert_right(tmp_path, name)

"""On real Spark: sources, checkpoints, sinks and sessions that belong together, and what is
refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import thalweg as tw
import thalweg.spark as tws
from thalweg.errors import InputWarning, StateError

pytestmark = pytest.mark.xdist_group("spark")


def packets(folder: Path, *values: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for value in values:
        pq.write_table(pa.table({"ts": [value], "v": [value]}), folder / f"{value}.parquet")
    return folder


def counted(*folders: Path, **options: Any) -> tw.Stream:
    streams = [
        tws.from_files(str(folder), time="ts", format="parquet", **options) for folder in folders
    ]
    whole = streams[0] if len(streams) == 1 else streams[0].union(streams[1])
    return whole.tumbling(10).aggregate(n=tw.count(), s=tw.sum_("v"))


def settings(spark: SparkSession) -> dict[str, str]:
    return dict(spark.conf.getAll)


def test_two_folders_of_one_name_a_restart_and_a_lock(spark: SparkSession, tmp_path: Path) -> None:
    eu, us = packets(tmp_path / "eu" / "p", 1, 2), packets(tmp_path / "us" / "p", 3)
    (us / "4.parquet").write_bytes(b"PAR1 half")
    (us / "5.csv").write_text("ts,v\n1,1\n")
    before = settings(spark)
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint")}
    running = tws.start(counted(eu, us), trigger="availableNow", **options)
    with pytest.raises(StateError, match="another query is running with this checkpoint"):
        tws.start(counted(eu, us), **options)
    with pytest.warns(InputWarning, match=r"source 'us/p': the file [45]\.\w+ is not read"):
        running.wait()
    status = running.status()
    assert (status.rows, status.passed) == (3, 2)
    assert [payload for _, _, payload in running.table()] == [], "nothing is promised yet"
    packets(eu, 15)
    packets(us, 25)
    again = tws.start(counted(eu, us, finish=True), trigger="once", **options)
    with pytest.warns(InputWarning):
        again.wait()
    assert sorted((start, row["n"], row["s"]) for start, _, row in again.table()) == [
        (0, 3, 6),
        (10, 1, 15),
        (20, 1, 25),
    ]
    third = tws.start(counted(eu, us, finish=True), trigger="once", **options)
    assert len(third.table()) == 3, "the table is there before the first micro-batch"
    third.stop()
    assert settings(spark) == before


def test_a_sink_belongs_to_its_checkpoint_and_a_refusal_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = packets(tmp_path / "in", 1, 12)
    query = counted(folder, disorder=0)
    to: dict[str, Any] = {"to": "parquet", "path": str(tmp_path / "out"), "trigger": "once"}
    tws.start(query, checkpoint=str(tmp_path / "one"), **to).wait()
    with pytest.raises(StateError, match="the answers of another checkpoint"):
        tws.start(query, checkpoint=str(tmp_path / "two"), **to)
    assert not (tmp_path / "two").exists()
    changed = counted(folder, disorder=0).where("n > 1").tumbling(5).aggregate(n=tw.count())
    with pytest.raises(StateError, match=r"belongs to another query|is new in this query"):
        tws.start(changed, checkpoint=str(tmp_path / "one"), **to)
    packets(folder, 23)
    tws.start(
        counted(folder, finish=True, disorder=0), checkpoint=str(tmp_path / "one"), **to
    ).wait()
    rows = pq.read_table(str(tmp_path / "out")).to_pylist()
    assert sorted(row["s"] for row in rows if row["_kind"] == "insert") == [1, 12, 23]
    assert not spark.streams.active


def test_answers_on_the_console(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(
        pa.table({"ts": [1], "k": ["a\x1b[31m"]}), packets(tmp_path / "in") / "0.parquet"
    )
    query = tws.from_files(str(tmp_path / "in"), time="ts", finish=True).where("k != ''")
    tws.start(query, to="console", trigger="available now").wait()
    assert "a\\x1b[31m" in capsys.readouterr().out

"""Queries that keep no rows go from the reader to the sink in one stage; what is counted, late or
not readable is told as by any other query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import thalweg as tw
from tests.spark.test_files import write
from tests.spark.test_start import Collected, files, in_process, replayed, write_files
from thalweg import spark as tws
from thalweg.model import INFINITY
from thalweg.testing import assert_same_table

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]


def odd(events: tw.Stream) -> tw.Stream:
    return events.where("v % 2 = 1").select("k", w="v * 10")


def is_stateless(checkpoint: Path) -> bool:
    return not (checkpoint / "state").exists() and (checkpoint / "thalweg/promises.json").exists()


def test_one_stage_with_late_rows_figures_and_a_restart(tmp_path: Path) -> None:
    folder, late, seen = write_files(tmp_path / "in"), Collected(), Collected()
    checkpoint = tmp_path / "c"
    options: dict[str, Any] = {"checkpoint": str(checkpoint), "trigger": "available now"}
    first = tws.start(odd(files(folder, finish=False)), to=seen, late=late, **options)
    first.wait()
    status = first.status()
    assert (status.batches, status.rows, status.late, status.cti) == (3, 9, 1, 21)
    (figures,) = status.operators.values()
    assert figures.rows_out == status.changes == 4
    assert [(row["_start"], row["w"]) for row in late.rows] == [(2, 70)]
    assert "31" in str(first.why())
    more = pa.table({"ts": [40, 20], "k": ["c", "d"], "v": [11, 13]})
    write(folder / "000900", more, "parquet")
    second = tws.start(odd(files(folder)), to=seen, late=late, **options)
    second.wait()
    assert second.status().late == 1, "20 comes before the promise of the run before"
    assert second.status().cti == INFINITY
    assert is_stateless(checkpoint)


def test_the_table_is_that_of_the_query_in_process(tmp_path: Path) -> None:
    running = tws.start(odd(files(write_files(tmp_path / "in"))), trigger="available now")
    running.wait()
    assert_same_table(list(running.table()), in_process(odd, without=(2,)))


@pytest.mark.parametrize("way", ["nothing", "a few", "twice", "coalesced", "shuffled"])
def test_promises_are_followed_whatever_the_sink_looks_at(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    found: list[int] = []

    def sink(rows: DataFrame, batch: int) -> None:
        if way == "a few":
            rows.take(1)
        elif way == "twice":
            found.extend([rows.count(), rows.count()])
        elif way == "coalesced":
            found.append(rows.coalesce(1).count())
        elif way == "shuffled":
            found.append(len(rows.groupBy("k").count().collect()))

    events = files(write_files(tmp_path / "in", size=1), files_per_batch=4, disorder=5)
    running = tws.start(odd(events), to=sink, checkpoint=str(tmp_path / "c"), trigger="once")
    running.wait()
    status = running.status()
    assert (status.batches, status.rows, status.late, status.cti) == (3, 9, 1, INFINITY)
    assert sum(found) == {"twice": 2 * 4, "coalesced": 4, "shuffled": 3}.get(way, 0)


def test_records_that_cannot_be_read_and_windows_of_frames(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.csv").write_text("ts,v\n1,3\nx,4\n2,5\n")
    dead, seen = Collected(), Collected()
    columns = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    events = tws.from_files(
        str(tmp_path / "in"), time="ts", columns=columns, bad="skip", settle=0, finish=True
    )
    running = tws.start(events.where("v > 0"), to=seen, dead=dead, trigger="available now")
    running.wait()
    assert running.status().dead == 1 and [row["line"] for row in dead.rows] == [3]
    assert sorted(row["v"] for row in seen.rows) == [3, 5]


def test_rows_of_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    folder, seen = write_files(tmp_path / "in"), Collected()
    frame = spark.readStream.schema("ts long, k string, v long").parquet(str(folder))
    frame = frame.withColumn("unused", lit("x"))
    events = tws.from_spark(frame, time="ts", disorder=100, name="events")
    running = tws.start(
        odd(events), to=seen, checkpoint=str(tmp_path / "c"), trigger="available now"
    )
    running.wait()
    assert running.status().rows == 9 and is_stateless(tmp_path / "c")
    assert_same_table(replayed(seen.rows, odd(events).schema), in_process(odd))


def test_a_checkpoint_with_state_stays_one(tmp_path: Path) -> None:
    """A query that lost its last operator with state, or that was started before there was another
    way, goes on as it began."""
    folder = write_files(tmp_path / "in")
    checkpoint = tmp_path / "c"
    record = checkpoint / "thalweg" / "record.jsonl"
    query = odd(files(folder, finish=False)).group_by("k").tumbling(10).aggregate(n=tw.count())
    options: dict[str, Any] = {"checkpoint": str(checkpoint), "trigger": "once", "to": "noop"}
    tws.start(query, **options).wait()
    assert "stateless" not in json.loads(record.read_text().splitlines()[-1])["query"]
    assert (checkpoint / "state").exists()

"""A query in SQL on Spark, through the command's own job: the same table as in-process."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.sql.packets import make_link
from thalweg.cli.sql_run import Job, Look
from thalweg.cli.sql_sources import parse_source
from thalweg.testing import assert_same_table

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

QUERY = """
WITH pairs AS (
    SELECT a.srcIP, a.ts AS sent, b.len
    FROM A AS a [RANGE 20 seconds, WA ts], B AS b [RANGE 10 seconds, WA ts]
    WHERE a.srcIP = b.destIP
)
SELECT srcIP, count(*) AS n, sum(len) AS bytes [RANGE 2 minutes, SLIDE 1 minute, WA _start]
FROM pairs GROUP BY srcIP HAVING count(*) > 1
"""


def last(job: Job) -> Look:
    *_, end = job.run(job.query(QUERY))
    return end


def test_query_has_the_same_table_on_spark_as_in_process(tmp_path: Path) -> None:
    for name in ("A", "B"):
        (tmp_path / name).mkdir()
        packets = make_link(name)
        for number, at in enumerate(range(0, packets.num_rows, 45)):
            pq.write_table(packets.slice(at, 45), tmp_path / name / f"{number}.parquet")
    places = [
        parse_source(f"{name}={tmp_path / name} disorder='90 s' files_per_batch=1")
        for name in ("A", "B")
    ]
    on_spark = last(Job(places))
    here = last(Job(places, in_process=True))
    assert on_spark.read == here.read == 180
    assert on_spark.ended and len(here.rows()) > 10
    assert_same_table(here.rows(), on_spark.rows())

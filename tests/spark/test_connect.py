"""Through Spark Connect `start` is refused in one sentence, before anything runs or is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import thalweg as tw
import thalweg.spark as tws
from thalweg.errors import PlanError
from thalweg.spark.session import is_remote

connect = pytest.importorskip("pyspark.sql.connect.session", exc_type=ImportError)


def test_start_says_what_to_write_instead(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("ts,v\n1,1\n")
    client = object.__new__(connect.SparkSession)  # a session of a client, without its server
    assert is_remote(client)
    rows = tws.from_files(str(tmp_path / "in"), time="ts", finish=True)
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(PlanError) as refused:
        tws.start(
            rows.tumbling(10).aggregate(n=tw.count()), checkpoint=str(checkpoint), spark=client
        )
    assert str(refused.value).startswith("start: through Spark Connect what is done with each")
    assert "write frame(query, checkpoint=...) with Spark's own writeStream" in str(refused.value)
    assert not checkpoint.exists()

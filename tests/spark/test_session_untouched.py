"""A session of one's own is left as it was: every setting, the log level and the queries of it are
compared, while each of ten kinds of use runs and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import thalweg as tw
import thalweg.spark as tws
from thalweg.errors import PlanError, StateError, ThalwegError

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ODD = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "777",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "false",
}


def _whole(session: SparkSession) -> dict[str, object]:
    """All that a user could see change: settings, log level, current database, views, queries."""
    context: Any = session.sparkContext
    log4j = context._jvm.org.apache.logging.log4j
    return {
        "settings": dict(session.conf.getAll),
        "context": dict(context.getConf().getAll()),
        "log level": str(log4j.LogManager.getRootLogger().getLevel()),
        "database": session.catalog.currentDatabase(),
        "views": sorted(table.name for table in session.catalog.listTables()),
        "queries": [query.id for query in session.streams.active],
        "partitions": session.range(10).repartition("id").rdd.getNumPartitions(),
    }


@dataclass(frozen=True)
class Use:
    """A session, some files, and a place for a checkpoint."""

    session: SparkSession
    folder: Path
    unchanged: Callable[[], None]
    """Compares the session; called while something runs."""

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")

    def query(self, size: int = 10, **options: Any) -> tw.Stream:
        options = {"finish": True, "disorder": 0, **options}
        rows = tws.from_files(str(self.folder / "in"), time="ts", **options)
        return rows.group_by("k").tumbling(size).aggregate(n=tw.count())

    def run(self, query: tw.Stream | None = None, **options: Any) -> tws.RunningQuery:
        options = {"trigger": "available now", "spark": self.session, **options}
        running = tws.start(query or self.query(), **options)
        self.unchanged()
        running.wait()
        return running


def to_memory(use: Use) -> None:
    assert len(use.run().table()) == 3


def to_files(use: Use) -> None:
    path = str(use.folder / "out")
    use.run(to="parquet", path=path, consistency="final", output="final")
    assert len(pq.read_table(path)) == 3


def to_a_function(use: Use) -> None:
    seen: list[int] = []
    use.run(to=lambda rows, _: seen.append(rows.count()))
    assert sum(seen) == 3


def stopped_and_started_again(use: Use) -> None:
    running = tws.start(use.query(finish=False), checkpoint=use.checkpoint, spark=use.session)
    use.unchanged()
    running.stop()
    assert len(use.run(checkpoint=use.checkpoint).table()) == 3


def refused(use: Use) -> None:
    use.run(checkpoint=use.checkpoint)
    with pytest.raises(StateError, match="was 'tumbling"):
        tws.start(use.query(20), checkpoint=use.checkpoint, spark=use.session)
    with pytest.raises(PlanError, match="output"):
        tws.start(use.query(), output="finale", spark=use.session)


def ended_by_an_error(use: Use) -> None:
    pq.write_table(pa.table({"ts": [9], "k": ["late"]}), use.folder / "in" / "1.parquet")
    with pytest.raises(ThalwegError, match="before the promise"):
        use.run(use.query(files_per_batch=1))


def a_frame_of_answers(use: Use) -> None:
    frame = tws.frame(use.query(), checkpoint=use.checkpoint, spark=use.session)
    use.unchanged()
    written = frame.writeStream.format("noop").option("checkpointLocation", use.checkpoint)
    running = written.trigger(availableNow=True).start()
    use.unchanged()
    running.awaitTermination()


def a_stream_of_the_users_own(use: Use) -> None:
    rows = use.session.readStream.schema("ts long, k string").parquet(str(use.folder / "in"))
    query = tws.from_spark(rows, time="ts", disorder=0).group_by("k").tumbling(10)
    use.run(query.aggregate(n=tw.count()))


def status_why_and_explain(use: Use) -> None:
    running = use.run(use.query(finish=False))
    assert running.status().batches >= 1
    assert str(running.why()) and running.explain() and tws.explain(use.query(), format="mermaid")


def sql(use: Use) -> None:
    rows = tws.from_files(str(use.folder / "in"), time="ts", finish=True, disorder=0)
    text = "SELECT k, count(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(ts), 10) GROUP BY k"
    assert len(use.run(tw.sql(text, s=rows)).table()) == 3


USES = [
    to_memory,
    to_files,
    to_a_function,
    stopped_and_started_again,
    refused,
    ended_by_an_error,
    a_frame_of_answers,
    a_stream_of_the_users_own,
    status_why_and_explain,
    sql,
]


@pytest.fixture(scope="module")
def mine(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose settings are not ours."""
    session = spark.newSession()
    for key, value in ODD.items():
        session.conf.set(key, value)
    session.range(3).createOrReplaceTempView("numbers")
    yield session
    session.catalog.dropTempView("numbers")


def test_there_are_ten() -> None:
    assert len(USES) == 10


@pytest.mark.parametrize("kind", USES, ids=lambda kind: kind.__name__)
def test_the_session_is_as_it_was(
    kind: Callable[[Use], None], mine: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    table = pa.table({"ts": [1, 2, 13], "k": ["a", "b", "a"]})
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    before = _whole(mine)
    others = before.pop("queries")

    def unchanged() -> None:
        now = _whole(mine)
        now.pop("queries")
        assert now == before

    assert not others
    kind(Use(mine, tmp_path, unchanged))
    unchanged()
    assert not mine.streams.active

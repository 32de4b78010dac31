"""Rows of a DataFrame summed up in the JVM: the sums are those that the steps in Python make of the
same rows, and what could differ is left to Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import thalweg as tw
from thalweg import spark as tws
from thalweg.errors import TimeRangeError
from thalweg.model.batch import Batch
from thalweg.plan.nodes import Source
from thalweg.plan.nodes.panes import Panes
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.exchange.cells import batch_of_cells
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import sources_of, targets_of
from thalweg.shards.sources.source_feed import without_feeds
from thalweg.spark.jvm import pane_sums, run_time_classes
from thalweg.spark.jvm.pane_sums import Summing, summing_of
from thalweg.spark.sources.feed import feeds_of
from thalweg.spark.sources.frame_feed import Frame
from thalweg.testing import assert_same_table

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

COLUMNS = (
    "ts long, at timestamp, local timestamp_ntz, k long, t string, d double, m decimal(20,3), "
    "day date, b boolean, i1 tinyint, i2 smallint, i4 int, i8 long, raw binary"
)
EDGES: dict[str, list[Any]] = {
    "k": [0, 1, 2, -(2**63), 2**63 - 1],
    "t": ["", "a", "ä", "a\0"],
    "d": [0.0, -0.0, float("nan"), float("inf"), 1.5],
    "m": [Decimal(0), Decimal("-12345678901234567.125")],
    "day": [date(1969, 12, 31), date(2024, 2, 29)],
    "b": [True, False],
    "i1": [-128, 127, 0],
    "i2": [-(2**15), 2**15 - 1, 3],
    "i4": [-(2**31), 2**31 - 1, 7],
    "i8": [-(2**63), 2**63 - 1, 2**31, 2**31 - 1, -(2**31) - 1, 40, 41],
    "raw": [b"", b"\0"],
}
"""A few values of each column, so that groups have rows; one in six is null beside them."""


def rows(count: int, seed: int) -> list[tuple[Any, ...]]:
    random = Random(seed)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    found = []
    for _ in range(count):
        ticks = random.randrange(-100, 100)
        at = epoch + timedelta(microseconds=random.randrange(-(10**8), 10**8))
        others = [None if random.random() < 1 / 6 else random.choice(EDGES[name]) for name in EDGES]
        found.append((ticks, at, at.replace(tzinfo=None), *others))
    return found


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(rows(600, 7), COLUMNS).repartition(2).cache()


def ingest_of(query: tw.Stream, buckets: int = 2) -> tuple[Source, Ingest, Frame]:
    plan = fragments_of(without_feeds(query.node))
    ((name, source),) = sources_of(plan).items()
    feed = feeds_of(query.node)[name]
    assert isinstance(feed, Frame)
    return source, Ingest(targets_of(plan, list(range(buckets)), source=name)), feed


def summing(query: tw.Stream) -> Summing | str | None:
    _, ingest, feed = ingest_of(query)
    return summing_of(feed.df.sparkSession, feed.df, ingest, feed.times)


def totals(batch: Batch, panes: Panes) -> Counter[Any]:
    """By keys and pane: the sums, modulo 2^64."""
    found: dict[Any, list[int]] = {}
    names = panes.schema.names
    for start, end, row in zip(batch.start, batch.end, batch.payload.to_pylist(), strict=True):
        key = (int(start), int(end), *(_as_text(row[name]) for name in panes.keys))
        sums = found.setdefault(key, [0] * (len(names) - len(panes.keys)))
        for at, name in enumerate(names[len(panes.keys) :]):
            sums[at] = (sums[at] + row[name]) % 2**64
    return Counter((*key, *sums) for key, sums in found.items())


def _as_text(key: object) -> str:
    """Texts of equal keys are equal: NaN is a value, and there is one zero."""
    return str(key + 0.0 if isinstance(key, float) else key)


def in_the_jvm(query: tw.Stream) -> tuple[Counter[Any], int | None, int]:
    way = summing(query)
    assert isinstance(way, Summing), way
    _, _, feed = ingest_of(query)
    table = way.over(feed.df.sparkSession, feed.df).toArrow()
    batch, header = batch_of_cells(table, way.cells.panes)
    return totals(batch, way.cells.panes), header.newest, header.rows


def in_python(query: tw.Stream) -> tuple[Counter[Any], int | None, int]:
    source, ingest, feed = ingest_of(query, buckets=1)
    assert ingest.cells is not None
    read = feed.times.columns(source.columns)
    batch, header = feed.times.chunk(feed.df.select(*read).toArrow(), source.columns, "rows")
    (sent,) = ingest.rows(batch, header, 0)
    kept = Batch.empty(ingest.cells.panes.schema) if sent.blob is None else batch_of_blob(sent.blob)
    header = Header.from_json(sent.header)
    return totals(kept, ingest.cells.panes), header.newest, header.rows


def windowed(events: tw.Stream, *keys: str, **aggregates: Any) -> tw.Stream:
    grouped = events.group_by(*keys) if keys else events
    return grouped.hopping(30, 10, offset=3).aggregate(**aggregates)


def every_whole_number(events: tw.Stream) -> tw.Stream:
    sums = {f"s_{name}": tw.sum_(name) for name in ("b", "i1", "i2", "i4", "i8")}
    means = {f"a_{name}": tw.avg(name) for name in ("b", "i4", "i8")}
    return windowed(events, "k", n=tw.count(), **sums, **means)


def every_key(events: tw.Stream) -> tw.Stream:
    return windowed(events, "t", "d", "m", "day", "b", "raw", n=tw.count("t"), v=tw.count("d"))


def no_key(events: tw.Stream) -> tw.Stream:
    return events.tumbling(10).aggregate(n=tw.count(), s=tw.sum_("k"))


def with_conditions(events: tw.Stream) -> tw.Stream:
    kept = events.where("i8 > 40 OR b").where("NOT (t = 'a' AND i2 <> 3) OR day IS NULL")
    return windowed(
        kept,
        "t",
        n=tw.count(),
        few=tw.count(where="k < 2"),
        s=tw.sum_("i8", where="b"),
        a=tw.avg("i4", where="i8 >= i4"),
    )


def under_other_names(events: tw.Stream) -> tw.Stream:
    named = events.select(key="t", other="k", v="i4").where("other >= 0")
    return windowed(named.select(key="key", w="v"), "key", s=tw.sum_("w"))


def nobody(events: tw.Stream) -> tw.Stream:
    return windowed(events.where("i1 > i8 AND i1 < i8"), "k", n=tw.count())


QUERIES = [every_whole_number, every_key, no_key, with_conditions, under_other_names, nobody]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.__name__)
def test_the_sums_are_those_of_python(query: Any, frame: DataFrame) -> None:
    asked = query(tws.from_spark(frame, time="ts", late="drop", disorder=5, name="events"))
    assert in_the_jvm(asked) == in_python(asked)


@pytest.mark.parametrize("most", [1, 5, 150])
def test_a_small_table_gives_sums_out_all_the_time(
    most: int, frame: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pane_sums, "MOST_CELLS", most)
    events = tws.from_spark(frame, time="ts", late="drop", disorder=5, name="events")
    assert in_the_jvm(with_conditions(events)) == in_python(with_conditions(events))


@pytest.mark.parametrize("time", ["at", "local", "i4"])
def test_every_kind_of_time(time: str, frame: DataFrame) -> None:
    rows = frame.where("i4 IS NOT NULL")
    events = tws.from_spark(rows, time=time, late="drop", disorder=5, name="events")
    asked = events.group_by("k").hopping(7000, 1000).aggregate(n=tw.count(), s=tw.sum_("i8"))
    assert in_the_jvm(asked) == in_python(asked)


def test_constants_in_place_of_columns(spark: SparkSession) -> None:
    """The optimizer puts a constant where its column was."""
    rows = spark.range(50).selectExpr("id AS ts", "'a' AS t", "7L AS v", "id > 3 AS b")
    events = tws.from_spark(rows, time="ts", late="drop", disorder=5, name="events")
    asked = windowed(events.where("b"), "t", n=tw.count(), s=tw.sum_("v"))
    assert in_the_jvm(asked) == in_python(asked)


COMPUTED = "they are of computed values"
LEFT_TO_PYTHON: dict[str, tuple[Callable[[tw.Stream], tw.Stream], str | None]] = {
    "floats": (lambda e: windowed(e, "k", s=tw.sum_("d")), None),
    "largest": (lambda e: windowed(e, "k", s=tw.max_("i8")), None),
    "computed": (lambda e: windowed(e, "k", s=tw.sum_("i8 * 2")), COMPUTED),
    "computed key": (lambda e: windowed(e.select("k", h="i4 % 2"), "h", n=tw.count()), COMPUTED),
    "texts in order": (lambda e: windowed(e.where("t > 'a'"), "k", n=tw.count()), "Spark may"),
    "floats compared": (lambda e: windowed(e.where("d > 1"), "k", n=tw.count()), "Spark may"),
    "quotes": (lambda e: windowed(e.where("t = 'it''s'"), "k", n=tw.count()), "Spark may"),
}


@pytest.mark.parametrize("kind", LEFT_TO_PYTHON)
def test_what_is_left_to_python(kind: str, frame: DataFrame) -> None:
    query, why = LEFT_TO_PYTHON[kind]
    way = summing(query(tws.from_spark(frame, time="ts", late="drop", disorder=5, name="events")))
    assert way is None if why is None else isinstance(way, str) and way.startswith(why)


@pytest.mark.parametrize("facts", [{"duration": 5}, {"end": "k"}, {"punctuation": "b"}], ids=str)
def test_rows_that_are_no_points(facts: dict[str, Any], frame: DataFrame) -> None:
    events = tws.from_spark(frame, time="ts", late="drop", disorder=5, name="events", **facts)
    asked = events.group_by("t").tumbling(10).aggregate(n=tw.count())
    assert str(summing(asked)).startswith("the rows are no points")


def test_a_jvm_without_our_part(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_time_classes, "_LOADED", {})
    monkeypatch.setattr(run_time_classes, "_compiled", _fail)
    way = summing(no_key(tws.from_spark(frame, time="ts", late="drop", disorder=5, name="events")))
    assert way == "the JVM's part is not to be had here (no Janino)"


def _fail(*_: object) -> None:
    raise RuntimeError("no Janino\nand more")


# ------------------------------------------------------------------------------------------------
# in a query


def arriving(spark: SparkSession, folder: Path, *files: DataFrame) -> DataFrame:
    for number, rows in enumerate(files):
        rows.coalesce(1).write.parquet(str(folder / f"n={number}"))
    reader = spark.readStream.schema(files[0].schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "n=*"))


def test_a_query_with_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Late rows are dropped and counted pane by pane, and rejected rows count as read."""

    def counted(events: tw.Stream) -> tw.Stream:
        return (
            events.where("v > 1").group_by("k").tumbling(10).aggregate(n=tw.count(), s=tw.sum_("v"))
        )

    told = [(1, "a", 1), (4, "b", 2), (12, "a", 3)], [(3, "a", 4), (45, "b", 1), (13, "b", 6)]
    late = [(2, "a", 7), (31, "a", 8), (36, "b", 9)]
    files = [spark.createDataFrame(rows, "ts long, k string, v long") for rows in (*told, late)]
    events = tws.from_spark(
        arriving(spark, tmp_path / "in", *files), time="ts", disorder=10, late="drop", name="events"
    )
    running = tws.start(counted(events), trigger="available now", progress=False)
    running.wait()
    points = [tw.point({"k": k, "v": v}, ts) for ts, k, v in (*told[0], *told[1])]
    expected = tw.table(counted(tw.source("e", {"k": "string", "v": "int64"})), {"e": points})
    assert_same_table([row for row in expected if row[1] <= 30], running.table())
    status = running.status()
    assert (status.batches, status.rows, status.late, status.cti) == (3, 9, 1, 30)
    assert "source events: panes are summed up in the JVM" in running.explain()


@pytest.mark.parametrize(
    ("time", "why"), [(None, "is null"), (2**62 - 1, "is outside the range of the clock")], ids=str
)
def test_a_time_that_is_none(
    time: int | None, why: str, spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.createDataFrame([(1, 1), (time, 2)], "ts long, v long")
    events = tws.from_spark(
        arriving(spark, tmp_path / "in", rows), time="ts", late="drop", disorder=5, name="events"
    )
    asked = events.tumbling(10).aggregate(n=tw.count())
    running = tws.start(asked, trigger="available now", progress=False)
    with pytest.raises(TimeRangeError, match=f"source 'events': .*{why}"):
        running.wait()

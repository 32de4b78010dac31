"""Queries started on real Spark: from files and frames, in every form of output, with their late
rows, figures and tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import thalweg as tw
from tests.data.conftest import DATA
from tests.data.test_golden import MINUTE, sorted_digest, total, windowed
from tests.spark.test_files import write
from thalweg import spark as tws
from thalweg.errors import PlanError
from thalweg.model import INFINITY, Row, rows_of_table, table_of_batches
from thalweg.model.time import time_us
from thalweg.testing import assert_same_table

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

EVENTS = pa.table(
    {
        "ts": pa.array([1, 4, 12, 3, 25, 13, 2, 31, 26], pa.int64()),
        "k": list("abaabbaab"),
        "v": pa.array([1, 2, 3, 4, 5, 6, 7, 8, 9], pa.int64()),
    }
)
"""In three files of three; with a disorder of 10, the 3 in the second is in time and the 2 in the
third is not."""
DISORDER = 10


def write_files(
    folder: Path, table: pa.Table = EVENTS, format_: str = "parquet", size: int = 3
) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(0, len(table), size):
        write(folder / f"{number:06}", table.slice(number, size), format_)
    return folder


def files(folder: Path, **options: Any) -> tw.Stream:
    given: dict[str, Any] = {
        "time": "ts",
        "disorder": DISORDER,
        "late": "drop",
        "files_per_batch": 1,
        "finish": True,
        "name": "events",
    }
    return tws.from_files(str(folder), **given | options)


def highest(events: tw.Stream) -> tw.Stream:
    return events.group_by("k").tumbling(10).aggregate(n=tw.count(), top=tw.max_("v"))


def in_process(query: Any, *, without: tuple[int, ...] = ()) -> list[Row]:
    """The same query in this process, over the events whose `ts` is not among `without`."""
    stream = query(
        tw.source("events", pa.schema([("k", pa.string()), ("v", pa.int64())]), insert_only=True)
    )
    kept = EVENTS.filter(pa.array([ts not in without for ts in EVENTS.column("ts").to_pylist()]))
    return list(tw.table(stream, {"events": [tw.events(kept, "ts")]}))


def replayed(rows: list[dict[str, Any]], schema: pa.Schema) -> list[Row]:
    """The table that a changelog leaves."""
    elements: list[tw.Element] = []
    for row in rows:
        payload = {name: row[name] for name in schema.names}
        end = INFINITY if row["_end"] is None else row["_end"]
        if row["_kind"] == "insert":
            elements.append(tw.insert(payload, row["_start"], end))
        else:
            elements.append(
                tw.adjust(
                    payload,
                    row["_start"],
                    end,
                    INFINITY if row["_new_end"] is None else row["_new_end"],
                )
            )
    engine = tw.Engine(tw.source("answers", schema))
    return rows_of_table(table_of_batches(engine.push("answers", elements), schema))


@dataclass
class Collected:
    """A sink: the rows of every micro-batch."""

    batches: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.batches.setdefault(batch, []).extend(row.asDict() for row in frame.collect())

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for _, rows in sorted(self.batches.items()) for row in rows]


def run(query: tw.Stream, **options: Any) -> tws.RunningQuery:
    running = tws.start(query, trigger="available now", **options)
    try:
        running.wait()
    finally:
        running.stop()
    return running


# ------------------------------------------------------------------------------------------------
# one query


@dataclass
class Ran:
    running: tws.RunningQuery
    answers: Collected
    late: Collected
    schema: pa.Schema


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A changelog to a function, late rows to another, in three micro-batches."""
    query = highest(files(write_files(tmp_path_factory.mktemp("changelog") / "events")))
    answers, late = Collected(), Collected()
    return Ran(run(query, to=answers, late=late), answers, late, query.schema)


def test_a_changelog_leaves_the_table_of_the_query(ran: Ran) -> None:
    assert_same_table(in_process(highest, without=(2,)), replayed(ran.answers.rows, ran.schema))


def test_a_changelog_has_its_columns_and_revises_what_came_early(ran: Ran) -> None:
    assert list(ran.answers.rows[0]) == ["_kind", "_start", "_end", "_new_end", "k", "n", "top"]
    adjusts = [row for row in ran.answers.rows if row["_kind"] == "adjust"]
    assert [(row["_start"], row["_new_end"], row["k"], row["n"]) for row in adjusts] == [
        (0, 0, "a", 1)
    ]
    assert all(row["_new_end"] is None for row in ran.answers.rows if row["_kind"] == "insert")


def test_a_function_is_called_once_for_each_micro_batch(ran: Ran) -> None:
    assert sorted(ran.answers.batches) == [0, 1, 2]


def test_late_rows_reach_their_function_with_the_promise_they_broke(ran: Ran) -> None:
    assert ran.late.rows == [
        {
            "_kind": 0,
            "_start": 2,
            "_end": 3,
            "_new_end": 3,
            "k": "a",
            "v": 7,
            "_promise": 15,
            "_action": "left out",
        },
    ]


def test_figures_of_a_query(ran: Ran) -> None:
    status = ran.running.status()
    assert (status.batches, status.rows, status.late, status.adjusts) == (3, 9, 1, 1)
    assert status.exchanged == 9
    assert status.changes == len(ran.answers.rows)
    assert status.cti == INFINITY and not status.active and status.seconds > 0
    assert (status.state_rows, status.state_bytes) == (0, 0), "the stream has ended"


def test_a_query_explains_itself(ran: Ran) -> None:
    assert "reads source events, exchanged by k" in ran.running.explain()


def test_a_table_is_only_kept_in_memory(ran: Ran) -> None:
    with pytest.raises(PlanError, match="start it with to='memory'"):
        ran.running.table()


# ------------------------------------------------------------------------------------------------
# formats and frames


@pytest.mark.parametrize("format_", ["csv", "json", "arrow"])
def test_every_format_gives_the_same_table(format_: str, tmp_path: Path) -> None:
    events = files(
        write_files(tmp_path / "events", format_=format_),
        format=format_,
        disorder=None,
        files_per_batch=None,
    )
    assert_same_table(in_process(highest), run(highest(events)).table())


def test_partial_sums_before_the_exchange(tmp_path: Path) -> None:
    def counted(events: tw.Stream) -> tw.Stream:
        return (
            events.where("v > 1").group_by("k").tumbling(10).aggregate(n=tw.count(), s=tw.sum_("v"))
        )

    running = run(counted(files(write_files(tmp_path / "events"))))
    assert_same_table(in_process(counted, without=(2,)), running.table())
    status = running.status()
    assert (status.rows, status.exchanged, status.late) == (
        9,
        7,
        1,
    ), "one is filtered out, one is late"
    assert "before the exchange: panes tumbling(10) by k" in running.explain()


def test_a_streaming_frame_with_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    times = pa.array(
        [1_000_000 * ts for ts in EVENTS.column("ts").to_pylist()], pa.timestamp("us", "UTC")
    )
    folder = write_files(tmp_path / "events", EVENTS.set_column(0, "ts", times))
    frame = spark.readStream.schema("ts timestamp, k string, v long").parquet(str(folder))
    events = tws.from_spark(frame, time="ts", disorder="10 s")
    running = run(events.group_by("k").tumbling("10 s").aggregate(n=tw.count(), top=tw.max_("v")))
    settled = 20_000_000  # 31 s minus the disorder, and the window that is open there
    assert running.status().cti == datetime.fromtimestamp(settled / 1e6, UTC)
    assert running.status().final_up_to == running.status().cti
    assert "1970-01-01 00:00:20+00:00" in running.status()._repr_html_()
    found = [(time_us(start), time_us(end), row) for start, end, row in running.table()]
    scaled = [
        (start * 1_000_000, end * 1_000_000, payload) for start, end, payload in in_process(highest)
    ]
    assert_same_table(
        [row for row in scaled if row[1] <= settled],
        [row for row in found if row[1] <= settled],
    )


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_promises_in_the_data_for_one_group(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """Zeros are promises, each for its own key: only `a` has come to 20."""
    told = pa.table(
        {"ts": [1, 4, 12, 3, 20, 13, 8, 9], "k": list("abaaabbb"), "v": [1, 2, 3, 4, 0, 6, 7, 0]}
    )
    folder = write_files(tmp_path / "events", told, size=5)
    promises: dict[str, Any] = {"time": "ts", "punctuation": "v = 0", "per": "k", "name": "events"}
    if kind == "files":
        events = tws.from_files(str(folder), files_per_batch=1, **promises)
    else:
        frame = (
            spark.readStream.schema("ts long, k string, v long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder))
        )
        events = tws.from_spark(frame, **promises)
    query = events.group_by("k").tumbling(10).aggregate(n=tw.count(), s=tw.sum_("v"))
    running = run(query, consistency="final")
    assert_same_table(
        [(0, 10, {"k": "a", "n": 2, "s": 5}), (10, 20, {"k": "a", "n": 1, "s": 3})], running.table()
    )


def test_the_settings_of_a_session_stay_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    """A query takes settings of its own with it: as many partitions as buckets, and rows that are
    summed up are not weighed."""
    keys = ("spark.sql.shuffle.partitions", "spark.sql.execution.arrow.maxBytesPerBatch")
    before = [spark.conf.get(key) for key in keys]
    frame = spark.readStream.schema("ts long, k string, v long").parquet(
        str(write_files(tmp_path / "events"))
    )
    events = tws.from_spark(frame, time="ts", disorder=DISORDER, late="drop")
    running = run(events.group_by("k").tumbling(10).aggregate(n=tw.count()), buckets=3)
    assert running.status().batches == 1
    assert [spark.conf.get(key) for key in keys] == before


def test_a_static_frame_has_an_end(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(EVENTS.to_pylist(), "ts long, k string, v long").repartition(3)
    query = highest(tws.from_spark(frame, time="ts", disorder=DISORDER))
    rows = [
        row.asDict() for row in tws.frame(query, checkpoint=str(tmp_path / "checkpoint")).collect()
    ]
    assert_same_table(in_process(highest), replayed(rows, query.schema))


def test_nothing_can_be_started_on_static_frames(spark: SparkSession) -> None:
    frame = spark.createDataFrame(EVENTS.to_pylist(), "ts long, k string, v long")
    with pytest.raises(PlanError, match="static DataFrames"):
        tws.start(highest(tws.from_spark(frame, time="ts")))


# ------------------------------------------------------------------------------------------------
# outputs


def read_folder(path: Path) -> list[dict[str, Any]]:
    parts = [pq.read_table(file, partitioning=None) for file in sorted(path.glob("**/*.parquet"))]
    return list(pa.concat_tables(part for part in parts if len(part)).to_pylist())


def as_rows(found: list[dict[str, Any]], names: list[str]) -> list[Row]:
    return [(row["_start"], row["_end"], {name: row[name] for name in names}) for row in found]


def test_final_answers_as_files(tmp_path: Path) -> None:
    query = highest(files(write_files(tmp_path / "events")))
    run(query, to="parquet", path=str(tmp_path / "answers"), output="final", consistency="final")
    found = read_folder(tmp_path / "answers")
    assert list(found[0]) == ["_start", "_end", "k", "n", "top"]
    assert_same_table(in_process(highest, without=(2,)), as_rows(found, query.schema.names))
    assert {entry.name for entry in (tmp_path / "answers").iterdir()} == {
        "_thalweg.json",
        "batch=0",
        "batch=1",
        "batch=2",
    }


def test_upserts_leave_the_table_of_the_query(tmp_path: Path) -> None:
    query = highest(files(write_files(tmp_path / "events")))
    answers = Collected()
    run(query, to=answers, output="upserts")
    table: dict[tuple[Any, int], Row] = {}
    for row in answers.rows:
        key = row["k"], row["_start"]
        if row["_deleted"]:
            del table[key]
        else:
            table[key] = (
                row["_start"],
                row["_end"],
                {name: row[name] for name in query.schema.names},
            )
    assert_same_table(in_process(highest, without=(2,)), list(table.values()))
    assert list(answers.rows[0]) == ["_deleted", "_start", "_end", "k", "n", "top"]


def test_a_frame_for_a_sink_of_sparks_own(tmp_path: Path) -> None:
    query = highest(files(write_files(tmp_path / "events")))
    checkpoint = str(tmp_path / "checkpoint")
    frame = tws.frame(query, checkpoint=checkpoint, output="final", consistency="final")
    assert frame.isStreaming
    writer = (
        frame.writeStream.format("parquet")
        .option("path", str(tmp_path / "answers"))
        .option("checkpointLocation", checkpoint)
    )
    writer.trigger(availableNow=True).start().awaitTermination()
    assert_same_table(
        in_process(highest, without=(2,)),
        as_rows(read_folder(tmp_path / "answers"), query.schema.names),
    )


def refusals(events: tw.Stream) -> dict[str, tuple[str, tw.Stream, dict[str, Any]]]:
    return {
        "final": ("needs consistency='final'", highest(events), {"output": "final"}),
        "upserts": ("known by their group and start", events, {"output": "upserts"}),
        "form": (
            "output must be one of changelog, final, upserts",
            highest(events),
            {"output": "changelogs"},
        ),
        "path": ("to='parquet' needs a path", highest(events), {"to": "parquet"}),
        "feed": ("no feed for the source 'other'", tw.source("other", {"v": "int64"}), {}),
    }


@pytest.mark.parametrize("what", ["final", "upserts", "form", "path", "feed"])
def test_what_cannot_work_is_refused_before_anything_runs(
    what: str, spark: SparkSession, tmp_path: Path
) -> None:
    reason, query, options = refusals(files(write_files(tmp_path / "events")))[what]
    with pytest.raises(PlanError, match=reason):
        tws.start(query, **options)
    assert not spark.streams.active


# ------------------------------------------------------------------------------------------------
# recorded data


@pytest.mark.shared_data
@pytest.mark.parametrize("files_per_batch", [1, 4])
def test_a_golden_answer_with_a_restart_in_the_middle(files_per_batch: int, tmp_path: Path) -> None:
    if not (DATA / "golden.json").exists():
        pytest.skip(
            f"RECORDED DATA NOT FOUND: {DATA} does not exist, so the golden answer was not checked "
            "on Spark."
        )
    recorded = pq.read_table(
        DATA / "zeek_conn" / "conn.parquet", columns=["seq", "start_us", "src_ip", "len"]
    ).sort_by("seq")
    pieces = [recorded.slice(at, 15_000) for at in range(0, len(recorded), 15_000)]
    folder, answers, checkpoint = (tmp_path / name for name in ("events", "answers", "checkpoint"))
    folder.mkdir()
    half = len(pieces) // 2
    for first, last, finish in ((0, half, False), (half, len(pieces), True)):
        for number in range(first, last):
            pq.write_table(pieces[number], folder / f"{number:03}.parquet")
        conn = tws.from_files(
            str(folder),
            time="start_us",
            disorder="2 h",
            files_per_batch=files_per_batch,
            finish=finish,
            name="conn",
        )
        query = conn.group_by("src_ip").tumbling("1 min").aggregate(n=tw.count(), b=tw.sum_("len"))
        running = run(
            query,
            to="parquet",
            path=str(answers),
            output="final",
            consistency="final",
            checkpoint=str(checkpoint),
        )
        assert running.status().late == 0
    found = pa.Table.from_pylist(read_folder(answers))
    golden = json.loads((DATA / "golden.json").read_text())["zeek_conn"][
        "tumbling_1min_by_start_src"
    ]
    assert [
        len(found),
        total(found["n"]),
        total(found["b"]),
        sorted_digest(windowed(found, MINUTE), ["w", "src_ip", "n", "b"]),
    ] == golden

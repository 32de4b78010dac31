"""What goes wrong around a query ends it with an error that says so, and once it is put right the
query goes on as if nothing had been."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle as untyped
from pyspark.sql import DataFrame, SparkSession

import thalweg as tw
from tests.spark.jobs.disks import Disk, live_on_a_full_disk
from tests.spark.jobs.flips import Flips
from tests.spark.jobs.streams import EVENTS, Arrivals, answers, expected, query, run
from thalweg import spark as ts
from thalweg.errors import EvaluationError, InputError, SchemaChangeError, StateError, ThalwegError
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.spark.failures import BatchFailure, with_short_search
from thalweg.spark.processes.quiet import spark_log
from thalweg.udm import function

cloudpickle: Any = untyped
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]


def assert_right(folder: Path) -> None:
    assert answers(folder, "windows") == expected(folder, "windows")


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A folder with three files of events, the second of which is about to be spoilt; a fourth is
    ready."""
    Arrivals(tmp_path, 4, seed=3, rows=40).arrive("events", 3)
    return tmp_path


# ------------------------------------------------------------------------------------------------
# checkpoint


def test_no_flipped_bit_in_a_checkpoint_gives_a_wrong_answer(tmp_path: Path) -> None:
    """Every kind of file in the checkpoint, once."""
    flips = Flips(Arrivals(tmp_path, 4, seed=1, rows=40), "windows")
    assert len(flips.files) == 11 and "other" not in flips.files
    flips.run(11, Random(1))
    for kind in ("offsets", "metadata", "our log of files"):
        assert (kind, "error") in flips.outcomes


def test_no_flipped_bit_in_a_checkpoint_without_state_gives_a_wrong_answer(tmp_path: Path) -> None:
    flips = Flips(Arrivals(tmp_path, 4, seed=1, rows=40), "large")
    assert len(flips.files) == 7 and "other" not in flips.files
    flips.run(7, Random(1))
    for kind in ("offsets", "metadata", "our log of files", "our promises"):
        assert (kind, "error") in flips.outcomes


def test_a_checkpoint_of_another_query_is_refused(three: Path) -> None:
    run(three, finish=False)
    with pytest.raises(
        StateError,
        match=(
            r"the checkpoint belongs to another query\. Its inputs and their keys: events by key;"
            r" of this query: .*rates by"
        ),
    ):
        run(three, query(three, "priced"))
    with pytest.raises(
        StateError,
        match=(
            r"the checkpoint belongs to another query\. Its consistency: speculative; of this"
            r" query: final"
        ),
    ):
        run(three, consistency="final")
    other = ts.from_files(
        str(three / "events"), time="ts", columns=EVENTS, disorder=200, name="events"
    )
    longer = other.group_by("key").hopping(600, 100).aggregate(n=tw.count(), total=tw.sum_("value"))
    (three / "ready" / "events" / "00003.parquet").rename(three / "events" / "00003.parquet")
    with pytest.raises(
        StateError,
        match=r"was 'hopping\(300 by 100\) by key: .*, and is now 'hopping\(600 by 100\) by key: .*"
        r"Start the changed query with a new checkpoint",
    ):
        run(three, longer)


def test_a_checkpoint_of_plain_spark_is_refused(three: Path, spark: SparkSession) -> None:
    rows = spark.readStream.schema("ts long, key string, value long").parquet(str(three / "events"))
    foreign = rows.writeStream.format("noop").option(
        "checkpointLocation", str(three / "checkpoint")
    )
    foreign.trigger(availableNow=True).start().awaitTermination()
    with pytest.raises(
        StateError,
        match="checkpoint: this checkpoint was not made by Thalweg, or its record is gone",
    ):
        run(three)


# ------------------------------------------------------------------------------------------------
# input


@contextmanager
def same_age(file: Path) -> Iterator[None]:
    """Files are read oldest first: one that is changed here stays where it was in the order."""
    times = file.stat()
    yield
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _damaged(content: bytes) -> bytes:
    """Other bytes in the middle of the first pages; the end mark and the footer stay."""
    return content[:20] + bytes(byte ^ 0xFF for byte in content[20:60]) + content[60:]


def _shortened(content: bytes) -> bytes:
    """A hole in the middle; the end mark is there."""
    return content[: len(content) // 2] + content[-8:]


def test_a_damaged_file_is_named_and_read_once_it_is_repaired(three: Path) -> None:
    files = {
        three / "events" / "00001.parquet": _damaged,
        three / "events" / "00002.parquet": _shortened,
    }
    contents = {file: file.read_bytes() for file in files}
    for file, spoil in files.items():
        with same_age(file):
            file.write_bytes(spoil(contents[file]))
    for file, content in contents.items():
        named = re.escape(file.name)
        with pytest.raises(
            InputError,
            match=(
                rf"the file {named} cannot be read as parquet.*Repair it, or rename it to _{named}"
            ),
        ):
            run(three)
        file.write_bytes(content)
    run(three)
    assert_right(three)


def test_a_file_that_is_gone_is_missed_and_one_that_is_set_aside_is_not(three: Path) -> None:
    file = three / "events" / "00001.parquet"
    file.write_bytes(_damaged(file.read_bytes()))
    with pytest.raises(InputError, match=r"00001\.parquet"):
        run(three)
    elsewhere = file.rename(three / "elsewhere")
    with pytest.raises(InputError, match=r"00001\.parquet cannot be read.*No such file"):
        run(three)
    elsewhere.rename(file.with_name(f"_{file.name}"))
    run(three)
    assert_right(three)  # readers of Parquet leave such names alone, too


def test_a_file_with_other_columns_is_named_with_the_column(three: Path) -> None:
    first, second = three / "events" / "00001.parquet", three / "events" / "00002.parquet"
    contents = {file: file.read_bytes() for file in (first, second)}
    with same_age(first):
        pq.write_table(pq.ParquetFile(first).read().drop_columns(["value"]), first)
    with same_age(second):
        table = pq.ParquetFile(second).read()
        pq.write_table(table.set_column(2, "value", pa.repeat("12", len(table))), second)
    with pytest.raises(SchemaChangeError, match=r"the file 00001\.parquet has no column 'value'"):
        run(three)
    first.write_bytes(contents[first])
    with pytest.raises(
        SchemaChangeError,
        match=r"file 00002\.parquet: the column 'value' is string, the source declared int64",
    ):
        run(three)
    second.write_bytes(contents[second])
    run(three)
    assert_right(three)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            pa.array([1.5]),
            "the column 'value' is double, the source declared int64: Float value 1.5",
        ),
        (pa.array(["12"]), "the column 'value' is string, the source declared int64"),
        (pa.array([True]), None),
        (pa.array([2.0]), None),
        (pa.array([3], pa.int16()), None),
        (pa.array([None]), None),
    ],
)
def test_a_column_may_take_another_form_for_the_same_values_only(
    column: pa.Array, message: str | None
) -> None:
    table = pa.table({"ts": [5], "key": ["a"], "value": column})
    payload = pa.schema([("key", pa.string()), ("value", pa.int64())])
    if message is None:
        assert EventColumns("ts").batch(table, payload, "file f").schema == payload
    else:
        with pytest.raises(SchemaChangeError, match=re.escape(f"file f: {message}")):
            EventColumns("ts").batch(table, payload, "file f")


# ------------------------------------------------------------------------------------------------
# expressions and sinks


def test_an_expression_that_fails_on_a_row_says_which(three: Path) -> None:
    events = ts.from_files(
        str(three / "events"), time="ts", columns=EVENTS, disorder=200, name="events"
    )
    numbers = (
        events.select(key="key", number="cast(key as bigint)")
        .group_by("key")
        .tumbling(100)
        .aggregate(total=tw.sum_("number"))
    )
    with pytest.raises(
        EvaluationError,
        match=r"CAST\(key AS bigint\) failed on row \d+ of the batch, where key = 'k\d'",
    ):
        run(three, numbers)


def test_a_sink_that_fails_gets_its_batch_again(three: Path) -> None:
    taken: dict[int, list[Any]] = {}

    def sink(rows: DataFrame, batch: int) -> None:
        if batch == 1 and 0 in taken and not broken:
            broken.append(batch)
            raise ValueError("the sink is broken")
        taken[batch] = rows.collect()

    broken: list[int] = []
    with pytest.raises(ThalwegError, match=r"^the query ended: ValueError: the sink is broken$"):
        run(three, to=sink)
    run(three, to=sink)
    changes = [row.asDict() for batch in sorted(taken) for row in taken[batch]]
    elements = [
        tw.insert(row, start, end) if kind == "insert" else tw.adjust(row, start, end, new_end)
        for row in changes
        for kind, start, end, new_end in [
            tuple(row.pop(name) for name in ("_kind", "_start", "_end", "_new_end"))
        ]
    ]
    assert tw.cht(elements, query(three, "windows").schema) == expected(three, "windows")


def test_a_query_is_stopped_in_the_middle_of_a_micro_batch_that_fails_with_a_long_java_trace(
    three: Path, spark: SparkSession
) -> None:
    """Spark searches the trace of a sink for an interruption, one call for each character: the
    thread of the query died of it, and said so on the standard error of the JVM."""
    jvm: Any = spark.sparkContext._jvm
    reached, stopped = Event(), Event()

    def sink(rows: DataFrame, batch: int) -> None:
        reached.set()
        stopped.wait(60)
        jvm.java.util.Objects.requireNonNull(None, "long " * 20_000)

    log = spark_log()
    assert log is not None
    before = log.stat().st_size
    running = ts.start(query(three, "windows"), to=sink, checkpoint=str(three / "checkpoint"))
    stopping = Thread(target=running.stop)
    try:
        assert reached.wait(120)
        stopping.start()
        while running.query.isActive:
            stopping.join(0.01)
    finally:
        stopped.set()
        stopping.join()
    with log.open("rb") as opened:
        opened.seek(before)
        assert b"StackOverflowError" not in opened.read()
    with pytest.raises(ThalwegError, match=r"^the query ended: java.lang.NullPointerException: lo"):
        run(three, to=sink)


@pytest.mark.parametrize("interrupted", [False, True])
def test_an_interruption_is_still_seen_in_a_long_trace(interrupted: bool) -> None:
    """The words that Spark looks for come at the end, or not at all."""
    words = "py4j.protocol.Py4JJavaError: An error occurred while calling"
    name = "java.lang.InterruptedException"

    def sink(rows: DataFrame, batch: int) -> None:
        raise ValueError(f"{words} o1.save.\n: {name if interrupted else ''}{' at here' * 9_999}")

    rows: Any = None
    with pytest.raises(BatchFailure) as failure:
        with_short_search(sink)(rows, 0)
    shown = "".join(traceback.format_exception(failure.value))
    _, found, rest = shown.partition(words)
    assert bool(found) is interrupted and len(rest) < 50
    assert (name in rest) is interrupted


# ------------------------------------------------------------------------------------------------
# full disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    small = Disk(tmp_path / "checkpoint")
    yield small
    small.remove()


def test_a_full_disk_ends_the_query_and_with_room_it_goes_on(tmp_path: Path, disk: Disk) -> None:
    """It is full when the offsets are written, and later, in the middle of a micro-batch."""
    assert live_on_a_full_disk(Arrivals(tmp_path, 5, seed=3, rows=40), disk, [0, 24 << 10]) >= 1
    assert_right(tmp_path)


# ------------------------------------------------------------------------------------------------
# processes


@function("faults.deadly", inputs=["int64"], output="int64")
def deadly(v: int) -> int:
    """Ends the process that evaluates it, as a fault in a library would."""
    if v == 666:
        os.kill(os.getpid(), signal.SIGKILL)
    return v


@pytest.fixture
def _by_value() -> Iterator[None]:
    """Spark's workers do not know the folder of the tests: what it defines travels with the
    query."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.usefixtures("_by_value")
def test_a_file_that_kills_a_worker_is_named_and_can_be_set_aside(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    for name, value in (("a", 1), ("b", 666), ("c", 3)):
        pq.write_table(pa.table({"ts": [value], "v": [value]}), folder / f"{name}.parquet")
    events = ts.from_files(str(folder), time="ts", disorder=0, finish=True, files_per_batch=1)
    counted = events.select(v=tw.call("deadly", tw.col("v")))

    def start() -> ts.RunningQuery:
        return ts.start(
            counted, checkpoint=str(tmp_path / "checkpoint"), trigger="available now", to="memory"
        )

    with pytest.raises(
        InputError, match=r"died while it read b\.parquet.*rename it to _b\.parquet"
    ):
        start().wait()
    (folder / "b.parquet").rename(folder / "_b.parquet")
    running = start()
    running.wait()
    assert sorted(payload["v"] for _, _, payload in running.table()) == [1, 3]


def test_a_query_whose_worker_came_too_late_is_begun_again(three: Path) -> None:
    """The words are Spark's when a Python process was not there in ten seconds."""
    attempts = 0

    def deliver(frame: DataFrame, _: int) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError("Python worker failed to connect back.")
        frame.write.format("noop").mode("append").save()

    running = ts.start(
        query(three, "windows"),
        to=deliver,
        checkpoint=str(three / "checkpoint"),
        trigger="available now",
    )
    assert running.wait()
    assert attempts > 1


def test_a_worker_that_never_comes_ends_the_query(three: Path) -> None:
    def deliver(_: DataFrame, __: int) -> None:
        raise OSError("Python worker failed to connect back.")

    running = ts.start(
        query(three, "windows"),
        to=deliver,
        checkpoint=str(three / "checkpoint"),
        trigger="available now",
    )
    with pytest.raises(ThalwegError, match="failed to connect back"):
        running.wait()

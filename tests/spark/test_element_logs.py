"""Element logs on real Spark: written by a query, read by another, merged while inputs come and
go."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import thalweg as tw
from tests.merge.ha_process import QUERY, inputs
from tests.spark.test_files import write
from tests.spark.test_start import EVENTS, files, write_files
from thalweg import spark as tws
from thalweg.errors import PlanError, StateError
from thalweg.io.element_log import ElementLog, ElementLogReader
from thalweg.merging import MergeRegistry
from thalweg.model import (
    INFINITY,
    Batch,
    Row,
    cti,
    first_violation_in_batches,
    insert,
    rows_of_table,
    table_of_batches,
)
from thalweg.shards.checkpoint.copying import copy_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]


def counted(stream: tw.Stream) -> tw.Stream:
    return stream.group_by("k").tumbling(10).aggregate(n=tw.count(), s=tw.sum_("v"))


def write_log(query: tw.Stream, folder: Path, checkpoint: Path) -> list[Batch]:
    """Run a query with its answers in a log, until its input ends; the log."""
    tws.start(
        query,
        to="elements",
        path=str(folder),
        checkpoint=str(checkpoint),
        trigger="available now",
        buckets=2,
    ).wait()
    return list(ElementLogReader(folder).read())


def table(log: list[Batch]) -> list[Row]:
    return rows_of_table(table_of_batches(log, log[0].schema))


def in_process(query: tw.Stream, folder: Path) -> list[Row]:
    """What the engine in this process says of the same files."""
    rows = [insert({"k": r["k"], "v": r["v"]}, r["ts"], r["ts"] + 1) for r in EVENTS.to_pylist()]
    in_time = [row for row in rows if not (row.start == 2 and row.payload["v"] == 7)]
    return list(tw.table(query, {"events": [*in_time, cti(None)]}))


def test_a_log_is_written_once_and_read_with_its_promises(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in")
    query = counted(files(folder))
    plain = counted(tw.source("events", {"k": "string", "v": "int64"}))
    log = write_log(query, tmp_path / "log", tmp_path / "checkpoint")
    assert len(log) >= 3, "a batch for each micro-batch"
    assert table(log) == in_process(plain, folder)
    assert first_violation_in_batches(log) is None
    promises = [batch.progress.cti for batch in log]
    assert promises[-1] == INFINITY and sorted(promises)[1] > min(promises)

    # A micro-batch that runs again makes the same batch, and the file stays as it is.
    newest = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for stray in (tmp_path / "checkpoint" / "commits").glob(f"*{newest}*"):
        stray.unlink()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "log").iterdir()}
    again = write_log(query, tmp_path / "log", tmp_path / "checkpoint")
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "log").iterdir()}
    assert before.items() <= after.items() and table(again) == table(log)

    # Another query reads it, with adjusts and promises.
    read = tws.from_elements(str(tmp_path / "log"), batches_per_batch=1, name="answers")
    total = read.tumbling(20).aggregate(s=tw.sum_("s"))
    second = write_log(total, tmp_path / "second", tmp_path / "checkpoint 2")
    stand_in = tw.source("answers", pa.schema(log[0].schema))
    assert table(second) == list(
        tw.table(stand_in.tumbling(20).aggregate(s=tw.sum_("s")), {"answers": iter(log)})
    )
    assert second[-1].progress.cti == INFINITY

    with pytest.raises(StateError, match="of the run"):
        write_log(query, tmp_path / "log", tmp_path / "another checkpoint")
    (tmp_path / "log" / f"{len(again) - 1:012d}.arrow").unlink()
    with pytest.raises(StateError, match="one of the two is an older copy"):
        write_log(query, tmp_path / "log", tmp_path / "checkpoint")
    with pytest.raises(PlanError, match="elsewhere"):
        tws.start(query, to="elements", path="s3://bucket/log")


@pytest.fixture
def replicas() -> dict[str, list[Batch]]:
    """Three replicas of a query, which cut their input differently; what their logs will say."""
    made = {}
    for number in range(3):
        engine = tw.Engine(QUERY)
        size = number + 1
        groups = [inputs()[at : at + size] for at in range(0, len(inputs()), size)]
        schema = inputs()[0].schema
        made[f"r{number}"] = [
            Batch.concat(engine.push("events", Batch.concat(group, schema)), QUERY.node.schema)
            for group in groups
        ]
    return made


def test_inputs_join_and_leave_a_merge_that_runs(
    tmp_path: Path, replicas: dict[str, list[Batch]]
) -> None:
    """r0 begins and fails half-way; r1 goes on alone; r2 joins late and ends the stream. Between
    the steps the query is stopped and started again."""
    logs = {name: ElementLog(tmp_path / name, name) for name in replicas}
    registry = MergeRegistry(tmp_path / "registry")

    def write(name: str, upto: float) -> None:
        batches = replicas[name]
        for batch in batches[logs[name].next : int(upto * len(batches))]:
            logs[name].append(batch)

    def merge() -> list[Batch]:
        merged = tws.merge_logs(str(tmp_path / "registry"), groups=("k",), batches_per_batch=4)
        return write_log(merged, tmp_path / "out", tmp_path / "checkpoint")

    with pytest.raises(PlanError, match="none of the logs"):
        merge()
    write("r0", 0.5)
    registry.attach("r0", tmp_path / "r0")
    out = merge()
    assert len(out) >= 3 and out[-1].progress.cti == replicas["r0"][11].progress.cti
    registry.attach("r1", tmp_path / "r1")
    write("r1", 0.8)
    registry.detach("r0")
    shown = merge()
    assert shown[-1].progress.cti > out[-1].progress.cti
    registry.attach("r2", tmp_path / "r2", since=100)
    registry.detach("r1")
    write("r2", 1.0)
    out = merge()
    expected = tw.table(QUERY, {"events": iter(inputs())})
    assert table(out) == list(expected) and out[-1].progress.cti == INFINITY
    assert first_violation_in_batches(out) is None


def test_promises_for_groups_are_in_the_log(tmp_path: Path) -> None:
    rows = pa.table(
        {"ts": [1, 2, 30, 31], "k": ["a", "b", "a", None], "end": [False, False, True, False]}
    )
    folder = write_files(tmp_path / "in", rows.filter(rows["k"].is_valid()), size=9)
    events = tws.from_files(str(folder), time="ts", punctuation="end", per="k", name="events")
    query = events.group_by("k").tumbling(10).aggregate(n=tw.count())
    log = write_log(query, tmp_path / "log", tmp_path / "checkpoint")
    scoped = [batch.progress for batch in log if batch.progress.scoped]
    assert scoped and scoped[-1].scope_columns == ("k",) and set(scoped[-1].scoped) == {("a",)}


def test_a_copy_of_a_checkpoint_goes_on_where_the_query_was(tmp_path: Path) -> None:
    """Jumpstart: the copy has the state and the log so far, and reads only what is new."""
    folder = write_files(tmp_path / "in", EVENTS.slice(0, 6))

    def query() -> tw.Stream:
        return counted(files(folder, finish=False))

    first = write_log(query(), tmp_path / "log", tmp_path / "checkpoint")
    last = copy_checkpoint(
        tmp_path / "checkpoint",
        tmp_path / "copy",
        log=tmp_path / "log",
        log_to=tmp_path / "copied log",
    )
    assert last == len(first) - 1
    write(folder / "more", EVENTS.slice(6, 3), "parquet")
    logs = [
        write_log(query(), tmp_path / log, tmp_path / place)
        for log, place in (("log", "checkpoint"), ("copied log", "copy"))
    ]
    assert len(logs[0]) > len(first) and table(logs[0]) == table(logs[1])
    with pytest.raises(StateError, match="empty folder"):
        copy_checkpoint(tmp_path / "checkpoint", tmp_path / "copy")

"""A checkpoint, its sink, its lock and its modules: what does not belong together is refused."""

from __future__ import annotations

import importlib.util
import linecache
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from tests.shards.test_record import QUERY, Checkpoint
from thalweg.errors import PlanError, StateError
from thalweg.io.element_log import ElementLog
from thalweg.io.locks import lock_file, unlock_file
from thalweg.model.batch import Batch
from thalweg.shards.checkpoint.module_digests import module_digests
from thalweg.shards.checkpoint.ownership import lock_checkpoint
from thalweg.shards.checkpoint.record import ProgressRecord
from thalweg.shards.exchange.blobs import blob_of_batch
from thalweg.shards.output.destinations import require_output, require_sink
from thalweg.shards.output.kept_table import KeptTable
from thalweg.shards.output.sink_folder import SinkFolder
from thalweg.shards.reports.combined import combined_why, read_reports
from thalweg.shards.reports.query_figures import BatchFigures, QueryFigures
from thalweg.shards.sources.source_feed import log_of
from thalweg.spark.trigger import trigger_arguments

# ------------------------------------------------------------------------------------------------
# the sink belongs to its checkpoint


def sink(tmp_path: Path, *batches: int, owner: str | None = "mine") -> SinkFolder:
    folder = SinkFolder(str(tmp_path / "answers"), "parquet")
    if owner is not None:
        folder.claim(owner)
    for number in batches:
        (tmp_path / "answers" / f"batch={number}").mkdir(parents=True)
    return folder


def test_a_new_folder_and_one_that_goes_on_are_fine(tmp_path: Path) -> None:
    sink(tmp_path, owner=None).check("mine", last=-1, finished=-1)
    assert not (tmp_path / "answers").exists(), "a check leaves nothing behind"
    sink(tmp_path, 0, 1, 2).check("mine", last=2, finished=1)


@pytest.mark.parametrize(
    ("batches", "owner", "last", "finished", "said"),
    [
        ((0, 1), None, -1, -1, "already holds batch=0, batch=1, which this checkpoint did not"),
        ((0, 1), "other", 1, 1, "the answers of another checkpoint"),
        ((0, 1, 2, 3), "mine", 1, 1, "holds the micro-batches 2 to 3, .* is an older copy"),
        ((0, 2), "mine", 2, 2, "lacks the micro-batches 1, "),
        ((0, 1), "mine", 2, 2, "lacks the micro-batches 2, "),
    ],
)
def test_a_folder_of_other_answers_is_refused(
    batches: tuple[int, ...], owner: str | None, last: int, finished: int, said: str, tmp_path: Path
) -> None:
    with pytest.raises(StateError, match=said):
        sink(tmp_path, *batches, owner=owner).check("mine", last=last, finished=finished)


def test_another_format_or_a_file_is_refused(tmp_path: Path) -> None:
    sink(tmp_path, 0)
    with pytest.raises(StateError, match="was written as parquet"):
        SinkFolder(str(tmp_path / "answers"), "csv").check("mine", last=0, finished=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match="is a file"):
        SinkFolder(str(tmp_path / "file"), "csv").check("mine", last=0, finished=0)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """The errors of the system named neither what it was for nor what to do."""
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "place"
    with pytest.raises(StateError, match="no checkpoint can be kept there: Not a directory"):
        lock_checkpoint(place)
    with pytest.raises(StateError, match="no answers can be written there: Not a directory"):
        SinkFolder(str(place), "parquet").claim("mine")
    with pytest.raises(StateError, match="no log can be kept there: Not a directory"):
        ElementLog(place, "run")
    with pytest.raises(PlanError, match=r"Did you mean 'final'\? Got 'finale'"):
        require_output("finale")


def test_a_damaged_owner_is_refused(tmp_path: Path) -> None:
    folder = sink(tmp_path, 0)
    (tmp_path / "answers" / "_thalweg.json").write_text("{")
    with pytest.raises(StateError, match="is damaged"):
        folder.check("mine", last=0, finished=0)


def test_the_record_tells_checkpoints_apart_and_how_far_they_are(tmp_path: Path) -> None:
    one, two = Checkpoint(tmp_path / "one"), Checkpoint(tmp_path / "two")
    first = one.run(0, 3)
    again = ProgressRecord(one.folder, QUERY)
    again.check()
    assert (again.identity, again.last, again.finished) == (first.identity, 3, 3)
    (one.folder / "commits" / "3").unlink()
    again.check()
    assert (again.last, again.finished) == (3, 2), "the last one runs again"
    assert two.run(0, 0).identity != first.identity


# ------------------------------------------------------------------------------------------------
# answers that are kept in memory

SCHEMA = pa.schema([("v", pa.int64())])


def changes(*elements: tw.Element) -> list[bytes]:
    engine = tw.Engine(tw.source("s", SCHEMA))
    return [blob_of_batch(Batch.concat(engine.push("s", list(elements)), SCHEMA))]


def starts(table: KeptTable) -> list[int]:
    return sorted(table.batch().start.tolist())


def row(value: int) -> tw.Element:
    return tw.insert({"v": value}, value, value + 1)


def test_a_table_in_memory_survives_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.shards.output.kept_table._TOGETHER", 3)
    table = KeptTable(SCHEMA, tmp_path / "table")
    for batch in range(10):
        table.take(batch, changes(row(batch)))
        again = KeptTable(SCHEMA, tmp_path / "table", last=batch, finished=batch)
        assert starts(again) == starts(table)
        assert starts(again) == list(range(batch + 1))
    assert len(list((tmp_path / "table").iterdir())) < 6, "older micro-batches are put together"


def test_a_micro_batch_that_runs_again_replaces_itself(tmp_path: Path) -> None:
    table = KeptTable(SCHEMA, tmp_path / "table")
    table.take(0, changes(row(1)))
    table.take(1, changes(row(2)))
    again = KeptTable(SCHEMA, tmp_path / "table", last=1, finished=0)
    again.take(1, changes(row(3)))
    assert starts(again) == [1, 3]


def test_answers_that_went_elsewhere_are_missed(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="its answers went elsewhere"):
        KeptTable(SCHEMA, tmp_path / "table", last=2, finished=1)


def test_figures_add_up_beyond_what_spark_remembers() -> None:
    figures = QueryFigures()
    for batch in range(5_000):
        assert figures.note(batch, BatchFigures(read=2, late=1))
        assert not figures.note(batch, BatchFigures(read=2)), "each micro-batch counts once"
    assert figures.note(5_001, BatchFigures(read=1))
    assert not figures.note(5_000, BatchFigures(read=1)), "a listener may lag"
    assert (figures.batches, figures.totals.read, figures.totals.late) == (
        5_002,
        10_002,
        5_000,
    )


# ------------------------------------------------------------------------------------------------
# locks


def test_one_process_at_a_time_holds_a_checkpoint(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from thalweg.io.locks import lock_file; "
        "print(lock_file(Path(sys.argv[1])))"
    )

    def other() -> str:
        command = [sys.executable, "-c", script, str(tmp_path / "lock")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert lock_file(tmp_path / "lock") and lock_file(tmp_path / "lock")
    assert other() == "False"
    unlock_file(tmp_path / "lock")
    assert other() == "True"


# ------------------------------------------------------------------------------------------------
# the code of modules


def digests(folder: Path, body: str, helper: str = "return 1") -> dict[str, str]:
    """The digests of a query with a module whose code is given."""
    file = folder / "regression_sum.py"
    file.write_text(f"""
from thalweg import udm

def helper():
    {helper}

@udm.aggregate(inputs={{"xs": "int64"}}, output="int64", name="regression.sum")
class Sum:
    def compute(self, xs):
        {body}
""")
    linecache.checkcache(str(file))
    spec = importlib.util.spec_from_file_location("regression_sum", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["regression_sum"] = module
    spec.loader.exec_module(module)
    applied = tw.source("s", {"v": "int64"}).tumbling(10).apply("regression.sum", "v")
    return module_digests(applied.node)


def test_a_module_whose_code_changed_is_known(tmp_path: Path) -> None:
    before = digests(tmp_path, "return sum(xs)")
    assert list(before) == ["regression.sum@1"]
    assert digests(tmp_path, "return sum(xs)  # the same") == before
    assert digests(tmp_path, "return max(xs)") != before
    with_helper = digests(tmp_path, "return helper()")
    assert digests(tmp_path, "return helper()", helper="return 2") != with_helper


def test_a_checkpoint_with_other_code_is_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.run(0, 1, replace(QUERY, modules={"mine.sum@1": "a"}))
    checkpoint.check(replace(QUERY, modules={"mine.sum@1": "a"}))
    with pytest.raises(StateError, match=r"the code of the module mine.sum@1 has changed"):
        checkpoint.check(replace(QUERY, modules={"mine.sum@1": "b"}))


def test_an_operator_that_does_not_fit_is_refused_before_a_worker_starts(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.run(
        0, 1, replace(QUERY, operators={"0": {"top_k-1": "by a", "where-1": "stateless x"}})
    )
    checkpoint.check(replace(QUERY, operators={"0": {"top_k-1": "by a", "where-1": "stateless y"}}))
    with pytest.raises(StateError, match=r"the operator top_k-1 was 'by a' and is now 'by b'"):
        checkpoint.check(replace(QUERY, operators={"0": {"top_k-1": "by b"}}))


# ------------------------------------------------------------------------------------------------
# names and words from outside


@pytest.mark.parametrize("name", ["../../ESCAPED", "/etc/x", "a/b", "x" * 500, "\x1b[31m", ".."])
def test_no_name_of_a_source_leads_out_of_the_checkpoint(name: str, tmp_path: Path) -> None:
    log = log_of(tmp_path, name)
    assert log.resolve().parent == tmp_path / "thalweg" and len(log.name) < 255
    log.parent.mkdir()
    log.write_text("")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"batch": 1, "reports": [1]}',
        '{"batch": "x", "reports": []}',
        '{"batch": 1, "reports": [{"fragment": 0}]}',
        '{"batch": 1, "reports": {"a": 1}}',
    ],
)
def test_a_strange_report_is_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "thalweg").mkdir()
    (tmp_path / "thalweg" / "reports.json").write_text(text)
    with pytest.raises(StateError, match="has no report"):
        combined_why(read_reports(tmp_path)[1])


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(PlanError) as caught:
        call()
    assert caught.value.file == __file__
    return caught.value.reason


def test_what_start_does_not_know_is_refused_on_the_line() -> None:
    assert "Did you mean 'parquet'?" in refused(lambda: require_sink("parqet", None))
    assert "needs a path" in refused(lambda: require_sink("parquet", None))
    assert "writes no files" in refused(lambda: require_sink("console", "x"))
    assert "one of changelog, final, upserts" in refused(lambda: require_output("changelogs"))
    assert "is not understood" in refused(lambda: trigger_arguments("sometimes"))
    assert "know no state" in refused(lambda: trigger_arguments({"continuous": "1 second"}))
    require_sink("org.example.Format", "x")


@pytest.mark.parametrize(
    ("trigger", "arguments"),
    [
        ("at once", {"processingTime": "0 seconds"}),
        ("availableNow", {"availableNow": True}),
        ("available now", {"availableNow": True}),
        ("once", {"availableNow": True}),
        ("10 seconds", {"processingTime": "10 seconds"}),
        ("10 min", {"processingTime": "600000000 microseconds"}),
        ({"processingTime": "5 seconds"}, {"processingTime": "5 seconds"}),
        ({"availableNow": True}, {"availableNow": True}),
    ],
)
def test_triggers_as_people_write_them(trigger: Any, arguments: dict[str, Any]) -> None:
    assert trigger_arguments(trigger) == arguments

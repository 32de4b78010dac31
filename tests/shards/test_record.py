"""The progress record of a checkpoint: what it refuses, what it forgives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from thalweg.errors import StateError
from thalweg.shards.checkpoint import record
from thalweg.shards.checkpoint.copying import copy_checkpoint
from thalweg.shards.checkpoint.query_identity import QueryIdentity
from thalweg.shards.checkpoint.record import ProgressRecord

QUERY = QueryIdentity(
    {"fragments": {"0": [["s", None, ["k"]]]}, "buckets": 2, "consistency": "speculative"}
)


class Checkpoint:
    """A checkpoint as Spark leaves it behind, made by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    @property
    def lines(self) -> list[str]:
        return self.record.read_text(encoding="utf-8").splitlines()

    @property
    def batches(self) -> list[int]:
        """The batches that the record tells of."""
        return [
            number for number in (json.loads(line)["batch"] for line in self.lines) if number >= 0
        ]

    @property
    def record(self) -> Path:
        return self.folder / "thalweg" / "record.jsonl"

    def offsets(self, batch: int) -> None:
        self.write(
            f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":0}}\n{{"n":{batch + 1},"ended":0}}'
        )

    def commit(self, batch: int) -> None:
        self.write(
            f"commits/{batch}",
            f'v2\n{{"nextBatchWatermarkMs":0,"stateUniqueIds":{{"0":"id-{batch}"}}}}',
        )

    def run(self, first: int, last: int, query: QueryIdentity | None = None) -> ProgressRecord:
        """A query runs these batches, as Spark does: offsets, record, sink, commit."""
        mine = ProgressRecord(self.folder, query or QUERY)
        mine.check()
        mine.begin()
        if first == 0:
            self.write("metadata", f'{{"id":"{self.folder.name}-0b5c1a0e"}}')
            self.write("state/0/_metadata/v2/metadata", "v2\n{}")
            self.write("state/0/0/1.delta", "not looked at")
        for batch in range(first, last + 1):
            self.offsets(batch)
            mine.note(batch)
            self.commit(batch)
        return mine

    def check(self, query: QueryIdentity | None = None) -> None:
        ProgressRecord(self.folder, query or QUERY).check()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


# ------------------------------------------------------------------------------------------------
# going on


def test_a_new_checkpoint_is_fine(checkpoint: Checkpoint) -> None:
    checkpoint.check()
    assert not checkpoint.folder.exists(), "a check leaves nothing behind"
    ProgressRecord(checkpoint.folder, QUERY).begin()
    checkpoint.check()
    assert checkpoint.batches == []


def test_a_query_may_be_killed_before_its_first_batch(checkpoint: Checkpoint) -> None:
    ProgressRecord(checkpoint.folder, QUERY).begin()
    checkpoint.write("metadata", "{}")
    checkpoint.offsets(0)
    checkpoint.check()
    checkpoint.run(0, 1)
    checkpoint.check()


def test_a_query_goes_on_as_often_as_it_likes(checkpoint: Checkpoint) -> None:
    checkpoint.run(0, 2)
    checkpoint.run(3, 3)
    checkpoint.run(4, 6)
    checkpoint.check()
    assert checkpoint.batches == list(range(7))


@pytest.mark.parametrize("noted", [True, False], ids=["after its line", "before its line"])
def test_a_batch_that_crashed_is_run_again(checkpoint: Checkpoint, noted: bool) -> None:
    first = checkpoint.run(0, 1)
    checkpoint.offsets(2)
    if noted:
        first.note(2)
    checkpoint.run(2, 4)
    checkpoint.check()
    assert checkpoint.batches == [0, 1, 2, 3, 4]


def test_spark_may_clean_up_old_batches(checkpoint: Checkpoint) -> None:
    checkpoint.run(0, 5)
    for batch in range(4):
        (checkpoint.folder / f"offsets/{batch}").unlink()
        (checkpoint.folder / f"commits/{batch}").unlink()
    checkpoint.check()
    checkpoint.run(6, 6)


def test_the_last_commit_may_be_missing(checkpoint: Checkpoint) -> None:
    checkpoint.run(0, 3)
    (checkpoint.folder / "commits/3").unlink()
    checkpoint.check()


@pytest.mark.parametrize("kept", ["nothing", "half", "all but the line end"])
def test_a_line_that_was_cut_off_by_a_crash_is_forgiven(checkpoint: Checkpoint, kept: str) -> None:
    checkpoint.run(0, 1)
    before = checkpoint.record.read_bytes()
    checkpoint.offsets(2)
    ProgressRecord(checkpoint.folder, QUERY).note(2)
    line = checkpoint.record.read_bytes()[len(before) :]
    size = {"nothing": 0, "half": len(line) // 2, "all but the line end": len(line) - 1}[kept]
    checkpoint.record.write_bytes(before + line[:size])
    checkpoint.check()
    checkpoint.run(2, 3)
    checkpoint.check()
    assert checkpoint.batches == [0, 1, 2, 3]


def test_a_line_may_be_cut_off_anywhere(checkpoint: Checkpoint) -> None:
    checkpoint.run(0, 1)
    whole = checkpoint.record.read_bytes()
    begin = whole.rindex(b"\n", 0, -1) + 1
    (checkpoint.folder / "commits/1").unlink()
    braces = [at + 1 for at in range(begin, len(whole)) if whole[at : at + 1] == b"}"]
    for size in sorted({*range(begin, len(whole), 50), *braces, len(whole) - 1}):
        checkpoint.record.write_bytes(whole[:size])
        checkpoint.run(1, 1)
        assert checkpoint.batches == [0, 1]
        (checkpoint.folder / "commits/1").unlink()


# ------------------------------------------------------------------------------------------------
# damage


def flipped(path: Path, at: int, bit: int) -> bytes:
    whole = path.read_bytes()
    return whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]


@pytest.mark.parametrize(
    "name", ["offsets/0", "offsets/1", "offsets/2", "metadata", "state/0/_metadata/v2/metadata"]
)
def test_any_changed_byte_of_what_spark_trusts_is_refused(
    checkpoint: Checkpoint, name: str
) -> None:
    checkpoint.run(0, 2)
    path = checkpoint.folder / name
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(
            StateError, match=f"the file {name} of the checkpoint is not what was written"
        ):
            checkpoint.check()


@pytest.mark.parametrize("bit", [1, 128])
def test_any_changed_byte_of_the_record_is_refused_or_does_no_harm(
    checkpoint: Checkpoint, tmp_path: Path, bit: int
) -> None:
    checkpoint.run(0, 1)
    whole = checkpoint.record.read_bytes()
    harmless = []
    for at in range(len(whole)):
        checkpoint.record.write_bytes(flipped(checkpoint.record, at, bit))
        try:
            checkpoint.check()
        except StateError:
            pass
        else:
            harmless.append(at)
            again = Checkpoint(tmp_path / f"again-{at}")
            shutil.copytree(checkpoint.folder, again.folder, dirs_exist_ok=True)
            again.run(2, 3)
            again.check()
            assert again.batches[-2:] == [2, 3]
        checkpoint.record.write_bytes(whole)
    assert harmless == [len(whole) - 1], "the last line looks cut off when its end is damaged"


def test_a_line_in_the_middle_that_is_gone_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.run(0, 3)
    lines = checkpoint.lines
    checkpoint.record.write_text(
        "".join(f"{line}\n" for line in [*lines[:1], *lines[2:]]), encoding="utf-8"
    )
    with pytest.raises(StateError, match=r"line 1 of thalweg/record.jsonl is damaged"):
        checkpoint.check()


def test_lines_of_another_record_are_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.run(0, 3)
    other = Checkpoint(tmp_path / "other")
    other.run(0, 3)
    checkpoint.record.write_text(
        "".join(f"{line}\n" for line in [*checkpoint.lines[:2], *other.lines[2:]]), encoding="utf-8"
    )
    with pytest.raises(StateError, match="line 2 of"):
        checkpoint.check()


@pytest.mark.parametrize("content", ["", "v1", "v2\n{}"])
def test_what_a_commit_says_does_not_matter_to_the_record(
    checkpoint: Checkpoint, content: str
) -> None:
    checkpoint.run(0, 2)
    checkpoint.write("commits/1", content)
    checkpoint.check()


def test_a_commit_mark_that_is_gone_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.run(0, 3)
    (checkpoint.folder / "commits/2").unlink()
    with pytest.raises(StateError, match="the mark that batch 2 is done is gone"):
        checkpoint.check()


def test_offsets_that_are_gone_are_refused(checkpoint: Checkpoint) -> None:
    checkpoint.run(0, 3)
    (checkpoint.folder / "offsets/3").unlink()
    with pytest.raises(StateError, match="batch 3 was run, but its offsets are gone"):
        checkpoint.check()


def test_an_empty_offset_log_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.run(0, 3)
    shutil.rmtree(checkpoint.folder / "offsets")
    with pytest.raises(StateError, match="the offset log is empty, but 4 batches were recorded"):
        checkpoint.check()


# ------------------------------------------------------------------------------------------------
# foreign


def test_a_checkpoint_without_a_record_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.run(0, 1)
    checkpoint.record.unlink()
    with pytest.raises(StateError, match="was not made by Thalweg, or its record is gone"):
        checkpoint.check()


def test_the_checkpoint_of_another_query_is_refused_with_the_difference(
    checkpoint: Checkpoint,
) -> None:
    checkpoint.run(0, 1)
    with pytest.raises(StateError, match="Its buckets: 2; of this query: 4"):
        checkpoint.check(QUERY.with_facts({"buckets": 4}))


def test_offsets_of_another_checkpoint_are_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.run(0, 2)
    other = Checkpoint(tmp_path / "other")
    other.run(0, 5)
    shutil.copy(other.folder / "offsets/5", checkpoint.folder / "offsets/2")
    with pytest.raises(StateError, match="offsets/2 of the checkpoint is not what was written"):
        checkpoint.check()


def test_a_batch_without_offsets_is_not_noted(checkpoint: Checkpoint) -> None:
    with pytest.raises(StateError, match="batch 0 runs, but its offsets are not in the checkpoint"):
        ProgressRecord(checkpoint.folder, QUERY).note(0)


# ------------------------------------------------------------------------------------------------
# shortening


def test_a_long_record_is_shortened_and_goes_on(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_KEPT", 5)
    checkpoint.run(0, 10)
    assert len(checkpoint.lines) <= 10 and checkpoint.batches[-5:] == list(range(6, 11))
    checkpoint.check()
    checkpoint.run(11, 17)
    assert len(checkpoint.lines) <= 10 and checkpoint.batches[-5:] == list(range(13, 18))
    checkpoint.check()
    checkpoint.write("metadata", "{}")
    with pytest.raises(StateError, match="the file metadata"):
        checkpoint.check()


# ------------------------------------------------------------------------------------------------
# copies


def test_a_copy_has_the_lines_of_finished_batches_while_the_next_one_is_written(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    checkpoint.run(0, 2)
    whole = checkpoint.lines
    (checkpoint.folder / "commits" / "2").unlink()
    with checkpoint.record.open("a", encoding="utf-8") as file:
        file.write(whole[-1][:40])
    assert copy_checkpoint(checkpoint.folder, tmp_path / "copy") == 1
    copied = Checkpoint(tmp_path / "copy")
    assert copied.lines == whole[:-1]
    copied.check()

"""High availability, the short form: replicas and the merge are processes, killed with SIGKILL."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import thalweg as tw
from tests.merge.ha_process import QUERY, inputs
from thalweg.errors import StateError
from thalweg.io.element_log import ElementLog, ElementLogReader
from thalweg.merging.logged import LoggedMerge
from thalweg.model import (
    INFINITY,
    Batch,
    batches_of,
    cti,
    first_violation_in_batches,
    insert,
    rows_of_table,
    table_of_batches,
)

SCHEMA = QUERY.node.schema


class Process:
    """A process that is told what to do line by line."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._child = self._start()

    def _start(self) -> subprocess.Popen[str]:
        script = Path(__file__).with_name("ha_process.py")
        return subprocess.Popen(
            [sys.executable, str(script), *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()

    def ask(self, line: str) -> str:
        self.tell(line)
        assert self._child.stdout is not None
        answer = self._child.stdout.readline().strip()
        assert answer, f"{self._arguments} ended"
        return answer

    def kill(self) -> None:
        """SIGKILL, in the middle of whatever it does."""
        self._child.kill()
        self._child.communicate()

    def restart(self) -> None:
        self._child = self._start()

    def end(self) -> None:
        self._child.communicate()


def run_with_kills(folder: Path, *, kills: int, merge_kills: int, seed: int) -> list[Batch]:
    """Three replicas under load; replicas and the merge are killed, replicas come back, and in the
    middle a fresh one is attached."""
    random = Random(seed)
    replicas = {f"r{n}": Process("replica", str(folder / f"r{n}"), str(n)) for n in range(3)}
    merge = Process("merge", str(folder / "merge"))
    attach = [[name, str(folder / name / "log"), None] for name in replicas]
    fresh = False
    for turn in range(200):
        victim = random.choice(list(replicas)) if kills and random.random() < 0.5 else None
        for name, process in replicas.items():
            process.tell("2") if name == victim else process.ask("2")
        if victim is not None:
            replicas[victim].kill()
            replicas[victim].restart()
            kills -= 1
        request = json.dumps({"attach": attach})
        if merge_kills and random.random() < 0.4:
            merge.tell(request)
            merge.kill()
            merge.restart()
            merge_kills -= 1
        if turn == 3 and not fresh:
            fresh = True
            replicas["fresh"] = Process("replica", str(folder / "fresh"), "0")
            attach.append(["fresh", str(folder / "fresh" / "log"), None])
        if int(merge.ask(request)) == INFINITY and not kills and not merge_kills and fresh:
            break
    else:
        raise AssertionError("the merge has not ended")
    for process in (*replicas.values(), merge):
        process.end()
    return list(ElementLogReader(folder / "merge" / "out").read())


def check(out: list[Batch]) -> None:
    expected = tw.table(QUERY, {"events": iter(inputs())})
    assert rows_of_table(table_of_batches(out, SCHEMA)) == expected
    assert first_violation_in_batches(out) is None
    for count in range(1, len(out) + 1):  # no window is ever shown twice
        rows = rows_of_table(table_of_batches(out[:count], SCHEMA))
        assert max(Counter((p["k"], start) for start, _, p in rows).values(), default=1) == 1


def test_no_row_is_lost_or_repeated_when_replicas_and_the_merge_are_killed(tmp_path: Path) -> None:
    check(run_with_kills(tmp_path, kills=3, merge_kills=1, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_kills(tmp_path: Path, seed: int) -> None:
    check(run_with_kills(tmp_path, kills=20, merge_kills=5, seed=seed))


# ------------------------------------------------------------------------------------------------
# the log

ROW = tw.source("s", {"v": "int64"}).node.schema


def batch(*values: int, time: int) -> Batch:
    [made] = batches_of([*(insert({"v": v}, time, time + 5) for v in values), cti(time)], ROW)
    return made


def test_a_batch_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    ElementLog(tmp_path, "r").append(batch(1, time=3))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = ElementLog(tmp_path, "r")
    again.write(0, batch(1, time=3))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    with pytest.raises(StateError, match="made again and differs"):
        again.write(0, batch(2, time=3))


def test_a_gap_is_refused(tmp_path: Path) -> None:
    log = ElementLog(tmp_path, "r")
    for time in (1, 2, 3):
        log.append(batch(1, time=time))
    (tmp_path / "000000000001.arrow").unlink()
    with pytest.raises(StateError, match="batch 1 is missing"):
        list(ElementLogReader(tmp_path).read())
    with pytest.raises(StateError, match="batch 1 is missing"):
        ElementLog(tmp_path, "r")


def test_another_run_is_refused(tmp_path: Path) -> None:
    ElementLog(tmp_path, "r").append(batch(1, time=1))
    with pytest.raises(StateError, match="of the run 'r'"):
        ElementLog(tmp_path, "other")


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    value = 0x1122334455667788
    ElementLog(tmp_path, "r").append(batch(value, time=1))
    path = tmp_path / "000000000000.arrow"
    raw = path.read_bytes()
    assert raw.count(value.to_bytes(8, "little")) == 1
    path.write_bytes(raw.replace(value.to_bytes(8, "little"), (value + 1).to_bytes(8, "little")))
    with pytest.raises(StateError, match="its digest is wrong"):
        list(ElementLogReader(tmp_path).read())


def test_inputs_join_and_leave_a_logged_merge(tmp_path: Path) -> None:
    for name in ("a", "b"):
        log = ElementLog(tmp_path / name, name)
        for time in (1, 2, 3):
            log.append(batch(time, time=time))
    merge = LoggedMerge(tmp_path / "m", tw.Merger(ROW), snapshot_every=1)
    assert merge.step(attach={"a": (tmp_path / "a", None)}, most=2) == 2
    assert merge.step(attach={"b": (tmp_path / "b", 2)}, detach=("a",)) == 3
    assert merge.step() == 0
    again = LoggedMerge(tmp_path / "m", tw.Merger(ROW))
    assert again.status() == merge.status() and list(again.status().inputs) == ["b"]
    out = list(ElementLogReader(merge.out).read())
    assert [row[2]["v"] for row in rows_of_table(table_of_batches(out, ROW))] == [1, 2, 3]

"""Durable update queues: nothing newest is lost, whatever is killed and when."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.errors import StateError
from thalweg.freshness.cuts import Cut
from thalweg.freshness.durable_queue import DurableQueue
from thalweg.freshness.schedules import SCHEDULES
from thalweg.freshness.update_log import UpdateLog

SCHEMA = pa.schema({"key": pa.string(), "number": pa.int64()})

Steps = list[tuple[str, list[str] | int]]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.lists(st.sampled_from("abcde"), max_size=6)),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("cut"), st.integers(0, 3)),
        st.tuples(st.just("commit"), st.integers(0, 2)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("crash"), st.integers(0, 200)),
    ),
    max_size=25,
)


def rows(keys: list[str], first: int) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + len(keys)), pa.int64())
    return pa.record_batch([pa.array(keys, pa.string()), numbers], schema=SCHEMA)


def crash(folder: Path, synced: int, kept: int) -> Path:
    """What a crash leaves of a folder: everything that was synced, and up to `kept` bytes more."""
    after = Path(tempfile.mkdtemp(dir=folder.parent))
    for path in folder.iterdir():
        shutil.copy(path, after / path.name)
    newest = max(after.glob("log-*.bin"))
    with newest.open("r+b") as file:
        file.truncate(min(newest.stat().st_size, synced + kept))
    return after


def check(queue: DurableQueue, acknowledged: dict[str, int], committed: dict[str, int]) -> None:
    """The newest acknowledged row of every key waits, is in an open cut, or was committed."""
    found: dict[str, int] = dict(committed)
    for cut in queue.uncommitted:
        for row in cut.read().to_pylist():
            assert row["number"] > found.get(row["key"], -1), "an older row follows a newer one"
            found[row["key"]] = row["number"]
    for row in queue.queue.read(100, now=0).to_pylist():
        assert row["number"] > found.get(row["key"], -1), "an older row follows a newer one"
        found[row["key"]] = row["number"]
    for key, number in acknowledged.items():
        assert found.get(key, -1) >= number, f"the newest acknowledged row of {key} is lost"


@pytest.mark.parametrize("target", [None, 3, 10**6], ids=["update", "adaptive", "append"])
@pytest.mark.parametrize("key", ["key", ()], ids=["by key", "one row"])
@given(steps=steps, schedule=st.sampled_from(sorted(SCHEDULES)))
@settings(max_examples=40, deadline=None)
def test_nothing_newest_is_lost(
    key: str | tuple[()], target: int | None, steps: Steps, schedule: str
) -> None:
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "first"
        queue = DurableQueue(folder, SCHEMA, key, schedule=schedule, target=target)
        number, synced = 0, queue._log.nbytes
        sent: dict[str, int] = {}
        acknowledged: dict[str, int] = {}
        committed: dict[str, int] = {}
        for now, (kind, argument) in enumerate(steps):
            if kind == "enqueue":
                assert isinstance(argument, list)
                keys = argument if key else ["one"] * len(argument)
                assert queue.enqueue(rows(keys, number), now=now).refused == 0
                sent.update({each: number + at for at, each in enumerate(keys)})
                number += len(keys)
                continue
            assert isinstance(argument, int)
            if kind == "sync":
                queue.sync()
            elif kind == "cut":
                queue.cut(argument, now=now)
            elif kind == "commit":
                done = queue.last_cut - argument
                for cut in queue.uncommitted:
                    if cut.number <= done:
                        found = cut.read().to_pylist()
                        committed.update({row["key"]: row["number"] for row in found})
                queue.commit(done)
            elif kind == "compact":
                queue.sync()
                queue._log.compact(queue._summary())
            else:
                queue._log._file.flush()
                folder = crash(folder, synced, argument)
                queue.close()
                queue = DurableQueue(folder, SCHEMA, key, schedule=schedule, target=target)
                synced = queue._log.nbytes
                check(queue, acknowledged, committed)
                # What was sent but not acknowledged may be lost; a sender would send it again.
                sent = dict(acknowledged)
            if kind in ("sync", "cut", "compact"):
                acknowledged = dict(sent)
                synced = queue._log.nbytes
        check(queue, acknowledged, committed)
        queue.close()


WRITER = """
import sys, pyarrow as pa
from pathlib import Path
from thalweg.freshness.cuts import Cut
from thalweg.freshness.durable_queue import DurableQueue
schema = pa.schema({"key": pa.string(), "number": pa.int64()})
queue = DurableQueue(Path(sys.argv[1]), schema, "key")
number = int(sys.argv[2])
while True:
    for _ in range(3):
        keys = pa.array([f"k{at % 7}" for at in range(number, number + 50)])
        rows = pa.record_batch([keys, pa.array(range(number, number + 50))], schema=schema)
        queue.enqueue(rows, now=number)
        number += 50
    queue.sync()
    print(number, flush=True)
    cut = queue.cut(2, now=number)
    if cut.number % 3 == 0:
        queue.commit(cut.number - 1)
"""


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_writer_that_is_killed(tmp_path: Path, kills: int) -> None:
    """A real process, kill -9 after it has acknowledged a while, again and again on one folder."""
    folder, number = tmp_path / "queue", 0
    for _ in range(kills):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        for _ in range(20):
            number = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        number = int(rest[-1]) if rest else number
        writer.stdout.close()
        writer.wait()
        queue = DurableQueue(folder, SCHEMA, "key")
        held = {row["key"]: row["number"] for row in queue.queue.read(100, now=0).to_pylist()}
        for cut in reversed(queue.uncommitted):
            for row in cut.read().to_pylist():
                held.setdefault(row["key"], row["number"])
        for key in range(7):
            newest = max(at for at in range(number) if at % 7 == key)
            committed_only = f"k{key}" not in held
            assert committed_only or held[f"k{key}"] >= newest
        assert len(held) >= 5, "rows that nobody committed are missing"
        number = max([number, *(value + 1 for value in held.values())])
        queue.close()


def test_damage_in_the_middle_is_an_error_and_a_torn_end_is_not(tmp_path: Path) -> None:
    log = UpdateLog(tmp_path)
    for body in (b"one", b"two", b"three"):
        log.append(1, body)
    log.sync()
    log.close()
    path = next(tmp_path.glob("log-*.bin"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    torn = UpdateLog(tmp_path)
    assert [record.body for record in torn.records()] == [b"one", b"two"]
    assert torn.torn == 12
    torn.append(1, b"four")
    torn.sync()
    torn.close()
    again = UpdateLog(tmp_path)
    assert [record.body for record in again.records()] == [b"one", b"two", b"four"]
    again.close()
    path.write_bytes(whole.replace(b"two", b"tWo"))
    with pytest.raises(StateError, match="damaged"):
        UpdateLog(tmp_path)


def test_a_log_of_another_schema_is_refused(tmp_path: Path) -> None:
    DurableQueue(tmp_path, SCHEMA, "key").close()
    with pytest.raises(StateError, match="Use another folder"):
        DurableQueue(tmp_path, SCHEMA, "number")


def test_the_log_is_compacted_by_key(tmp_path: Path) -> None:
    queue = DurableQueue(tmp_path, SCHEMA, "key")
    largest = 0
    for at in range(60):
        queue.enqueue(rows(["a", "b", "c"] * 2_000, at * 6_000), now=at)
        queue.sync()
        largest = max(largest, queue._log.nbytes)
    assert largest < 6 * 2**20, "60 times 6,000 rows are more than 8 MB"
    queue.close()
    again = DurableQueue(tmp_path, SCHEMA, "key")
    held = {row["key"]: row["number"] for row in again.queue.read(9, now=0).to_pylist()}
    assert held == {"a": 359_997, "b": 359_998, "c": 359_999}
    again.close()


timed_steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("enqueue"),
            st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), min_size=1, max_size=6),
        ),
        st.tuples(st.just("cut"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["compact", "restart"]), st.just(0)),
    ),
    max_size=20,
)


@given(steps=timed_steps, disorder=st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_no_row_of_a_later_cut_is_earlier_than_promised(
    steps: list[tuple[str, list[tuple[str, int]] | int]], disorder: int
) -> None:
    """Rows are at most `disorder` earlier than the newest: whatever waits how long, and whatever
    restarts, a cut's promise holds for all cuts after it. Totals go on."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)

        def begin() -> DurableQueue:
            return DurableQueue(
                folder, SCHEMA, "key", schedule="in-place", time="number", disorder=disorder
            )

        queue, newest, promised, accepted, taken = begin(), 100, -(10**9), 0, 0
        for kind, argument in [*steps, ("cut", 100)]:
            if kind == "enqueue":
                assert isinstance(argument, list)
                newest += 1
                times = [newest, *(newest - min(late, disorder) for _, late in argument[1:])]
                keys = pa.array([key for key, _ in argument])
                batch = pa.record_batch([keys, pa.array(times)], schema=SCHEMA)
                accepted += queue.enqueue(batch, now=newest).accepted
                queue.sync()
            elif kind == "cut":
                assert isinstance(argument, int)
                cut = queue.cut(argument, now=newest)
                read = cut.read()
                taken += len(read)
                assert min(read["number"].to_pylist(), default=promised) >= promised
                promised = max(promised, Cut.promise_of(read) or promised)
            elif kind == "compact":
                queue._log.compact(queue._summary())
            else:
                queue.close()
                queue = begin()
        status = queue.queue.status(now=newest)
        assert (status.arrived, status.taken) == (accepted, taken)
        assert status.arrived == status.taken + status.conflated + status.waiting
        queue.close()

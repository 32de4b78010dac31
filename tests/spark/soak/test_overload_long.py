"""Overload for a long time: memory and staleness stay where they were, with kill -9 in between
too."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.spark.jobs.overload import Overload, assert_newest_delivered
from tests.spark.jobs.processes import Job
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_process import ensure_receiver, is_running, stop_receiver
from thalweg.freshness.receiver_settings import Address, ReceiverSettings

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).parents[1] / "jobs" / "fresh.py"
KEYS = 20_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    stop_receiver(tmp_path / "queue")


def resident(*pids: int) -> int:
    """Pages of memory that the largest of some processes holds."""
    held = [0]
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            held.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]))
    return max(held)


def batches(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def start(folder: Path, *arguments: str) -> Job:
    return Job(sys.executable, str(JOB), str(folder), *arguments)


LOAD = 20


@pytest.mark.parametrize("seconds", [60, 600])
def test_memory_and_staleness_under_overload(folder: Path, seconds: int) -> None:
    """Twenty times what is served arrives. After the first third (a minute at most), memory of the
    receiver and the workers grows by less than a tenth, and staleness does not double. When the
    load ends, everything that waits is served in as many micro-batches as it needs."""
    queue = folder / "queue"
    overload = Overload(folder, keys=KEYS, rows=20_000)
    with start(folder) as job:
        job.until((queue / "address.json").exists, "the receiver listens")
        job.until(lambda: batches(folder) >= 3, "three micro-batches", each=overload.send)
        pid = Address.read(queue).pid
        with ReceiverClient.of(queue) as receiver:
            began, before = time.monotonic(), receiver.status()
            memory: list[tuple[int, int]] = []
            stale: list[float] = []
            sent, taken = overload.accepted, 0
            while (passed := time.monotonic() - began) < seconds:
                if overload.accepted - sent <= LOAD * max(taken, 1_000):
                    overload.send()
                else:
                    job.tick()
                if passed >= len(memory):
                    status = receiver.status()
                    taken = status["taken"] - before["taken"]
                    workers = [worker.pid for worker in job.workers()]
                    memory.append((resident(pid), resident(*workers)))
                    stale.append(status["staleness_p99"])
            status = receiver.status()
            arrived = status["arrived"] - before["arrived"]
            assert arrived > 0.9 * LOAD * (status["taken"] - before["taken"]), (
                "this was no overload"
            )
            early = min(60, len(memory) // 3)
            for then, at_end in zip(
                about(memory[early - 5 : early + 5]), about(memory[-10:]), strict=True
            ):
                assert at_end < 1.1 * then, (then, at_end)
            assert about(stale[-10:]) < 2 * max(stale[: early + 1])
            done, waiting = batches(folder), status["waiting"]
            job.until(lambda: receiver.status()["waiting"] == 0, "everything is served")
            smallest = 1_000
            assert batches(folder) - done <= waiting / smallest + 3
    with start(folder, "--trigger", "available now") as job:  # the last micro-batch may be cut off
        assert job.end() == 0, job.said()
    overload.close()
    assert_newest_delivered(folder, overload)


def about(samples: Sequence[Any]) -> Any:
    """The median, of each column."""
    return np.median(np.array(samples), axis=0)


@pytest.mark.parametrize("kills", [1, 10])
def test_kills_in_the_middle_of_overload(folder: Path, kills: int) -> None:
    """kill -9 of the receiver and of Spark, in turn, at any moment."""
    queue, random = folder / "queue", Random(kills)
    overload = Overload(folder, keys=KEYS, rows=2_000)
    for _ in range(kills):
        with start(folder) as job:
            job.until(lambda: is_running(queue), "the receiver runs")
            goal = batches(folder) + 1 + random.randrange(3)
            job.until(
                lambda: batches(folder) >= goal,  # noqa: B023 - called before it changes
                "micro-batches",
                each=overload.send,
            )
            os.kill(Address.read(queue).pid, signal.SIGKILL)
            overload.send()
            settings = ReceiverSettings.read(queue)
            assert settings is not None
            ensure_receiver(queue, settings)
            goal = batches(folder) + 1
            job.until(
                lambda: batches(folder) >= goal,  # noqa: B023 - called before it changes
                "the query goes on",
                each=overload.send,
            )
            for _ in range(random.randrange(10)):
                job.tick()
                overload.send()
            job.kill()
    with start(folder, "--trigger", "available now") as job:
        assert job.end(limit=1800) == 0, job.said()
    overload.close()
    assert_newest_delivered(folder, overload)

"""A query over a receiver on Spark: overload, and kill -9 of either."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.spark.jobs.overload import Overload, assert_newest_delivered, delivered_batches
from tests.spark.jobs.processes import Job
from thalweg.cli import main
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_process import ensure_receiver, stop_receiver
from thalweg.freshness.receiver_settings import Address, ReceiverSettings

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).parent / "jobs" / "fresh.py"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    stop_receiver(tmp_path / "queue")


def start(folder: Path, *arguments: str) -> Job:
    return Job(sys.executable, str(JOB), str(folder), *arguments)


def batches(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def watch_once(checkpoint: Path) -> dict[str, Any]:
    shown = CliRunner().invoke(main, ["watch", str(checkpoint), "--json", "--count", "1"])
    assert shown.exit_code == 0, shown.output
    seen: dict[str, Any] = json.loads(shown.output)
    return seen


def test_overload_and_kill_9_of_receiver_and_spark(folder: Path) -> None:
    """A sender outruns the query. The receiver is killed and started again, then Spark. What the
    receiver acknowledged is delivered, newest value of each key last, nothing twice."""
    queue = folder / "queue"
    overload = Overload(folder)
    with start(folder) as job:
        job.until((queue / "address.json").exists, "the receiver listens")
        job.until(lambda: batches(folder) >= 2, "two micro-batches", each=overload.send)
        os.kill(Address.read(queue).pid, signal.SIGKILL)
        overload.send()
        settings = ReceiverSettings.read(queue)
        assert settings is not None
        ensure_receiver(queue, settings)
        before = batches(folder)
        job.until(lambda: batches(folder) >= before + 2, "the query goes on", each=overload.send)
        job.kill()
    for _ in range(10):
        overload.send()  # the receiver is there without Spark
    with ReceiverClient.of(queue) as receiver:
        status = receiver.status()
        assert status["waiting"] == 4_000
    with start(folder, "--trigger", "available now") as job:
        assert job.end() == 0, job.said()
    rows = assert_newest_delivered(folder, overload)
    sizes = [len(batch) for batch in delivered_batches(folder)]
    assert max(sizes) < 4_000, "a micro-batch gets what it can digest, not everything"
    with ReceiverClient.of(queue) as receiver:
        status = receiver.status()
    overload.close()
    seen = watch_once(folder / "checkpoint")
    assert seen["sources"]["quotes"]["queue"]["waiting"] == 0
    for key in seen["sources"]["quotes"]["keys"]:
        assert key["answer"]["price"] == overload.acknowledged[key["key"]]
        assert key["age"] > 0
        assert key["staleness"] == 0
    assert status["waiting"] == 0
    assert status["taken"] == rows
    assert status["arrived"] == status["taken"] + status["conflated"]
    assert overload.accepted <= status["arrived"] <= overload.offered
    assert status["open_cuts"] <= 1, "files go when Spark has committed"

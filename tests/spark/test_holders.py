"""Stateful tasks run in the process that ran their partition before. The test is the JVM: it starts
Spark's daemon and talks to the workers as `PythonWorkerFactory` does."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import SpecialLengths
from pyspark.util import PythonEvalType

from tests.spark.jobs.processes import ROOT
from tests.spark.jobs.sharing import ANSWER, BROADCAST, CRASH, FAIL, WAIT

pytestmark = pytest.mark.skipif(
    not (hasattr(os, "pidfd_open") and hasattr(socket, "SOCK_SEQPACKET")),
    reason="no holders on this system",
)

STATEFUL = PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF
STATELESS = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
LIMIT = 60


def number(value: int) -> bytes:
    return struct.pack("!i", value)


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


def first_message(query: str, partition: int, kind: int, broadcasts: int = 0) -> bytes:
    """What a task of Spark begins with."""
    context = {
        "isBarrier": False,
        "connInfo": None,
        "secret": None,
        "stageId": 1,
        "partitionId": partition,
        "attemptNumber": 0,
        "taskAttemptId": 1,
        "cpus": 1,
        "cpuAmount": "1",
        "resources": {},
        "localProperties": {"sql.streaming.queryId": query},
    }
    sent = b"".join(struct.pack("!q", -1 - each) for each in range(broadcasts))  # "no longer used"
    content = [
        number(partition),
        text("3.11"),
        text(json.dumps(context)),
        text("/files"),
        number(1),
        text("/more"),
        b"\0" + number(broadcasts) + sent,
        number(kind),
        b"the command" * 10_000,
    ]
    message = b"".join(content)
    return number(SpecialLengths.START_OF_INIT_MESSAGE) + number(len(message)) + message


class Worker:
    """The JVM's end of a worker."""

    def __init__(self, place: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT)
        self._socket.connect(place)
        self.process = self._number()

    def _number(self) -> int:
        data = self._socket.recv(4, socket.MSG_WAITALL)
        if len(data) < 4:
            raise EOFError
        found: int = struct.unpack("!i", data)[0]
        return found

    def begin(
        self,
        partition: int,
        what: int = ANSWER,
        *,
        kind: int = STATEFUL,
        broadcasts: int = 0,
        query: str = "q",
    ) -> int:
        """Give a task to the worker: which process runs it."""
        self._socket.sendall(first_message(query, partition, kind, broadcasts) + number(what))
        return self._number()

    def finish(self) -> None:
        """End a task. Another one without state follows, which the worker runs when it knows of the
        end, and so the dispatcher does too."""
        self.end()
        assert self.begin(0, kind=STATELESS) == self.process
        self.end()

    def end(self) -> None:
        self._socket.sendall(number(SpecialLengths.END_OF_STREAM))
        assert self._number() == SpecialLengths.END_OF_STREAM

    def run(self, partition: int, what: int = ANSWER, **others: Any) -> int:
        process = self.begin(partition, what, **others)
        self.finish()
        return process

    def go_on(self) -> None:
        """What a task waits for."""
        self._socket.sendall(number(0))

    def has_ended(self) -> bool:
        return self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()


class Daemon:
    """Spark's daemon, as the JVM starts it."""

    def __init__(self, folder: str, idle_s: float = 60.0) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        settings = {
            "PYTHONPATH": path,
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": folder,
            "PYTHON_FAULTHANDLER_DIR": folder,
            "SPARK_REUSE_WORKER": "1",
            "IDLE_S": str(idle_s),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.jobs.sharing", "pyspark.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | settings,
        )
        assert self.process.stdout is not None
        (length,) = struct.unpack("!i", self.process.stdout.read(4))
        self._place = self.process.stdout.read(length).decode()
        self._workers: list[Worker] = []

    def worker(self) -> Worker:
        self._workers.append(Worker(self._place))
        return self._workers[-1]

    def kill(self, process: int) -> None:
        """End a worker as the JVM does, through the daemon."""
        assert self.process.stdin is not None
        self.process.stdin.write(number(process))
        self.process.stdin.flush()

    def dispatcher(self) -> int:
        """The only child that is no worker."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        (found,) = set(map(int, children.split())) - {each.process for each in self._workers}
        return found

    def close(self) -> None:
        with self.process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(LIMIT)
        for worker in self._workers:
            worker.close()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with (
        tempfile.TemporaryDirectory(prefix="tw-") as folder,  # short: it names a socket
        contextlib.closing(Daemon(folder)) as started,
    ):
        yield started


@contextlib.contextmanager
def ending(process: int) -> Iterator[None]:
    """Wait afterwards until a process has ended."""
    handle = os.pidfd_open(process)
    try:
        yield
        assert select.select([handle], [], [], LIMIT)[0] == [handle]
    finally:
        os.close(handle)


def test_a_partition_keeps_its_process_whichever_worker_is_asked(daemon: Daemon) -> None:
    first, second = daemon.worker(), daemon.worker()
    ran = {partition: first.run(partition) for partition in range(3)}
    assert {partition: second.run(partition) for partition in range(3)} == ran
    assert {partition: first.run(partition) for partition in range(3)} == ran
    assert not set(ran.values()) & {first.process, second.process}


def test_partitions_are_spread_over_as_many_holders_as_cores(daemon: Daemon) -> None:
    worker, cores = daemon.worker(), os.cpu_count() or 1
    ran = [worker.run(partition) for partition in range(2 * cores)]
    assert sorted(ran.count(process) for process in set(ran)) == [2] * cores


def test_tasks_without_state_run_in_the_worker(daemon: Daemon) -> None:
    worker = daemon.worker()
    assert worker.run(0, kind=STATELESS) == worker.process


def test_tasks_with_broadcasts_run_in_the_worker_that_spark_sent_them_to(daemon: Daemon) -> None:
    worker = daemon.worker()
    assert worker.run(0) != worker.process
    assert worker.run(0, broadcasts=2) == worker.process
    assert worker.run(0, what=BROADCAST, broadcasts=1) == worker.process
    assert worker.run(0) == worker.process, "Spark has sent them already and does not again"
    assert daemon.worker().run(0) != worker.process


def test_a_task_whose_holder_is_busy_runs_in_the_worker(daemon: Daemon) -> None:
    slow, other = daemon.worker(), daemon.worker()
    holder = slow.begin(0, WAIT)
    assert other.run(0) == other.process
    slow.go_on()
    slow.finish()
    assert other.run(0) == holder


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one holder")
def test_a_partition_of_another_query_has_another_holder(daemon: Daemon) -> None:
    worker, other = daemon.worker(), daemon.worker()
    holder = worker.run(0)
    second = worker.begin(0, WAIT, query="other")
    assert second not in (worker.process, holder)
    assert other.run(0) == holder, "which is idle"
    worker.go_on()
    worker.finish()


def test_a_worker_ends_with_the_holder_that_runs_its_task(daemon: Daemon) -> None:
    worker, other = daemon.worker(), daemon.worker()
    holder = worker.begin(0, CRASH)
    assert worker.has_ended()
    assert other.run(0) not in (holder, other.process)


def test_a_failed_task_ends_its_holder_and_its_worker(daemon: Daemon) -> None:
    worker, other = daemon.worker(), daemon.worker()
    with ending(worker.process), ending(worker.begin(0, FAIL)):
        worker.close()  # as the JVM does when it has read the error
    assert other.run(0) != other.process


def test_a_holder_ends_with_the_worker_whose_task_it_runs(daemon: Daemon) -> None:
    worker, other = daemon.worker(), daemon.worker()
    holder = worker.begin(0, WAIT)
    with ending(holder):
        daemon.kill(worker.process)
    assert worker.has_ended()
    assert other.run(0) not in (holder, other.process)


def test_an_idle_holder_outlives_workers(daemon: Daemon) -> None:
    worker = daemon.worker()
    holder = worker.run(0)
    with ending(worker.process):
        daemon.kill(worker.process)
    assert daemon.worker().run(0) == holder


def test_without_a_dispatcher_workers_run_their_tasks(daemon: Daemon) -> None:
    worker = daemon.worker()
    assert worker.run(0) != worker.process
    with ending(daemon.dispatcher()):
        os.kill(daemon.dispatcher(), signal.SIGKILL)
    assert worker.run(0) == worker.process
    assert daemon.worker().run(1) > 0


def test_a_task_outlives_the_dispatcher(daemon: Daemon) -> None:
    worker = daemon.worker()
    with ending(worker.begin(0, WAIT)), ending(worker.process):
        with ending(daemon.dispatcher()):
            os.kill(daemon.dispatcher(), signal.SIGKILL)
        worker.go_on()
        worker.end()


def test_a_holder_without_tasks_ends() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="tw-") as folder,
        contextlib.closing(Daemon(folder, idle_s=0.01)) as daemon,
    ):
        worker = daemon.worker()
        with ending(worker.begin(0, WAIT)):
            worker.go_on()
            worker.finish()
        assert worker.run(0) != worker.process, "which has another holder now"


def test_nothing_is_left_when_the_daemon_ends(daemon: Daemon) -> None:
    idle, busy = daemon.worker(), daemon.worker()
    with ending(idle.run(0)), ending(busy.begin(1, WAIT)), ending(daemon.dispatcher()):
        daemon.close()


def test_nothing_is_left_when_the_daemon_is_killed(daemon: Daemon) -> None:
    worker = daemon.worker()
    with ending(worker.run(0)), ending(daemon.dispatcher()):
        daemon.process.kill()
        worker.close()

"""Hands stateful tasks from Spark's workers on to the processes that hold their state.

A *holder* runs the tasks of some partitions, one at a time, as a worker of Spark's would; the
*dispatcher* forks holders, keeps which of them ran a partition last, and ends a holder whose worker
was killed (see `holders`). A worker sends a request: its process id and the name of the partition,
with the task's connection to the JVM and a socket of its own. That socket says how the task
has ended, or that the holder is busy; where the holder has died, the socket is closed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import selectors
import signal
import socket
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pyspark.daemon

__all__ = ["BUSY", "dispatch"]

BUSY = b"busy"
_CODE = len(BUSY)
"""Bytes of the exit code that says how a task has ended."""
_LONGEST = 1 << 10
"""Bytes of a request."""
_IDLE_S = 60.0
"""A holder without tasks ends after this time, as Spark's idle workers do."""
_PARTITIONS = 1 << 12
"""So many partitions are remembered, the newest."""


@dataclass(eq=False)
class _Holder:
    process: int
    channel: socket.socket
    worker: socket.socket | None = None
    """Of the task that it runs."""
    since: float = 0.0
    """When its last task ended."""


class _Dispatcher:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._events = selectors.DefaultSelector()
        self._events.register(requests, selectors.EVENT_READ)
        self._most = os.cpu_count() or 1
        self._holders: list[_Holder] = []
        self._runs: dict[str, _Holder] = {}
        """By partition of a query: the holder that runs its tasks."""

    def serve(self) -> None:
        """Hand tasks on until no process is left that could send a request."""
        while True:
            for key, _ in self._events.select(_IDLE_S):
                holder = key.data
                if holder is None:
                    if not self._take_request():
                        return
                elif holder not in self._holders:
                    continue  # ended by an event before this one
                elif key.fileobj is holder.channel:
                    self._end_task(holder)
                elif key.fileobj is holder.worker:  # it was killed, or its connection was closed
                    self._end(holder)
            for holder in list(self._holders):
                if holder.worker is None and time.monotonic() - holder.since > _IDLE_S:
                    self._end(holder)

    def _take_request(self) -> bool:
        """Hand a task on to its holder; False: no request will come any more."""
        request, files, _, _ = socket.recv_fds(self._requests, _LONGEST, 2)
        if not request:
            return False
        connection, worker = (socket.socket(fileno=file) for file in files)
        process, task = request.decode().split(" ", 1)
        with connection:
            holder = self._holder_of(task)
            if holder.worker is not None:
                _report_end(worker, BUSY)
                return True
            holder.worker = worker
            self._events.register(worker, selectors.EVENT_READ, holder)
            try:
                socket.send_fds(holder.channel, [process.encode()], [connection.fileno()])
            except OSError:
                self._end(holder)
        return True

    def _holder_of(self, task: str) -> _Holder:
        """The holder that ran the partition last; for a new one a new holder, or that with the
        fewest partitions."""
        holder = self._runs.pop(task, None)
        if holder is None and len(self._holders) < self._most:
            holder = self._fork()
        if holder is None:
            busy = list(self._runs.values())
            holder = min(self._holders, key=busy.count)
        self._runs[task] = holder  # the newest last
        while len(self._runs) > _PARTITIONS:
            del self._runs[next(iter(self._runs))]
        return holder

    def _fork(self) -> _Holder:
        channel, its = socket.socketpair()
        process = os.fork()
        if process == 0:
            self._close()
            channel.close()
            _hold(its)
        its.close()
        holder = _Holder(process, channel, since=time.monotonic())
        self._holders.append(holder)
        self._events.register(channel, selectors.EVENT_READ, holder)
        return holder

    def _close(self) -> None:
        """Close what is the dispatcher's, in a process that was forked from it."""
        self._events.close()
        self._requests.close()
        for holder in self._holders:
            holder.channel.close()
            if holder.worker is not None:
                holder.worker.close()

    def _end_task(self, holder: _Holder) -> None:
        try:
            ended = holder.channel.recv(_CODE)
        except OSError:
            ended = b""
        if not ended or holder.worker is None:
            self._end(holder)
            return
        self._events.unregister(holder.worker)
        _report_end(holder.worker, ended)
        holder.worker, holder.since = None, time.monotonic()

    def _end(self, holder: _Holder) -> None:
        """End a holder, and with it the worker whose task it runs."""
        os.kill(holder.process, signal.SIGKILL)  # not waited for yet: the id is still its own
        os.waitpid(holder.process, 0)
        self._holders.remove(holder)
        self._runs = {task: other for task, other in self._runs.items() if other is not holder}
        for end in filter(None, (holder.channel, holder.worker)):
            self._events.unregister(end)
            end.close()


def _report_end(worker: socket.socket, ended: bytes) -> None:
    with worker, contextlib.suppress(OSError):
        worker.sendall(ended)


def dispatch(requests: socket.socket) -> NoReturn:
    """Serve requests until every process that could send one has ended."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)  # the daemon's is a pipe from the JVM
        _Dispatcher(requests).serve()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


# ------------------------------------------------------------------------------------------------
# in a holder


def _hold(channel: socket.socket) -> NoReturn:
    """Run tasks until one fails or the dispatcher has ended."""
    code = 0
    try:
        while not code:
            process, files, _, _ = socket.recv_fds(channel, _LONGEST, 1)
            if not process:
                break
            with socket.socket(fileno=files[0]) as connection, _crashes_of(process.decode()):
                code = pyspark.daemon.worker(connection, authenticated=True)
            channel.sendall(code.to_bytes(_CODE, "big", signed=True))
            gc.collect()  # as Spark does in a worker
    except BaseException:
        code = 1
        traceback.print_exc()
    finally:
        os._exit(code)


@contextlib.contextmanager
def _crashes_of(process: str) -> Iterator[None]:
    """Write where this process crashes into the file in which Spark looks for it: that of the
    worker."""
    folder = os.environ.get("PYTHON_FAULTHANDLER_DIR")
    if folder is None:
        yield
        return
    with Path(folder, process).open("w") as file:
        faulthandler.enable(file)
        try:
            yield
        finally:
            faulthandler.disable()

"""Tasks of the stateful stage run in the process that remembers the state of their partition.

Spark hands a task to the Python worker that was idle longest. That worker remembers an older state
of the partition or none, so it would read what has changed from the store and build the operators
anew. Instead it passes the task's open connection to the JVM on:

    worker       hands the connection of a stateful task over, and waits until the task has ended
    dispatcher   keeps which holder ran which partition last, forks holders and ends them
    holder       runs the tasks of some partitions, one at a time, as a worker would

Which process runs a task changes no answer: what a holder remembers is used only where the store
has the same version of the state (`shards.state.slices`). A worker whose holder died ends too, and
a holder whose worker was killed is ended, so that Spark sees what it would see without holders and
runs the task again. A task whose holder is busy (a second attempt, another query) runs in the
worker itself, and so do all tasks where the dispatcher is gone or cannot be started.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
from collections.abc import Callable
from typing import Any, BinaryIO

import pyspark.serializers
import pyspark.worker
from pyspark.core.broadcast import _broadcastRegistry
from pyspark.serializers import SpecialLengths
from pyspark.util import PythonEvalType
from pyspark.worker_message import BroadcastInfo, TaskContextInfo

from thalweg.spark.processes.dispatcher import BUSY, dispatch

__all__ = ["share_holders", "stateful_task"]

_PEEKED = 1 << 16
"""Bytes of a task's first message that are looked at; what matters is at its beginning."""

Main = Callable[[BinaryIO, BinaryIO], None]
_read_int: Callable[[BinaryIO], int] = pyspark.serializers.read_int
_read_text: Callable[[BinaryIO], str]
_read_text = pyspark.serializers.UTF8Deserializer().loads  # type: ignore[no-untyped-call]


def share_holders() -> None:
    """Let the workers that are forked from this process share a dispatcher and its holders."""
    if not hasattr(socket, "SOCK_SEQPACKET") or not hasattr(socket, "send_fds"):
        return
    with contextlib.suppress(OSError):  # without a dispatcher workers run all tasks
        requests, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            requests.close()
            dispatch(asked)
        asked.close()
        run_here: Main = pyspark.worker.main
        pyspark.worker.main = _handing_over(requests, run_here)


def _handing_over(requests: socket.socket, run_here: Main) -> Main:
    """`pyspark.worker.main` for a worker that shares holders."""

    def main(infile: BinaryIO, outfile: BinaryIO) -> None:
        connection = infile.fileno()
        task = stateful_task(connection)
        ended = BUSY if task is None else _hand_over(requests, task, connection)
        if ended == BUSY:
            run_here(infile, outfile)
        elif not ended:  # the holder has died, and so must what Spark takes for it
            os._exit(1)
        elif code := int.from_bytes(ended, "big", signed=True):
            raise SystemExit(code)

    return main


def stateful_task(connection: int) -> str | None:
    """The query and the partition of the task that waits in a connection, which stays unread; None:
    it keeps no state, or only this process can run it."""
    with socket.socket(fileno=os.dup(connection)) as waiting:
        if waiting.family != socket.AF_UNIX:  # others have begun to read what they authenticate
            return None
        try:
            return _query_and_partition(io.BytesIO(waiting.recv(_PEEKED, socket.MSG_PEEK)))
        except (EOFError, ValueError, LookupError, TypeError, AttributeError):
            return None  # not the messages of this version of Spark


def _query_and_partition(message: BinaryIO) -> str | None:
    if _read_int(message) != SpecialLengths.START_OF_INIT_MESSAGE:
        return None
    _length, partition, _python = _read_int(message), _read_int(message), _read_text(message)
    task: Any = TaskContextInfo.from_stream(message)  # type: ignore[arg-type]
    _folder = _read_text(message)
    for _ in range(_read_int(message)):
        _read_text(message)
    variables = BroadcastInfo.from_stream(message).variables
    if variables or _broadcastRegistry:  # Spark sends them to each worker once
        return None
    if _read_int(message) != PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF:
        return None
    return f"{task.local_properties['sql.streaming.queryId']} {partition}"


def _hand_over(requests: socket.socket, task: str, connection: int) -> bytes:
    """Let a holder run a task: how it ended, nothing when the holder has died."""
    waits, ending = socket.socketpair()
    with waits:
        request = f"{os.getpid()} {task}".encode()
        try:
            with ending:
                socket.send_fds(requests, [request], [connection, ending.fileno()])
        except OSError:
            return BUSY  # no dispatcher
        try:
            return waits.recv(len(BUSY))
        except OSError:
            return b""

"""The receiver as a process of its own: one for each folder, which outlives the process that
started it."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from thalweg.errors import ReceiverError, StateError
from thalweg.freshness.file_transport import FileTransport
from thalweg.freshness.http_transport import HttpTransport
from thalweg.freshness.receiver import Receiver
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_settings import Address, ReceiverSettings
from thalweg.freshness.tcp_transport import TcpTransport
from thalweg.io.locks import lock_file, unlock_file
from thalweg.progress.source_clock import wall_clock

__all__ = ["ensure_receiver", "is_running", "run_receiver", "stop_receiver"]

_START_S = 60.0
_STARTED: list[subprocess.Popen[bytes]] = []
"""Receivers that this process started; processes that have ended are reaped from time to time."""


def run_receiver(
    folder: Path,
    settings: ReceiverSettings,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    http_port: int | None = None,
    inbox: Path | None = None,
    listening: Callable[[Address], None] | None = None,
) -> None:
    """Serve until the process is ended; `listening` is called once rows are accepted."""
    if not lock_file(folder / "lock", patience_s=1.0):
        raise StateError(f"{folder.name}: another receiver holds this folder.")
    settings.write(folder)
    queue = settings.open_queue(folder)
    receiver = Receiver(queue, now=wall_clock)

    def announce(address: Address) -> None:
        address.write(folder)
        if listening is not None:
            listening(address)

    try:
        asyncio.run(_serve(receiver, _Endpoints(host, port, http_port, inbox), announce))
    finally:
        queue.close()
        unlock_file(folder / "lock")


@dataclass(frozen=True)
class _Endpoints:
    """Where rows come from: a TCP port, and optionally an HTTP port and a folder of files."""

    host: str
    port: int
    http_port: int | None
    inbox: Path | None


async def _serve(
    receiver: Receiver, endpoints: _Endpoints, announce: Callable[[Address], None]
) -> None:
    """Run the transports until SIGTERM or SIGINT."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    files = None
    if endpoints.inbox is not None:  # first: a file that was half taken precedes new rows
        files = await FileTransport(receiver, endpoints.inbox).start()
    server = await TcpTransport(receiver, endpoints.host, endpoints.port).start()
    host, port = server.sockets[0].getsockname()[:2]
    web = None
    if endpoints.http_port is not None:
        web = HttpTransport(receiver, endpoints.host, endpoints.http_port).start(loop)
    web_port = None if web is None else web.server_address[1]
    announce(Address(host, port, os.getpid(), receiver.queue.identity, web_port))
    await ended.wait()
    server.close()
    if web is not None:
        web.shutdown()
    if files is not None:
        files.cancel()


def ensure_receiver(folder: Path, settings: ReceiverSettings) -> Address:
    """The receiver of this folder, which must have these settings; a new process if none runs."""
    saved_settings = ReceiverSettings.read(folder)
    running = _answers(folder)
    if saved_settings is not None:
        settings.require_same(saved_settings, folder, running=running)
    if not running:
        settings.write(folder)
        _start(folder)
    return Address.read(folder)


def _answers(folder: Path) -> bool:
    """Whether a receiver holds the folder and answers. Retried until then, because a killed
    receiver may hold the lock for a moment, and one that is starting does not listen yet."""
    deadline = time.monotonic() + _START_S
    while is_running(folder):
        try:
            with ReceiverClient.of(folder, timeout_s=_START_S) as receiver:
                receiver.status()
        except ReceiverError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return True
    return False


def is_running(folder: Path) -> bool:
    """Whether a process holds the folder's lock."""
    if not (folder / "lock").exists():
        return False
    if lock_file(folder / "lock"):
        unlock_file(folder / "lock")
        return False
    return True


def _start(folder: Path) -> None:
    """Start a receiver in a session of its own, and wait until it listens."""
    _reap()
    command = [sys.executable, "-m", "thalweg.cli", "receive", str(folder)]
    with (folder / "receiver.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    _STARTED.append(process)
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], _START_S)
    line = process.stdout.readline() if ready else b""
    process.stdout.close()
    if not line.startswith(b"listening"):
        raise StateError(f"{folder.name}: the receiver did not start; see receiver.log there.")


def stop_receiver(folder: str | Path) -> bool:
    """End the receiver of a folder; False if none runs. Its rows and cuts stay on disk."""
    folder = Path(folder)
    if not is_running(folder):
        return False
    os.kill(Address.read(folder).pid, signal.SIGTERM)
    if not lock_file(folder / "lock", patience_s=_START_S):
        raise StateError(f"{folder.name}: the receiver does not end.")
    unlock_file(folder / "lock")
    _reap()
    return True


def _reap() -> None:
    _STARTED[:] = [process for process in _STARTED if process.poll() is None]

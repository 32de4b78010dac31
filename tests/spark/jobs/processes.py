"""Driver scripts as processes: start them, look at everything they started, end all of it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Job", "Member", "assert_on_loopback", "driver"]

ROOT = Path(__file__).parents[3]
LONG = 300.0
"""Seconds after which a process that should have done something is given up."""
_TICK = 0.1
_LISTENS = "0A"


@dataclass(frozen=True)
class Member:
    """A process of a job."""

    pid: int
    parent: int
    command: str
    name: str
    """Of a process that was forked from one with everything imported: the end of its own
    command."""


def driver(
    *arguments: object,
    launcher: Sequence[str] = (sys.executable,),
    script: str = "live.py",
    **variables: str,
) -> Job:
    """A driver script, `live.py` or another, with these arguments."""
    return Job(*launcher, str(Path(__file__).with_name(script)), *map(str, arguments), **variables)


class Job:
    """A command and all processes that it starts: they share a session, which also those that leave
    its process group stay in."""

    def __init__(self, *command: str, **variables: str) -> None:
        self._scratch = tempfile.mkdtemp(
            prefix="tw-"
        )  # short: the path of a socket has little room
        self.log = Path(self._scratch) / "log"
        options = (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx1g -Djava.io.tmpdir={self._scratch}"
        )
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        own = {
            "PYTHONPATH": path,
            "TMPDIR": self._scratch,
            "SPARK_LOCAL_DIRS": self._scratch,
            "SPARK_SUBMIT_OPTS": options,
            "THALWEG_SPARK_LOG": "-",  # what workers say is in the log too
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **own, **variables},
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        if error is not None:
            error.add_note(f"The job said:\n{self.said()}")
        shutil.rmtree(self._scratch, ignore_errors=True)

    def said(self) -> str:
        return "\n".join(
            line for line in self.log.read_text(errors="replace").splitlines() if line.strip()
        )[-8000:]

    def members(self) -> list[Member]:
        """The processes that are alive."""
        return [
            member
            for member in map(_member, _processes())
            if member is not None and _session(member.pid) == self.process.pid
        ]

    def workers(self) -> list[Member]:
        """Python workers that run tasks: children of Spark's daemon."""
        daemons = [
            member
            for member in self.members()
            if member.name == "pyspark.worker" or "daemon pyspark.worker" in member.command
        ]
        return [member for member in daemons if member.parent in {other.pid for other in daemons}]

    def kill(self) -> None:
        """End everything at once, without a chance to clean up."""
        while True:
            members = self.members()
            for member in members:
                _send(member.pid, signal.SIGKILL)
            if not members:
                break
            self.tick()
        self.process.wait()

    def send(self, member: Member, number: signal.Signals) -> None:
        _send(member.pid, number)

    def terminate(self) -> None:
        """Ask the script itself to end, as a service manager does."""
        self.process.terminate()

    def tick(self, seconds: float = _TICK) -> bool:
        """Let time pass; whether the script has ended."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def until(
        self,
        holds: Callable[[], bool],
        what: str,
        *,
        limit: float = LONG,
        each: Callable[[], None] | None = None,
    ) -> None:
        """Wait for something to become true while the script runs."""
        for _ in range(int(limit / _TICK)):
            if holds():
                return
            assert not self.tick(), f"the job ended before {what}"
            if each is not None:
                each()
        raise AssertionError(f"given up: {what}")

    def end(self, *, limit: float = LONG) -> int:
        """Wait for the script to end; its exit code."""
        return self.process.wait(limit)

    def gone(self, *, limit: float = 60.0) -> bool:
        """Whether, in the end, no process is left."""
        for member in self.members():
            try:
                handle = os.pidfd_open(member.pid)
            except ProcessLookupError:
                continue
            try:
                select.select([handle], [], [], limit)
            finally:
                os.close(handle)
        return not self.members()

    def listening(self) -> list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
        """The TCP sockets on which some process of the job listens: address and port."""
        inodes = {inode for member in self.members() for inode in _sockets(member.pid)}
        found = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and fields[9] in inodes:
                    address, _, port = fields[1].partition(":")
                    found.append((_address(address), int(port, 16)))
        return found


def assert_on_loopback(*jobs: Job) -> None:
    """Nobody outside of this machine can talk to the jobs."""
    for job in jobs:
        open_to_all = [
            (str(address), port) for address, port in job.listening() if not address.is_loopback
        ]
        assert not open_to_all, open_to_all


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # state, parent, group, session, ...


def _session(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None else int(fields[3])


def _member(pid: int) -> Member | None:
    fields = _stat(pid)
    if fields is None or fields[0] in "ZX":
        return None
    try:
        command = (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None
    return Member(pid, int(fields[1]), command, name)


def _sockets(pid: int) -> list[str]:
    return [
        text.removeprefix("socket:[").removesuffix("]")
        for text in _open_files(pid)
        if text.startswith("socket:[")
    ]


def _open_files(pid: int) -> Iterator[str]:
    try:
        paths = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return
    for path in paths:
        with contextlib.suppress(OSError):  # closed in the meantime
            yield str(path.readlink())


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The kernel writes addresses as words in the byte order of the machine."""
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)

"""A disk that gets full under a checkpoint, and has room again."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.spark.jobs.streams import Arrivals, run
from thalweg.errors import ThalwegError

__all__ = ["Disk", "live_on_a_full_disk"]

_SIZE = 4 << 20


class Disk:
    """A folder that can be full: on a disk of its own where one may be mounted, else by not being
    writable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._mounted = not self._libc.mount(
            b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={_SIZE}".encode()
        )
        if not self._mounted and os.geteuid() == 0:
            pytest.skip(f"a small disk cannot be mounted: {os.strerror(ctypes.get_errno())}")
        self.complaint = "No space left on device" if self._mounted else "[Pp]ermission denied"

    def _folders(self) -> list[Path]:
        return [self.folder, *(path for path in self.folder.rglob("*") if path.is_dir())]

    def fill(self, room: int) -> None:
        """Leave `room` bytes."""
        if not self._mounted:
            for path in self._folders():
                path.chmod(0o500)
            return
        disk = os.statvfs(self.folder)
        (self.folder / "filler").write_bytes(bytes(max(disk.f_bavail * disk.f_frsize - room, 0)))

    def clear(self) -> None:
        if not self._mounted:
            self.folder.chmod(0o700)
            for path in self._folders():
                path.chmod(0o700)
        (self.folder / "filler").unlink(missing_ok=True)

    def remove(self) -> None:
        self.clear()
        if self._mounted:
            self._libc.umount2(bytes(self.folder), _DETACH)


_DETACH = 2


def live_on_a_full_disk(arrivals: Arrivals, disk: Disk, rooms: Iterable[int]) -> int:
    """Run a query into a disk with so many bytes left, free it, go on; how often the disk was too
    full."""
    arrivals.arrive("events", 2)
    run(arrivals.folder, finish=False)
    failures = 0
    for room in rooms:
        arrivals.arrive("events")
        disk.fill(room)
        try:
            run(arrivals.folder, finish=False)
        except ThalwegError as reason:
            if not re.search(disk.complaint, str(reason)):
                raise
            failures += 1
        disk.clear()
    arrivals.arrive_all()
    run(arrivals.folder)
    return failures

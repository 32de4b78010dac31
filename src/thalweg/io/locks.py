"""Locks on files: one process at a time, released by the system when the process ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

__all__ = ["lock_file", "unlock_file"]

_HELD: dict[str, int] = {}
"""By path: the descriptor that holds the lock of this process."""


def lock_file(path: Path, *, patience_s: float = 0.0) -> bool:
    """Whether this process holds the lock of a file now; it may hold it already."""
    name = str(path.absolute())
    if name in _HELD:
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    last = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= last:
                os.close(handle)
                return False
            time.sleep(0.05)
        else:
            _HELD[name] = handle
            return True


def unlock_file(path: Path) -> None:
    """Release a lock of this process, if it holds it."""
    handle = _HELD.pop(str(path.absolute()), None)
    if handle is not None:
        os.close(handle)

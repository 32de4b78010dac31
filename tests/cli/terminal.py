"""A command on a pseudo-terminal: what it wrote there, and after how long the first of it came."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Shown", "on_terminal", "plain"]

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Shown:
    """What a terminal received until the command ended."""

    text: str
    code: int
    first_s: float
    """Seconds until the first byte came."""


def plain(text: str) -> list[str]:
    """The lines that were written, without colours and movements of the cursor."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", _CODES.sub("", text)) if line.strip()]


def on_terminal(
    *args: str, rows: int = 50, columns: int = 110, folder: Path | None = None
) -> Shown:
    """Run `thalweg ARGS` where standard output and standard error are a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    hidden = ("NO_COLOR", "THALWEG_SPARK_LOG", "COLUMNS", "LINES", "CI", "FORCE_COLOR")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "thalweg", *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**environment, "TERM": "xterm-256color"},
        close_fds=True,
    )
    os.close(theirs)
    received = b""
    first = 0.0
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        first = first or time.monotonic() - began
        received += piece
    os.close(ours)
    return Shown(received.decode("utf-8", "replace"), process.wait(), first)

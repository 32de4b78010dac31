"""The picture of the demo: `python docs/screen.py` runs it on a pseudo-terminal and keeps its
screen as docs/pictures/demo.svg."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from pathlib import Path

PICTURE = Path(__file__).parent / "pictures" / "demo.svg"
SIZE = (40, 100)


def main() -> None:
    command = [sys.executable, "-m", "thalweg", "demo", *sys.argv[1:], "--picture", str(PICTURE)]
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        os.execv(sys.executable, command)
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # the command has ended
            break
        os.write(1, piece)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()

"""The file in which a source's files are noted, in the order in which they were found.

A line has the files that one look found, and a digest of all lines before it; now and then the
lines are put together into one. A last line that was cut off by a crash does not count: what it
names was not handed out.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from thalweg.errors import StateError
from thalweg.io.listing import Found
from thalweg.io.locks import lock_file
from thalweg.io.whole_files import write_whole

__all__ = ["FileJournal"]

_COMPACTED_LINES = 1_000


class FileJournal:
    def __init__(self, path: Path, *, patience_s: float) -> None:
        """`patience_s` is how long a lock of another process is waited for."""
        self._path = path
        self._patience_s = patience_s
        self._digest = ""
        self._lines = 0
        self._end = 0
        self.files: list[Found] = []
        """All files that are noted."""
        if path.exists():
            self._read()

    def append(self, found: list[Found]) -> None:
        """Note more files. They are on disk when this returns."""
        if not lock_file(self._path.with_suffix(".lock"), patience_s=self._patience_s):
            raise StateError(
                f"{self._path.name}: another query is running with this checkpoint. Stop it, or "
                "give this one a checkpoint of its own."
            )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line, self._digest = _line(found, self._digest)
        with self._path.open("r+b" if self._path.exists() else "wb") as file:
            file.seek(self._end)
            file.truncate()  # what a crash left of a line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._end += len(line)
        self._lines += 1
        self.files += found
        if self._lines > max(_COMPACTED_LINES, len(self.files) // 10):
            self._compact()

    def _compact(self) -> None:
        line, self._digest = _line(self.files, "")
        write_whole(self._path, line)
        self._end, self._lines = len(line), 1

    def _read(self) -> None:
        *lines, _ = self._path.read_bytes().split(b"\n")
        for number, line in enumerate(lines):
            entries = _entries(line, self._digest)
            if entries is None:
                raise StateError(
                    f"{self._path.name}, line {number}: the log of files was changed or is "
                    "damaged; restore the checkpoint."
                )
            found, self._digest = entries
            self.files += found
            self._end += len(line) + 1
        self._lines = len(lines)


def _line(found: Iterable[Found], before: str) -> tuple[bytes, str]:
    """A line, and its digest."""
    text = json.dumps([list(entry) for entry in found])
    digest = _chain(before, text)
    return f"{digest} {text}\n".encode(), digest


def _entries(line: bytes, before: str) -> tuple[list[Found], str] | None:
    """The files of a line, and its digest; None if it does not follow the one before."""
    digest, _, text = line.decode(errors="replace").partition(" ")
    if digest != _chain(before, text):
        return None
    return [Found(*entry) for entry in json.loads(text)], digest


def _chain(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()[:16]

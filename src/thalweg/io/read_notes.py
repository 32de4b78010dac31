"""Notes in a checkpoint of the files that are being read, so that a file that crashes the process
which reads it can be named."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["clear_read_notes", "files_being_read", "noted_while_read"]


def _folder(log: Path) -> Path:
    """The notes of a source, beside the log of its files."""
    return log.with_suffix(".reading")


@contextlib.contextmanager
def noted_while_read(log: Path, number: int, name: str) -> Iterator[None]:
    """Keep a note of a file for as long as it is read. A process that dies leaves it behind."""
    note = _folder(log) / str(number)
    with contextlib.suppress(OSError):  # a worker on another machine may not see the checkpoint
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(name, encoding="utf-8")
    yield
    with contextlib.suppress(OSError):
        note.unlink()


def clear_read_notes(log: Path) -> None:
    """Remove the notes of an earlier run."""
    shutil.rmtree(_folder(log), ignore_errors=True)


def files_being_read(checkpoint: Path) -> list[str]:
    """The files that workers were reading when they ended."""
    found: list[str] = []
    for note in sorted(checkpoint.glob("thalweg/*.reading/*")):
        with contextlib.suppress(OSError):
            found.append(note.read_text(encoding="utf-8"))
    return found

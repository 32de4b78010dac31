"""Notes that readers of a source's files leave in the checkpoint, beside the log of the files.

A file that is being read has a note, so that a file that crashes the process which reads it can be
named. A file that was repaired after the log had it has a note of what its reader found, so that it
is not taken for one that was replaced later.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from thalweg.io.listing import FilePlace, Found

__all__ = [
    "clear_read_notes",
    "files_being_read",
    "note_repair",
    "noted_while_read",
    "repair_noted",
]

_READING, _REPAIRED = ".reading", ".repaired"


@contextlib.contextmanager
def noted_while_read(log: Path, number: int, name: str) -> Iterator[None]:
    """Keep a note of a file for as long as it is read. A process that dies leaves it behind."""
    note = log.with_suffix(_READING) / str(number)
    _write(note, name)
    yield
    with contextlib.suppress(OSError):
        note.unlink()


def clear_read_notes(log: Path) -> None:
    """Remove the notes of the files that an earlier run was reading."""
    shutil.rmtree(log.with_suffix(_READING), ignore_errors=True)


def files_being_read(checkpoint: Path) -> list[str]:
    """The files that workers were reading when they ended."""
    found: list[str] = []
    for note in sorted(checkpoint.glob(f"thalweg/*{_READING}/*")):
        with contextlib.suppress(OSError):
            found.append(note.read_text(encoding="utf-8"))
    return found


def note_repair(log: Path, number: int, found: Found, place: FilePlace) -> None:
    """Leave a note where a file is not as the log has it, now that it is read."""
    info = place.files.get_file_info(place.path_of(found.name))
    changed = info.mtime_ns or 0
    if info.type != pa.fs.FileType.File or (info.size, changed) == (found.size, found.changed_ns):
        return
    _write(log.with_suffix(_REPAIRED) / str(number), json.dumps([info.size, changed]))


def repair_noted(log: Path, number: int) -> tuple[int, int] | None:
    """The size of a file and the time of its change, as its reader noted them."""
    try:
        note = log.with_suffix(_REPAIRED) / str(number)
        size, changed = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return size, changed


def _write(note: Path, text: str) -> None:
    with contextlib.suppress(OSError):  # a worker on another machine may not see the checkpoint
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text, encoding="utf-8")

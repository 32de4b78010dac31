"""Notes beside the log of a source's files: what the reader of a file found that was repaired after
the log had it, so that it is not taken for one that was replaced later."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pyarrow as pa

from thalweg.io.listing import FilePlace, Found

__all__ = ["note_repair", "repair_noted"]


def note_repair(log: Path, number: int, found: Found, place: FilePlace) -> None:
    """Leave a note where a file is not as the log has it, now that it is read."""
    info = place.files.get_file_info(place.path_of(found.name))
    changed = info.mtime_ns or 0
    if info.type != pa.fs.FileType.File or (info.size, changed) == (found.size, found.changed_ns):
        return
    note = _note(log, number)
    with contextlib.suppress(OSError):  # a worker on another machine may not see the checkpoint
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps([info.size, changed]), encoding="utf-8")


def repair_noted(log: Path, number: int) -> tuple[int, int] | None:
    """The size of a file and the time of its change, as its reader noted them."""
    try:
        size, changed = json.loads(_note(log, number).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return size, changed


def _note(log: Path, number: int) -> Path:
    return log.with_suffix(".repaired") / str(number)

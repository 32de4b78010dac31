"""A copy of the checkpoint of a query that runs, as of its last finished micro-batch.

A query that is started on the copy begins with the state of the first one instead of nothing: the
answers of a 24-hour window are there and whole in its first micro-batches (a jumpstart). The first
query goes on meanwhile. Files of a checkpoint are written once; what belongs to later micro-batches
is left out, and a file that Spark clears away during the copy belongs to earlier ones.

The element log that the query has written can be taken along. Its files never change, so that they
are linked, not copied, and the second query goes on with the log where the copy ends.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from thalweg.errors import StateError
from thalweg.io.element_log import batch_file
from thalweg.shards.checkpoint.record_lines import RecordLine, numbered_files, record_file
from thalweg.shards.output.kept_table import batch_of_table_file

__all__ = ["copy_checkpoint"]

_PASSED = {"lock", "reports.json"}
"""Files of the running driver, which are not copied."""


def copy_checkpoint(
    checkpoint: Path, to: Path, *, log: Path | None = None, log_to: Path | None = None
) -> int:
    """Copy a checkpoint, and link the element log in `log` to `log_to`; the number of the last
    micro-batch that is in the copy."""
    if (log is None) != (log_to is None):
        raise StateError("copy: log= and log_to= go together.")
    for place in (to, log_to):
        if place is not None and place.exists() and any(place.iterdir()):
            raise StateError(f"{place.name}: a copy needs an empty folder.")
    finished = max(numbered_files(checkpoint / "commits"), default=-1)
    if finished < 0:
        raise StateError(f"{checkpoint.name}: no micro-batch of this checkpoint is finished yet.")
    record = record_file(checkpoint)
    for path in sorted(checkpoint.rglob("*")):
        name = path.relative_to(checkpoint)
        if path.is_file() and _belongs(name, finished):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            if path == record:
                _copy_record(path, to / name, finished)
            else:
                _copy(path, to / name)
    if log is not None and log_to is not None:
        log_to.mkdir(parents=True, exist_ok=True)
        for number in range(finished + 1):
            batch_file(log_to, number).hardlink_to(batch_file(log, number))
    return finished


def _belongs(name: Path, finished: int) -> bool:
    """Whether a file is part of the query as it was after a micro-batch."""
    if name.parts[0] in ("offsets", "commits"):
        number = name.name.strip(".").removesuffix(".crc")
        return number.isdigit() and int(number) <= finished
    if name.parts[0] == "thalweg":
        batch = batch_of_table_file(name.name)
        if batch is not None:
            return batch <= finished
        return name.name not in _PASSED and ".reading" not in str(name) and ".tmp" not in name.name
    return ".tmp" not in name.name


def _copy_record(path: Path, to: Path, finished: int) -> None:
    """The lines of finished micro-batches. The query may be writing the next one."""
    texts = path.read_text(encoding="utf-8").splitlines()
    lines = ((text, RecordLine.of_text(text)) for text in texts)
    kept = (text for text, line in lines if line is not None and line.batch <= finished)
    to.write_text("".join(f"{text}\n" for text in kept), encoding="utf-8")


def _copy(path: Path, to: Path) -> None:
    try:
        shutil.copy2(path, to)
    except FileNotFoundError:  # cleared away meanwhile
        to.unlink(missing_ok=True)

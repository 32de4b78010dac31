"""A log of elements with their promises: one Arrow file a batch, in order of batch numbers.

A file holds the elements of one batch in the exchange form, and in its metadata all promises after
them, the number of the batch, the run that wrote it and a digest of the elements. It is written
under another name and renamed, so a reader sees all of it or nothing. A batch that is there is not
written again: somebody may have read it. A writer that has to make it again (after it was killed)
must make the same; another digest is refused, and so are a gap in the numbers and a file of another
run.

>>> import tempfile
>>> from thalweg.model.element_batches import batch_of, elements_of
>>> from thalweg.model.elements import Cti, Insert
>>> schema = pa.schema([("v", pa.int64())])
>>> with tempfile.TemporaryDirectory() as folder:
...     log = ElementLog(Path(folder), run="r1")
...     log.append(batch_of([Insert({"v": 1}, 0, 5)], schema, Cti(3)))
...     [batch] = ElementLogReader(Path(folder)).read()
...     print(*elements_of([batch]), sep=chr(10))
Insert(payload={'v': 1}, start=0, end=5)
Cti(time=3, scope=None)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from thalweg.errors import StateError
from thalweg.io.whole_files import write_whole
from thalweg.model.batch import Batch, one_batch
from thalweg.model.clocks import Clock
from thalweg.model.digests import digest_rows
from thalweg.model.progress import Progress
from thalweg.model.progress_text import progress_of_text, progress_text

__all__ = ["ElementLog", "ElementLogReader", "LogForm", "batch_file", "form_of_log"]

_SUFFIX = ".arrow"
_NO_ZONE = "none"
"""The clock of a log whose times are timestamps without a zone."""


def batch_file(folder: Path, number: int) -> Path:
    """The file of a batch of a log."""
    return folder / f"{number:012d}{_SUFFIX}"


def _digest(table: pa.Table, progress: str) -> str:
    """A digest of the rows of a batch and its promises, however Arrow has laid them out."""
    rows = one_batch(table, "a log of elements")
    digests = digest_rows(rows.columns, rows.num_rows)
    content = digests.high.tobytes() + digests.low.tobytes() + progress.encode()
    return hashlib.sha256(content).hexdigest()


class ElementLog:
    """The writer of a log. It continues after the last batch in the folder."""

    def __init__(self, folder: Path, run: str, clock: Clock = None) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            raise StateError(
                f"{folder}: no log can be kept there: {reason.strerror or reason}. Give a folder "
                "that can be written."
            ) from reason
        self.folder, self.run, self.clock = folder, run, clock
        numbers = sorted(int(path.stem) for path in folder.glob(f"[0-9]*{_SUFFIX}"))
        if numbers != list(range(len(numbers))):
            raise StateError(f"{folder}: batch {_first_gap(numbers)} is missing from the log.")
        self.next = len(numbers)
        if numbers:
            _open(folder, numbers[-1], run)

    def append(self, batch: Batch) -> None:
        """The next batch."""
        self.write(self.next, batch)

    def write(self, number: int, batch: Batch) -> None:
        """Write a batch under its number; one that exists already must be the same."""
        progress = _canonical_text(batch.progress)
        table = batch.to_table()
        digest = _digest(table, progress)
        if number < self.next:
            _, there = _open(self.folder, number, self.run)
            if there["digest"] != digest:
                raise StateError(
                    f"{batch_file(self.folder, number)}: batch {number} was made again and "
                    "differs. What wrote the log must be a function of its logged input."
                )
            return
        if number > self.next:
            raise StateError(f"{self.folder}: batch {self.next} must come before batch {number}.")
        metadata = {"batch": str(number), "run": self.run, "digest": digest, "progress": progress}
        if self.clock is not None:
            metadata["clock"] = self.clock.tz or _NO_ZONE
        sink = pa.BufferOutputStream()
        marked = table.replace_schema_metadata(metadata)
        with pa.ipc.new_file(sink, marked.schema) as writer:
            writer.write_table(marked)
        write_whole(batch_file(self.folder, number), sink.getvalue().to_pybytes())
        self.next += 1


@dataclass(frozen=True, slots=True)
class LogForm:
    """The columns and the clock of the rows of a log."""

    schema: pa.Schema
    clock: Clock


def form_of_log(folder: Path) -> LogForm:
    """The columns and the clock of a log, from its first batch."""
    if not batch_file(folder, 0).exists():
        raise StateError(
            f"{folder}: there is no batch 0 of a log of elements yet, so its columns are not known."
            " Give them (columns=), or start what writes the log first."
        )
    table, metadata = _open(folder, 0, None)
    zone = metadata.get("clock")
    clock = None if zone is None else pa.timestamp("us", None if zone == _NO_ZONE else zone)
    return LogForm(Batch.from_table(table.replace_schema_metadata(None)).schema, clock)


class ElementLogReader:
    """Reads a log from a position on; `position` is the number of the next batch."""

    def __init__(self, folder: Path, position: int = 0, run: str | None = None) -> None:
        self.folder, self.position, self.run = folder, position, run

    def available(self) -> int:
        """The batches from the position on that have been written, up to the first gap."""
        numbers = sorted(
            number
            for number in (int(path.stem) for path in self.folder.glob(f"[0-9]*{_SUFFIX}"))
            if number >= self.position
        )
        if numbers != list(range(self.position, self.position + len(numbers))):
            missing = self.position + _first_gap([n - self.position for n in numbers])
            raise StateError(f"{self.folder}: batch {missing} is missing from the log.")
        return len(numbers)

    def read(self, most: int | None = None) -> Iterator[Batch]:
        """The next batches, as far as there are any."""
        count = self.available() if most is None else min(most, self.available())
        for _ in range(count):
            yield self.take()

    def take(self) -> Batch:
        """The batch at the position."""
        table, metadata = _open(self.folder, self.position, self.run)
        progress = metadata["progress"]
        if _digest(table, progress) != metadata["digest"]:
            raise StateError(f"{batch_file(self.folder, self.position)}: its digest is wrong.")
        self.run = metadata["run"]
        self.position += 1
        where = str(batch_file(self.folder, self.position - 1))
        return Batch.from_table(
            table.replace_schema_metadata(None), progress_of_text(progress), where=where
        )


def _canonical_text(progress: Progress) -> str:
    """Promises as text, those for groups in one order."""
    scoped = dict(sorted(progress.scoped.items(), key=lambda entry: repr(entry[0])))
    return progress_text(replace(progress, scoped=scoped))


def _open(folder: Path, number: int, run: str | None) -> tuple[pa.Table, dict[str, str]]:
    path = batch_file(folder, number)
    try:
        with pa.ipc.open_file(path) as reader:
            table = reader.read_all()
    except (OSError, pa.ArrowInvalid) as reason:
        raise StateError(f"{path}: this file of a log cannot be read: {reason}.") from reason
    raw = table.schema.metadata or {}
    metadata = {name.decode(): value.decode() for name, value in raw.items()}
    if not {"batch", "run", "digest", "progress"} <= metadata.keys():
        raise StateError(f"{path}: this is no file of a log of elements.")
    if metadata["batch"] != str(number):
        raise StateError(f"{path}: it says that it is batch {metadata['batch']}.")
    if run is not None and metadata["run"] != run:
        raise StateError(
            f"{path}: it is of the run {metadata['run']!r}; the log before it is of {run!r}. "
            "A new run writes a log of its own."
        )
    return table, metadata


def _first_gap(numbers: list[int]) -> int:
    return next((at for at, number in enumerate(numbers) if at != number), len(numbers))

"""Which files each micro-batch reads: the part of a file source that Spark asks in a process of its
own, for as long as the query runs. It imports nothing of what reads rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles

from thalweg.errors import StateError
from thalweg.io.file_log import FileLog
from thalweg.io.listing import FilePlace, Found
from thalweg.io.unwanted import FileTimes, Unwanted
from thalweg.model.time import MIN_TIME
from thalweg.spark.sources.offsets import Offset, Part, TypedOffsets

__all__ = ["FileOffsets", "FilePart"]

_BYTES_OF_TASK = 1_000_000
"""A task that reads less takes longer to start and end than to read."""
_BYTES_OF_FILE = 100_000
"""What opening a file costs, in bytes that are read in that time."""


@dataclass
class FilePart(Part):
    """What one task reads."""

    entries: list[tuple[int, Found]]
    """The files, with their numbers."""
    end: bool = False
    unwanted: int = MIN_TIME
    """Rows that end before this are left out."""


@dataclass(frozen=True)
class FileOffset(Offset):
    n: int
    """How many files were handed out."""
    ended: int
    """1 where no file follows, else 0."""
    unwanted: int | None = None
    """Where a reader reports which rows it no longer needs: rows that end before this time were
    left out, so that a micro-batch that runs again leaves out the same."""

    @property
    def left_out_before(self) -> int:
        return MIN_TIME if self.unwanted is None else self.unwanted


@dataclass
class FileOffsets(TypedOffsets[FileOffset]):
    """The files of a folder, in the order of their log. `finish` says that what is there when the
    query starts is all there is."""

    where: str
    """The source, for messages."""
    folder: str
    format: str
    log: str
    settle_us: int
    files_per_batch: int | None
    tasks: int
    finish: bool
    unwanted: Unwanted | None = None
    """Where it is written which rows are not wanted any more."""
    times: FileTimes | None = None
    """By these, files are unwanted."""

    def __post_init__(self) -> None:
        self._log: FileLog | None = None
        self._vouched = 0
        self._target: int | None = None

    def _files(self) -> FileLog:
        if self._log is None:
            place = FilePlace(self.folder)
            self._log = FileLog(place, self.format, Path(self.log), self.settle_us)
            self._vouched = len(self._log.files)
        return self._log

    def _refuse_unknown(self, start: int, end: int) -> None:
        """Offsets are of files that were in the log when it was opened, or were handed out since.
        Others found now may stand elsewhere."""
        if not start <= end <= self._vouched:
            raise StateError(
                f"{self.where}: the checkpoint asks for files {start} to {end}, the log knew "
                f"{self._vouched}. The checkpoint's offsets were changed or do not belong to it; "
                "restore the whole checkpoint."
            )

    offset_type = FileOffset

    def initial(self) -> FileOffset:
        return FileOffset(0, 0)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.files_per_batch
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._files().look_at_all()

    def latest(self, start: FileOffset, limit: ReadLimit) -> FileOffset:
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        log = self._files()
        self._refuse_unknown(start.n, start.n)
        if self._target is None:
            end = log.look(most, since=start.n)
        else:  # what came since is for the next run
            log.judge(start.n)
            end = self._target if most is None else min(self._target, start.n + most)
        end = max(end, start.n)
        unwanted = start.unwanted
        if self.unwanted is not None and end > start.n:
            before = self.unwanted.before(start.left_out_before)
            end = self._beyond_unwanted(start.n, end, before)
            unwanted = before if before > MIN_TIME else unwanted
        self._vouched = max(self._vouched, end)
        ends = self.finish and self._target is not None and end >= self._target
        return FileOffset(end, 1 if ends or start.ended else 0, unwanted)

    def _beyond_unwanted(self, first: int, end: int, unwanted: int) -> int:
        """The end of a micro-batch, in which unwanted files do not count towards the limit: they
        cost next to nothing."""
        if unwanted <= MIN_TIME or self.files_per_batch is None:
            return end
        log, left = self._files(), self.files_per_batch
        last = len(log.files) if self._target is None else self._target
        for at in range(first, last):
            name = log.files[at].name
            if self.times and self.times.newest_if_unwanted(log.place, name, unwanted) is not None:
                continue
            if not left:
                return max(end, at)
            left -= 1
        return last

    def parts(self, start: FileOffset, end: FileOffset) -> list[InputPartition]:
        log = self._files()
        self._refuse_unknown(start.n, end.n)
        entries = list(enumerate(log.files[start.n : end.n], start.n))
        tasks = self._useful_tasks([found for _, found in entries])
        parts: list[InputPartition] = [
            FilePart(entries[i::tasks], unwanted=end.left_out_before)
            for i in range(tasks)
            if entries[i::tasks]
        ]
        if end.ended > start.ended:
            parts.append(FilePart([(end.n, Found("", 0, 0))], end=True))
        return parts

    def _useful_tasks(self, files: list[Found]) -> int:
        """How many tasks to divide files into: none so small that it is not worth its while."""
        weight = sum(max(found.size, _BYTES_OF_FILE) for found in files)
        return max(1, min(self.tasks, len(files), -(-weight // _BYTES_OF_TASK)))

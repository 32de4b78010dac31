"""Which files each micro-batch reads: the part of a file source that Spark asks in a process of its
own, for as long as the query runs. It imports nothing of what reads rows.

Offsets are {"n": files handed out, "ended": 0 or 1}.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles

from thalweg.errors import StateError
from thalweg.io.file_log import FileLog
from thalweg.io.listing import FilePlace, Found

__all__ = ["FileOffsets", "FilePart"]


@dataclass
class FilePart(InputPartition):
    """What one task reads."""

    entries: list[tuple[int, Found]]
    """The files, with their numbers."""
    end: bool = False

    def __post_init__(self) -> None:
        super().__init__(None)


@dataclass
class FileOffsets:
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

    def __post_init__(self) -> None:
        self._log: FileLog | None = None
        self._vouched = 0
        self._target: int | None = None

    def open(self) -> FileLog:
        """The log as it is now."""
        return FileLog(FilePlace(self.folder), self.format, Path(self.log), self.settle_us)

    def _files(self) -> FileLog:
        if self._log is None:
            self._log = self.open()
            self._vouched = len(self._log.files)
        return self._log

    def _refuse_unknown(self, start: int, end: int) -> None:
        """Offsets are of files that were in the log when it was opened, or were handed out since.
        Others found now may stand elsewhere."""
        if not start <= end <= self._vouched:
            raise StateError(
                f"{self.where}: the checkpoint asks for files {start} to {end}, the log knew {self._vouched}. "
                "The checkpoint's offsets were changed or do not belong to it; restore the whole checkpoint."
            )

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0, "ended": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.files_per_batch
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._files().look_at_all()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        log = self._files()
        self._refuse_unknown(start["n"], start["n"])
        if self._target is None:
            known = log.look(most, since=start["n"])
        else:  # what came since is for the next run
            log.judge(start["n"])
            known = self._target if most is None else min(self._target, start["n"] + most)
        known = max(known, start["n"])
        self._vouched = max(self._vouched, known)
        ends = self.finish and self._target is not None and known >= self._target
        return {"n": known, "ended": 1 if ends or start["ended"] else 0}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        log = self._files()
        self._refuse_unknown(start["n"], end["n"])
        entries = list(enumerate(log.files[start["n"] : end["n"]], start["n"]))
        tasks = max(1, min(self.tasks, len(entries)))
        parts: list[InputPartition] = [
            FilePart(entries[i::tasks]) for i in range(tasks) if entries[i::tasks]
        ]
        if end["ended"] > start["ended"]:
            parts.append(FilePart([(end["n"], Found("", 0, 0))], end=True))
        return parts

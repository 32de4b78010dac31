"""Rows as files: the rows of a file in a folder are taken, and the file is removed once they are on
the receiver's disk.

Files are Arrow streams (`.arrow`) and JSON lines (`.jsonl`), taken in the order of their names; a
sender writes under another suffix and renames. A refused file is renamed to end in `.refused`, and
counted. The queue's log records the file with its rows, so that a file is not taken twice after a
crash, and an older value never comes again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from thalweg.freshness.receiver import Receiver
from thalweg.freshness.refusals import RefusalError, require_size
from thalweg.freshness.row_formats import ROW_FORMATS

__all__ = ["FileTransport"]

_FORMATS = {each.suffix: each for each in ROW_FORMATS}


@dataclass
class FileTransport:
    receiver: Receiver
    folder: Path
    every_s: float = 0.2
    max_file: int = 64 * 2**20

    async def start(self) -> asyncio.Task[None]:
        """Take files from the folder until the task is cancelled."""
        self.folder.mkdir(parents=True, exist_ok=True)
        await self.take_all()
        return asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            await self.take_all()
            await asyncio.sleep(self.every_s)

    async def take_all(self) -> int:
        """Take every file in the folder; returns how many were taken."""
        found = sorted(path for path in self.folder.iterdir() if path.suffix in _FORMATS)
        taken = 0
        for path in found:
            try:
                await self._take(path)
                taken += 1
            except RefusalError as refusal:
                self.receiver.refusals[refusal.reason] += 1
                path.rename(path.with_name(path.name + ".refused"))
        return taken

    async def _take(self, path: Path) -> None:
        status = path.stat()
        mark = f"{path.name}:{status.st_ino}:{status.st_mtime_ns}"
        if mark not in self.receiver.queue.taken_files:
            require_size("file", status.st_size, self.max_file)
            rows = _FORMATS[path.suffix].read(path.read_bytes(), self.receiver.schema)
            await self.receiver.take(rows, file=mark)
        path.unlink()
        self.receiver.queue.forget_file(mark)

"""A log of updates on disk: records in order, durable when `sync` has returned.

A segment file is a sequence of frames: length of the body (4 bytes), CRC-32 of the body (4 bytes),
kind of the record (1 byte), body. Writes are gathered and become durable together (group commit).
A crash may leave half a frame at the end of the newest segment: reading stops there, and writing
goes on after the last whole frame. A broken frame with a whole one behind it is no crash but
damage, and an error.

The log grows until it is compacted: a new segment begins with a summary of everything that still
matters, and the older ones are deleted once the summary is durable.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from thalweg.errors import StateError
from thalweg.io.whole_files import sync_folder

__all__ = ["Record", "UpdateLog"]

_HEADER = struct.Struct("<IIB")
MAX_BODY = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Record:
    kind: int
    body: bytes


class UpdateLog:
    """
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> log = UpdateLog(folder)
    >>> log.append(1, b"IBM 24")
    >>> log.sync()
    >>> log.close()
    >>> again = UpdateLog(folder)
    >>> [record.body for record in again.records()]
    [b'IBM 24']
    >>> again.close()
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        for unfinished in folder.glob("log-*.tmp"):
            unfinished.unlink()
        segments = sorted(folder.glob("log-*.bin"))
        for older in segments[:-1]:  # a compaction was cut short; the newest segment is complete
            older.unlink()
        segments = segments[-1:]
        self._found = segments
        self._number = _number(segments[-1]) if segments else 0
        path = self._path(self._number)
        end = _end_of_whole_frames(path) if segments else 0
        self._file = path.open("r+b" if segments else "x+b")
        self.torn = self._file.seek(0, os.SEEK_END) - end
        """Bytes of an unfinished frame at the end that were cut off."""
        self._file.truncate(end)
        self._file.seek(end)
        sync_folder(folder)
        self.nbytes = end

    def records(self) -> Iterator[Record]:
        """All records, oldest first; to be read before anything is appended."""
        for path in self._found:
            yield from _frames(path)

    def append(self, kind: int, body: bytes | memoryview) -> None:
        """Add a record, which is durable after the next `sync`."""
        if len(body) > MAX_BODY:
            raise StateError(f"a record of {len(body)} bytes is too large for the log.")
        self._file.write(_HEADER.pack(len(body), zlib.crc32(body), kind))
        self._file.write(body)
        self.nbytes += _HEADER.size + len(body)

    def sync(self) -> None:
        """Return when everything that was appended is on disk."""
        self._file.flush()
        os.fdatasync(self._file.fileno())

    def compact(self, summary: list[Record]) -> None:
        """Begin a new segment with `summary`, which replaces all records so far."""
        older = self._path(self._number)
        number = self._number + 1
        unfinished = self._folder / f"log-{number:012d}.tmp"
        with unfinished.open("wb") as file:
            for record in summary:
                file.write(_HEADER.pack(len(record.body), zlib.crc32(record.body), record.kind))
                file.write(record.body)
            file.flush()
            os.fdatasync(file.fileno())
            self.nbytes = file.tell()
        self._file.close()
        path = unfinished.rename(self._path(number))
        sync_folder(self._folder)
        older.unlink()
        self._number = number
        self._file = path.open("r+b")
        self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        self._file.close()

    def _path(self, number: int) -> Path:
        return self._folder / f"log-{number:012d}.bin"


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("log-"))


def _frames(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        while header := file.read(_HEADER.size):
            if len(header) < _HEADER.size:
                return
            length, check, kind = _HEADER.unpack(header)
            body = file.read(length) if length <= MAX_BODY else b""
            if len(body) < length or zlib.crc32(body) != check:
                if _is_whole_frame(file.read(_HEADER.size), file):
                    raise StateError(
                        f"{path.name}: a record in the middle of the update log is damaged; rows "
                        "that were acknowledged are lost. Move the folder away to begin anew."
                    )
                return
            yield Record(kind, body)


def _is_whole_frame(header: bytes, file: BinaryIO) -> bool:
    if len(header) < _HEADER.size:
        return False
    length, check, _ = _HEADER.unpack(header)
    return bool(length <= MAX_BODY and zlib.crc32(file.read(length)) == check)


def _end_of_whole_frames(path: Path) -> int:
    return sum(_HEADER.size + len(record.body) for record in _frames(path))

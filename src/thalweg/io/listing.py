"""Which files are in a place: one file, a folder with its folders, or a glob; on this machine or in
any store that Arrow reaches (`s3://`, `gs://`, `hdfs://`, ...).

Names that begin with `_` or `.`, and those of temporary files, are no input. Links are not
followed: they could lead out of the place, or to a file that is there already.
"""

from __future__ import annotations

import fnmatch
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.fs

from thalweg.errors import InputError
from thalweg.io.listed import Listing

__all__ = ["FilePlace", "Found"]

_TEMPORARY = (".tmp", ".temp", ".part", ".partial", ".crdownload", ".swp", ".crc", "~")
_GLOB = re.compile(r"[*?\[]")
_TAIL = 256
_QUIET_NS = 2_000_000_000
"""A folder that has not changed for so long shows every later change by a new time."""


class Found(NamedTuple):
    """A file: its path below the place, its size, when it was last changed, and for text a digest
    of its last bytes."""

    name: str
    size: int
    changed_ns: int
    tail: str = ""


@dataclass
class FilePlace:
    """A place where files are. `passed` are those that were listed but are no input, with the
    reason."""

    text: str
    passed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files, self.root = _file_system(self.text)
        self._local = isinstance(self.files, pa.fs.LocalFileSystem)
        self._pattern: str | None = None
        base, pattern = _divided(self.root)
        if pattern is not None and self._type(self.root) == pa.fs.FileType.NotFound:
            self.root, self._pattern = base, pattern
        self._folders: dict[str, int] = {}

    def _type(self, path: str) -> pa.fs.FileType:
        return self.files.get_file_info(path).type

    def path_of(self, name: str) -> str:
        """The path of a listed file in its file system."""
        return f"{self.root}/{name}" if name else self.root

    def shown(self, name: str) -> str:
        """What to call a listed file in a message."""
        return name or PurePosixPath(self.root).name

    def is_unchanged(self) -> bool:
        """Whether nothing can have come since the last listing: every folder has the time it had,
        which is long enough ago that a later change would show."""
        if not self._local or not self._folders:
            return False
        try:
            return all(
                Path(path).stat().st_mtime_ns == changed for path, changed in self._folders.items()
            )
        except OSError:
            return False

    def listing(self) -> Iterator[Found]:
        """The input that is there, in no order."""
        listed = self.listed()
        columns = zip(listed.names, listed.size.tolist(), listed.changed_ns.tolist(), strict=True)
        return (Found(*entry) for entry in columns if self.is_input(entry[0]))

    def listed(self) -> Listing:
        """All files that are there, input or not (see `is_input`), as columns."""
        self._folders = {}
        info = self.files.get_file_info(self.root)
        if info.type == pa.fs.FileType.NotFound:
            raise InputError(f"there is no file or folder {self.text}.")
        if info.type == pa.fs.FileType.File:
            return Listing([""], np.array([info.size]), np.array([_changed(info)]))
        if self._local:
            return Listing.concat(list(self._in_folder(self.root)))
        selector = pa.fs.FileSelector(self.root, recursive=True)
        entries = self.files.get_file_info(selector)
        return self._columns([e for e in entries if e.type == pa.fs.FileType.File])

    def _columns(self, entries: list[pa.fs.FileInfo]) -> Listing:
        skip = len(self.root)
        names = [entry.path[skip:].lstrip("/") for entry in entries]
        sizes = np.fromiter((entry.size for entry in entries), np.int64, len(entries))
        return Listing(names, sizes, np.array([_changed(entry) for entry in entries], np.int64))

    def _in_folder(self, folder: str) -> Iterator[Listing]:
        """The files of a folder, then those of the folders in it."""
        try:
            changed = Path(folder).stat().st_mtime_ns
            entries = self.files.get_file_info(pa.fs.FileSelector(folder))
        except OSError as reason:
            raise InputError(f"the folder {folder} cannot be listed: {reason}.") from reason
        quiet = time.time_ns() - changed > _QUIET_NS
        self._folders[folder] = changed if quiet else -1
        try:
            files = self._columns(entries)  # files alone, their names all text: nearly always
        except (UnicodeDecodeError, TypeError):
            entries = [entry for entry in entries if self._has_text(entry)]
            files = self._columns([e for e in entries if e.type == pa.fs.FileType.File])
        else:
            entries = []
        yield files
        for entry in entries:
            if entry.type == pa.fs.FileType.Directory:
                path = entry.path
                if not _is_hidden(path.rpartition("/")[2]):
                    if Path(path).is_symlink():
                        self.passed[path[len(self.root) + 1 :]] = "links are not followed"
                    else:
                        yield from self._in_folder(path)

    def _has_text(self, entry: pa.fs.FileInfo) -> bool:
        """Whether the name of an entry is text."""
        try:
            return bool(entry.path)
        except UnicodeDecodeError as reason:
            shown = bytes(reason.object).rpartition(b"/")[2].decode(errors="backslashreplace")
            self.passed[shown] = "its name is not UTF-8; rename it"
            return False

    def tail_of(self, name: str, size: int) -> str:
        """A digest of the last bytes of the first `size` bytes of a file."""
        with self.files.open_input_file(self.path_of(name)) as file:
            file.seek(max(0, size - _TAIL))
            return f"{zlib.crc32(file.read(min(size, _TAIL))):08x}"

    def ends_with(self, found: Found, mark: bytes) -> bool:
        """Whether a file ends with these bytes."""
        with self.files.open_input_file(self.path_of(found.name)) as file:
            file.seek(max(0, found.size - len(mark)))
            return bool(file.read(len(mark)) == mark)

    def is_link(self, name: str) -> bool:
        return self._local and bool(name) and Path(self.path_of(name)).is_symlink()

    def is_input(self, name: str) -> bool:
        """Whether a file of this name is read."""
        if any(map(_is_hidden, name.split("/"))) or name.endswith(_TEMPORARY):
            return False
        return self._pattern is None or _matches(name, self._pattern)


def _changed(info: pa.fs.FileInfo) -> int:
    return 0 if info.mtime_ns is None else int(info.mtime_ns)


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", ".")) and "=" not in name


def _file_system(text: str) -> tuple[pa.fs.FileSystem, str]:
    if "://" not in text:
        return pa.fs.LocalFileSystem(), str(Path(text).absolute())
    try:
        base, pattern = _divided(text)  # a star is no character of an address
        files, root = pa.fs.FileSystem.from_uri(base)
    except (pa.ArrowException, ValueError, OSError) as reason:
        raise InputError(f"{text} cannot be reached: {str(reason).rstrip('.')}.") from reason
    return files, root if pattern is None else f"{root}/{pattern}"


def _divided(path: str) -> tuple[str, str | None]:
    """A path in what is before the first part with a wildcard, and the rest.

    >>> _divided("/data/2026-*/a.csv"), _divided("/data")
    (('/data', '2026-*/a.csv'), ('/data', None))
    """
    parts = path.split("/")
    for at, part in enumerate(parts):
        if _GLOB.search(part):
            return "/".join(parts[:at]) or "/", "/".join(parts[at:])
    return path, None


def _matches(name: str, pattern: str) -> bool:
    """Whether a path matches a glob, part by part; `**` is any number of parts."""
    return _match_parts(name.split("/"), pattern.split("/"))


def _match_parts(names: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not names
    if patterns[0] == "**":
        return any(_match_parts(names[at:], patterns[1:]) for at in range(len(names) + 1))
    return (
        bool(names)
        and fnmatch.fnmatchcase(names[0], patterns[0])
        and _match_parts(names[1:], patterns[1:])
    )

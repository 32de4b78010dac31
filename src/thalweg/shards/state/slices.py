"""A fragment's state in Spark's state store: one entry per slice, and a directory of them.

    "directory"     crc, {"format", "token", "plan": {operator: signature},
                          "slices": {name: [version, crc]}}
    slice name      Arrow bytes

A micro-batch writes the slices it touched, removes those that a CTI has emptied, and writes the
directory. Every write has a version of its own. A worker caches the slices that it last read or
wrote, so that mostly only the directory is read, and after a change of worker only the slices that
changed in between. A cached slice is used only if its version is that of the store: a failed
attempt leaves nothing behind.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from thalweg.errors import StateError
from thalweg.io.row_bytes import read_rows, write_rows
from thalweg.model.rows import Rows
from thalweg.shards.state.signatures import carried_over, operator_and_slice
from thalweg.shards.state.store import Store, read_json, write_json

__all__ = ["STATE_FORMAT", "Memory", "SliceStore", "remove_slices", "require_format"]

_DIRECTORY = "directory"
STATE_FORMAT = 5
"""Raised, with a note in CHANGELOG.md, when signatures or slices change their meaning."""


@dataclass(slots=True)
class Memory:
    """A worker process's cache of the slices of one bucket."""

    token: str = ""
    rows: dict[str, Rows] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)


class Mark(NamedTuple):
    """The version that wrote a slice, and a checksum of its bytes."""

    version: str
    checksum: int


@dataclass(frozen=True, slots=True)
class Directory:
    """The directory of one bucket's slices."""

    token: str
    """The version of the last write."""
    plan: Mapping[str, str]
    """By operator: its signature."""
    slices: Mapping[str, Mark]

    @classmethod
    def read(cls, store: Store, where: str) -> Self | None:
        """The directory in a store; None: there is no state yet."""
        saved = read_json(store, _DIRECTORY, f"{where}: the directory of the state")
        if saved is None:
            return None
        require_format(saved, where)
        marks = {
            name: Mark(str(version), int(checksum))
            for name, (version, checksum) in saved["slices"].items()
        }
        return cls(saved["token"], saved["plan"], marks)

    def write(self, store: Store) -> None:
        saved = {
            "format": STATE_FORMAT,
            "token": self.token,
            "plan": dict(self.plan),
            "slices": dict(self.slices),
        }
        write_json(store, _DIRECTORY, saved)


def require_format(saved: Mapping[str, Any], where: str) -> None:
    """Refuse state that another version wrote in a form that this one cannot read."""
    number = saved.get("format", 1)
    if number != STATE_FORMAT:
        raise StateError(
            f"{where}: the checkpoint was written by another version (state format {number}; this "
            f"version reads {STATE_FORMAT}). Let the version that wrote it finish, or start with a "
            "new checkpoint."
        )


class SliceStore:
    """Reads and writes the slices of one bucket."""

    def __init__(self, store: Store, memory: Memory, where: str) -> None:
        self._store = store
        self._memory = memory
        self._where = where
        self.written = 0
        self.read = 0

    def load(self, plan: Mapping[str, str]) -> dict[str, Rows] | None:
        """The slices of the operators that `plan` (signatures by operator) still has; None: there
        is no state yet."""
        directory = self._directory()
        if directory is None:
            self._memory.token, self._memory.rows, self._memory.marks = "", {}, {}
            return None
        dropped = carried_over(directory.plan, plan, directory.slices)
        if directory.token != self._memory.token:
            self._catch_up(directory)
        return {
            name: rows
            for name, rows in self._memory.rows.items()
            if operator_and_slice(name)[0] not in dropped
        }

    def is_current(self) -> bool:
        """Whether the cache has the state of the store."""
        directory = self._directory()
        return directory is not None and directory.token == self._memory.token

    def _directory(self) -> Directory | None:
        return Directory.read(self._store, self._where)

    def _catch_up(self, directory: Directory) -> None:
        """Read the slices whose cached version is not that of the store."""
        memory = self._memory
        memory.rows = {
            name: memory.rows[name]
            if memory.marks.get(name) == mark
            else self._read(name, mark.checksum)
            for name, mark in directory.slices.items()
        }
        memory.marks, memory.token = dict(directory.slices), directory.token

    def _read(self, name: str, checksum: int) -> Rows:
        blob = self._store.get(name)
        if blob is None:
            raise StateError(
                f"{self._where}: the state lacks the slice {name!r}; restore the checkpoint."
            )
        if zlib.crc32(blob) != checksum:
            raise StateError(
                f"{self._where}: the slice {name!r} of the state is damaged (checksum); restore the"
                " checkpoint."
            )
        self.read += len(blob)
        return read_rows(blob)

    def save(self, slices: Mapping[str, Rows], plan: Mapping[str, str]) -> None:
        """Write the slices that changed since `load`."""
        version = uuid.uuid4().hex
        before, memory = self._memory.rows, self._memory
        marks: dict[str, Mark] = {}
        for name, rows in slices.items():
            mark = memory.marks.get(name)
            if mark is not None and before.get(name) is rows:
                marks[name] = mark
                continue
            blob = write_rows(rows)
            checksum = zlib.crc32(blob)
            if mark is not None and mark.checksum == checksum and before[name].equals(rows):
                marks[name] = mark
                continue
            self._store.put(name, blob)
            self.written += len(blob)
            marks[name] = Mark(version, checksum)
        for name in memory.marks.keys() - slices.keys():
            self._store.remove(name)
        Directory(version, plan, marks).write(self._store)
        self._store.settle()
        memory.rows, memory.marks, memory.token = dict(slices), marks, version


def remove_slices(store: Store, where: str) -> None:
    """Remove all that a directory names, and the directory."""
    directory = Directory.read(store, where)
    if directory is not None:
        for name in directory.slices:
            store.remove(name)
        store.remove(_DIRECTORY)

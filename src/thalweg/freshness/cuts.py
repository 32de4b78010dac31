"""Cuts: rows taken from a queue together, in numbered files that may be read more than once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from thalweg.io.whole_files import sync_folder

__all__ = ["Cut", "cut_numbers", "drop_unfinished_cuts"]

_PREFIX, _SUFFIX, _UNFINISHED = "cut-", ".arrow", ".tmp"
_PROMISE = b"promise"


@dataclass(frozen=True, slots=True)
class Cut:
    """A numbered batch of rows."""

    number: int
    path: Path
    rows: int

    @classmethod
    def write(cls, folder: Path, number: int, rows: pa.RecordBatch, promise: int | None) -> Cut:
        """Write rows as a cut with a promise; it is on disk, whole, when this returns."""
        path = cls.path_of(folder, number)
        unfinished = path.with_suffix(_UNFINISHED)
        rows = rows.replace_schema_metadata(
            {} if promise is None else {_PROMISE: str(promise).encode()}
        )
        with (
            pa.OSFile(str(unfinished), "wb") as file,
            pa.ipc.new_file(file, rows.schema) as writer,
        ):
            writer.write_batch(rows)
        with unfinished.open("rb") as written:
            os.fdatasync(written.fileno())
        unfinished.rename(path)
        sync_folder(folder)
        return cls(number, path, len(rows))

    @classmethod
    def find(cls, folder: Path, number: int) -> Cut:
        """The cut of a number, from its file."""
        path = cls.path_of(folder, number)
        with pa.OSFile(str(path)) as file:
            return cls(number, path, pa.ipc.open_file(file).read_all().num_rows)

    def read(self) -> pa.Table:
        with pa.OSFile(str(self.path)) as file:
            return pa.ipc.open_file(file).read_all()

    @staticmethod
    def path_of(folder: Path, number: int) -> Path:
        return folder / f"{_PREFIX}{number:012d}{_SUFFIX}"

    @staticmethod
    def promise_of(rows: pa.Table) -> int | None:
        """The promise that a cut's rows carry."""
        text = (rows.schema.metadata or {}).get(_PROMISE)
        return None if text is None else int(text)


def cut_numbers(folder: Path) -> Iterator[int]:
    """The numbers of the cuts whose files are in a folder, in no order."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        yield int(path.stem.removeprefix(_PREFIX))


def drop_unfinished_cuts(folder: Path) -> None:
    """Remove the files of cuts that a crash left half written."""
    for path in folder.glob(f"{_PREFIX}*{_UNFINISHED}"):
        path.unlink()

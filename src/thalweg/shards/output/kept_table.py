"""The table of a query that is kept in memory, and in its checkpoint, so that a restart has it
again.

Each micro-batch leaves its changes in a file of its own, which is replaced if the batch runs again;
now and then the older ones are put together. Without a folder the table is in memory alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from thalweg.errors import StateError
from thalweg.io.whole_files import write_whole
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS
from thalweg.shards.exchange.blobs import batch_of_blob, blob_of_batch

__all__ = ["KeptTable", "batch_of_table_file"]

_TOGETHER = 64
"""How many files of single micro-batches are merged into one."""
_BASE, _BATCH = "base", "batch"
"""Kinds of files: all changes up to a micro-batch, and those of one."""
_FILE = re.compile(rf"({_BASE}|{_BATCH})-(-?\d+)\.arrow")


def batch_of_table_file(name: str) -> int | None:
    """The micro-batch up to which a file of the table goes; None: it is no such file."""
    match = _FILE.fullmatch(name)
    return None if match is None else int(match[2])


class KeptTable:
    """`last` is the newest micro-batch in the checkpoint, `finished` the newest that will
    not run again; -1: none."""

    def __init__(
        self, schema: pa.Schema, folder: Path | None = None, *, last: int = -1, finished: int = -1
    ) -> None:
        self._schema = schema
        self._folder = folder
        self._before = Delta.empty(schema)
        """All but the newest micro-batch, which may run again."""
        self._newest = Delta.empty(schema)
        self._batch = -1
        self._based = -1
        if folder is not None and last >= 0:
            self._load(folder, last, finished)

    def begin(self, batch: int) -> None:
        """Begin the table with this micro-batch, in which the query was added."""
        self._batch = self._based = batch - 1
        if self._folder is not None:
            self._write(_name(_BASE, self._based), self._newest)

    def take(self, batch: int, blobs: Iterable[bytes]) -> None:
        """Apply the changes of a micro-batch, which may be the newest one again."""
        changes = [Delta.of_batch(batch_of_blob(blob)) for blob in blobs]
        self._take(batch, Delta.concat(changes, self._schema).consolidate())
        if self._folder is not None:
            self._write(_name(_BATCH, batch), self._newest)
            if self._batch - self._based > _TOGETHER:
                self._put_together()

    def _take(self, batch: int, changes: Delta) -> None:
        if batch < self._batch:
            return
        if batch > self._batch:
            self._before = Delta.concat([self._before, self._newest], self._schema).consolidate()
        self._newest, self._batch = changes, batch

    def batch(self) -> Batch:
        """The table as it is now: inserts alone."""
        now = Delta.concat([self._before, self._newest], self._schema).consolidate()
        return now.to_batch(NO_PROGRESS)

    def _write(self, name: str, changes: Delta) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._folder / name, blob_of_batch(changes.to_batch(NO_PROGRESS)))

    def _put_together(self) -> None:
        assert self._folder is not None
        self._based = self._batch - 1
        self._write(_name(_BASE, self._based), self._before)
        for kind, number, path in _files(self._folder):
            if number < self._based or (number == self._based and kind == _BATCH):
                path.unlink()

    def _load(self, folder: Path, last: int, finished: int) -> None:
        found = {(kind, number): path for kind, number, path in _files(folder)}
        bases = [number for kind, number in found if kind == _BASE and number <= last]
        try:
            if bases:
                self._batch = self._based = max(bases)
                self._newest = self._read(found[_BASE, self._based])
            for batch in range(self._batch + 1, last + 1):
                path = found.get((_BATCH, batch))
                if path is not None:
                    self._take(batch, self._read(path))
                elif batch <= finished:
                    raise StateError(
                        f"the checkpoint has run {finished + 1} micro-batches, but the table of "
                        f"micro-batch {batch} is not in it: its answers went elsewhere. Start with "
                        "the to= it was started with, or with a new checkpoint."
                    )
        except (pa.ArrowException, OSError) as reason:
            raise StateError(
                f"{folder.name}: the table is damaged: {reason}. Restore the whole checkpoint."
            ) from reason

    def _read(self, path: Path) -> Delta:
        batch = batch_of_blob(path.read_bytes())
        if not batch.schema.equals(self._schema):
            raise StateError(
                f"{path.name}: the table in the checkpoint has other columns than the query; start "
                "with a new checkpoint."
            )
        return Delta.of_batch(batch)


def _name(kind: str, batch: int) -> str:
    return f"{kind}-{batch}.arrow"


def _files(folder: Path) -> list[tuple[str, int, Path]]:
    if not folder.is_dir():
        return []
    matches = ((_FILE.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((match[1], int(match[2]), path) for match, path in matches if match)

"""The folder that a query's answers are written to: it belongs to one checkpoint.

Each micro-batch becomes a folder `batch=N`. A file `_thalweg.json` beside them names the checkpoint
that writes here. A start is refused where the folder holds answers of another query or batches that
the checkpoint does not know (the checkpoint is an older copy), or lacks batches that it knows (the
folder is). Otherwise the query goes on exactly: only the folder of the micro-batch that was not
finished is written again. Answers that are no longer needed may be removed; leave their folders.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.fs

from thalweg.errors import PlanError, StateError

__all__ = ["SinkFolder", "batch_folder", "batch_of_folder"]

_OWNER = "_thalweg.json"
_BATCH = re.compile(r"batch=(\d+)")


def batch_folder(batch: int) -> str:
    """The name of the folder with the answers of a micro-batch.

    >>> batch_folder(3), batch_of_folder("batch=3"), batch_of_folder("_thalweg.json")
    ('batch=3', 3, None)
    """
    return f"batch={batch}"


def batch_of_folder(name: str) -> int | None:
    """The inverse of `batch_folder`; None: it is no such folder."""
    match = _BATCH.fullmatch(name)
    return None if match is None else int(match[1])


@dataclass(frozen=True)
class _Owner:
    """The content of the file that says whose folder it is."""

    checkpoint: str
    format: str


@dataclass(frozen=True)
class SinkFolder:
    path: str
    format: str

    def _open(self) -> tuple[pa.fs.FileSystem, str] | None:
        """The file system and the path in it; None for one that only Spark can reach."""
        if "://" not in self.path:
            return pa.fs.LocalFileSystem(), self.path
        try:
            files, path = pa.fs.FileSystem.from_uri(self.path)
        except (pa.ArrowException, OSError, ValueError):
            return None
        return files, path

    @property
    def is_checked(self) -> bool:
        """Whether this folder can be looked into at all."""
        return self._open() is not None

    def check(self, checkpoint: str, *, last: int, finished: int) -> None:
        """Refuse to write here if it would mix answers. `last` is the newest micro-batch in the
        checkpoint, `finished` the newest that will not run again; -1 is none."""
        opened = self._open()
        if opened is None:
            return
        files, path = opened
        info = files.get_file_info(path)
        if info.type == pa.fs.FileType.File:
            raise PlanError(f"{self.path} is a file; answers go to a folder.")
        entries = [] if info.type == pa.fs.FileType.NotFound else _names(files, path)
        owner = self._owner(files, path) if _OWNER in entries else None
        shown = [name for name in entries if not name.startswith(("_", "."))]
        self._check_owner(owner, checkpoint, shown)
        self._check_batches(shown, last, finished)

    def _check_owner(self, owner: _Owner | None, checkpoint: str, shown: list[str]) -> None:
        """Refuse a folder with the answers of another checkpoint, or in another format."""
        if owner is None:
            if shown:
                raise StateError(
                    f"{self.path} already holds {', '.join(shown[:3])}, which this checkpoint did "
                    "not write: answers would be mixed or counted twice. Give another path=, or "
                    "empty the folder."
                )
        elif owner.checkpoint != checkpoint:
            raise StateError(
                f"{self.path} holds the answers of another checkpoint: they would be mixed or "
                "counted twice. Start with the checkpoint that wrote them, give another path=, or "
                "empty the folder."
            )
        elif owner.format != self.format:
            raise StateError(
                f"{self.path} was written as {owner.format}; go on with to={owner.format!r}, "
                "or give another path=."
            )

    def _check_batches(self, shown: list[str], last: int, finished: int) -> None:
        """Refuse a folder with micro-batches that the checkpoint does not know, or without some
        that it has written."""
        found = {batch for name in shown if (batch := batch_of_folder(name)) is not None}
        beyond = sorted(number for number in found if number > last)
        if beyond:
            raise StateError(
                f"{self.path} holds the micro-batches {_range(beyond)}, which the checkpoint does "
                f"not know (it has come to {last}): the checkpoint is an older copy. Restore the "
                "newest one, or remove those folders and start again."
            )
        missing = sorted(set(range(finished + 1)) - found)
        if missing:
            raise StateError(
                f"{self.path} lacks the micro-batches {_range(missing)}, which the checkpoint has "
                "written already and will not write again. Restore them, or start anew with an "
                "empty path and a new checkpoint."
            )

    def claim(self, checkpoint: str) -> None:
        """Write down whose folder this is."""
        opened = self._open()
        if opened is None:
            return
        files, path = opened
        try:
            files.create_dir(path, recursive=True)
            with files.open_output_stream(f"{path}/{_OWNER}", compression=None) as file:
                file.write(json.dumps(asdict(_Owner(checkpoint, self.format))).encode())
        except OSError as reason:
            why = os.strerror(reason.errno) if reason.errno else reason
            raise StateError(
                f"{self.path}: no answers can be written there: {why}. Give a folder that can be "
                "written."
            ) from reason

    def _owner(self, files: pa.fs.FileSystem, path: str) -> _Owner:
        try:
            with files.open_input_stream(f"{path}/{_OWNER}", compression=None) as file:
                owner = json.loads(file.read())
            return _Owner(str(owner["checkpoint"]), str(owner["format"]))
        except (OSError, ValueError, KeyError, TypeError) as reason:
            raise StateError(
                f"{self.path}: {_OWNER}, which says whose answers these are, is damaged; restore "
                "it, or give another path=."
            ) from reason


def _names(files: pa.fs.FileSystem, path: str) -> list[str]:
    return sorted(info.base_name for info in files.get_file_info(pa.fs.FileSelector(path)))


def _range(numbers: list[int]) -> str:
    """
    >>> _range([3]), _range([3, 4, 7])
    ('3', '3 to 7')
    """
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"

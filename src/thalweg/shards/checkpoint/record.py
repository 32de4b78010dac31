"""The progress record: digests that a checkpoint must match when a query starts from it again.

Spark trusts its offset log blindly: one changed bit there and rows are read twice. Beside it lies a
record of our own, `thalweg/record.jsonl`: one line per micro-batch with digests of the offset file
and of the files that never change (`record_lines`). A line is written before anything of its batch
reaches the sink. On start every file that is still there must be as the record says. The record
also names the query, so that a foreign checkpoint is refused; its first line, of no batch, is there
before Spark writes anything, so that a query can be killed at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from thalweg.errors import StateError
from thalweg.io.whole_files import write_whole
from thalweg.shards.checkpoint.query_identity import QueryIdentity
from thalweg.shards.checkpoint.record_lines import (
    NO_BATCH,
    RecordLine,
    numbered_files,
    read_lines,
    record_file,
)

__all__ = ["ProgressRecord"]

_KEPT = 200
"""Lines kept when the record is shortened; Spark keeps as many batches (100 by default) itself."""
_CONSTANT = (
    "metadata",
    "state/*/_metadata/*/*",
    "state/*/_metadata/*",
    "state/*/_stateSchema/*/*",
    "state/*/*/_stateSchema/*/*",
)
"""The files of a checkpoint that never change."""


class ProgressRecord:
    """The record of one checkpoint of a query."""

    def __init__(self, checkpoint: Path, query: QueryIdentity) -> None:
        self._folder = checkpoint
        self._file = record_file(checkpoint)
        self._query = query
        self._digest = ""
        """The digest of the last line."""
        self._lines = 0
        self._constant: dict[str, str] | None = None
        self._settled = False
        self.identity = uuid.uuid4().hex
        """The identity of the checkpoint; after `check` that in the record."""
        self.last = NO_BATCH
        """The newest batch that may have reached the sink."""
        self.finished = NO_BATCH
        """The newest batch that is done, and will not run again."""

    # --------------------------------------------------------------------------------------------
    # on start

    def check(self) -> None:
        """Refuse a checkpoint that does not match this record, or is another query's. Nothing is
        written."""
        if not self._file.exists():
            if numbered_files(self._folder / "offsets") or (self._folder / "metadata").exists():
                raise self._error(
                    "this checkpoint was not made by Thalweg, or its record is gone. Restore the "
                    "whole checkpoint, or start with a new one."
                )
            return
        lines = list(read_lines(self._folder))
        if not lines:
            raise self._error("thalweg/record.jsonl is damaged. Restore the whole checkpoint.")
        lines[-1].query.require_start_of(self._query, self._folder.name)
        self.identity = lines[-1].checkpoint or self.identity
        self._compare_files([line for line in lines if line.batch != NO_BATCH])
        for name in ("offsets", "commits"):
            for number in sorted(numbered_files(self._folder / name)):
                self._parse(f"{name}/{number}")

    def begin(self) -> None:
        """Give a new checkpoint its first line."""
        if not self._file.exists():
            self._rewrite([self._line(NO_BATCH, "", {})])

    def _compare_files(self, ran: Sequence[RecordLine]) -> None:
        """Compare the files of the checkpoint with the lines of all batches that ran."""
        constant: dict[str, str] = {}
        for line in ran:
            constant |= line.constant
            self._compare(f"offsets/{line.batch}", line.offsets)
        for name, digest in constant.items():
            self._compare(name, digest)
        if ran:
            self._check_commits(ran)
            self.last = ran[-1].batch
            self.finished = max(numbered_files(self._folder / "commits"), default=NO_BATCH)

    def _compare(self, name: str, digest: str) -> None:
        found = _digest(self._folder / name)
        if found is not None and found != digest:
            raise self._error(
                f"the file {name} of the checkpoint is not what was written: it was damaged, "
                "changed or mixed with another checkpoint. Going on would count rows twice or lose "
                "some. Restore the whole checkpoint."
            )

    def _parse(self, name: str) -> None:
        """Refuse an unreadable file that is not in the record yet. Spark itself reports an empty
        file, but not a damaged one."""
        try:
            lines = (self._folder / name).read_text(encoding="utf-8").splitlines()
            whole = all(line == "-" or json.loads(line) is not None for line in lines[1:])
        except ValueError:
            whole = False
        if not whole:
            raise self._error(
                f"the file {name} of the checkpoint is damaged. Restore the whole checkpoint."
            )

    def _check_commits(self, ran: Sequence[RecordLine]) -> None:
        """Refuse missing commits and offsets. A batch before the newest was committed; without its
        mark Spark would run it again on newer state."""
        offsets = numbered_files(self._folder / "offsets")
        commits = numbered_files(self._folder / "commits")
        if not offsets:
            raise self._error(
                f"the offset log is empty, but {len(ran)} batches were recorded. Restore the "
                "checkpoint."
            )
        newest = max(offsets)
        if newest < ran[-1].batch:
            raise self._error(
                f"batch {ran[-1].batch} was run, but its offsets are gone. Restore the checkpoint."
            )
        if newest - 1 in offsets and newest - 1 not in commits:
            raise self._error(
                f"the mark that batch {newest - 1} is done is gone. Restore the checkpoint."
            )

    def _error(self, what: str) -> StateError:
        return StateError(f"{self._folder.name}: {what}")

    # --------------------------------------------------------------------------------------------
    # while it runs

    def note(self, batch: int) -> None:
        """Record a batch that is about to reach the sink."""
        offsets = _digest(self._folder / "offsets" / str(batch))
        if offsets is None:
            raise self._error(f"batch {batch} runs, but its offsets are not in the checkpoint.")
        if self._lines == 0 and self._file.exists():
            lines = list(read_lines(self._folder))
            self._lines, self._digest = len(lines), _last_digest(lines)
            if not self._file.read_bytes().endswith(b"\n"):
                self._rewrite(lines)
            if lines and lines[-1].batch == batch:
                return  # it is run again after a crash
        line = self._line(batch, offsets, self._constant_files())
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(line.to_text())
            file.flush()
            os.fsync(file.fileno())
        self._lines, self._digest = self._lines + 1, line.digest
        if self._lines > 2 * _KEPT:
            self._rewrite(list(read_lines(self._folder))[-_KEPT:])

    def _line(self, batch: int, offsets: str, constant: dict[str, str]) -> RecordLine:
        return RecordLine(batch, offsets, constant, self._query, self.identity, self._digest)

    def _constant_files(self) -> dict[str, str]:
        """The files that never change, with digests. They are written with the first micro-batch of
        a run; once two in a row have found the same, the others need not look again."""
        if not self._settled:
            found = {
                str(path.relative_to(self._folder)): digest for path, digest in self._constants()
            }
            self._settled = found == self._constant
            self._constant = found
        return self._constant or {}

    def _constants(self) -> Iterator[tuple[Path, str]]:
        for pattern in _CONSTANT:
            for path in sorted(self._folder.glob(pattern)):
                digest = (
                    _digest(path) if path.is_file() and not path.name.endswith(".crc") else None
                )
                if digest is not None:
                    yield path, digest

    def _rewrite(self, lines: Sequence[RecordLine]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._file, "".join(line.to_text() for line in lines))
        self._lines, self._digest = len(lines), _last_digest(lines)


def _last_digest(lines: Sequence[RecordLine]) -> str:
    return lines[-1].digest if lines else ""


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except OSError:
        return None

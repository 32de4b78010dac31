"""Files of events in a directory as a source: Parquet, Arrow, CSV and JSON lines, read as Arrow
with ingest fused in.

Files are numbered in the order in which they are found (oldest first, then by name) and that order
is written to a log in the checkpoint, so that a restart reads the same files again. A file counts
once it is whole: names that begin with `_` or `.` or end in `.tmp` are left alone, and so is a file
whose format has an end mark that is not there yet. Writers of CSV and JSON lines should write under
another name and rename.

A file that cannot be read ends the query. Start again when it is repaired, or renamed to begin with
`_`: then the query goes on without its rows. A file that is just gone is an error, so that no row
is lost unseen. Of CSV and JSON lines, single records that cannot be read may be passed over: they
become dead letters.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from thalweg.errors import InputError, StateError
from thalweg.io.records import DeadLetters, parse_text, readable_records

__all__ = ["FORMATS", "FileLog", "read_file", "whole_files"]

FORMATS = ("parquet", "arrow", "csv", "json", "elements")
_CHUNK_ROWS = 1_000_000
_ENDS = {"parquet": b"PAR1", "arrow": b"ARROW1", "elements": b"ARROW1"}


@dataclass(slots=True)
class FileLog:
    """The files found so far, in order. Each line of the log carries a digest of all lines before
    it."""

    folder: Path
    format: str
    log: Path
    names: list[str]
    digest: str

    @classmethod
    def open(cls, folder: Path, format_: str, log: Path) -> FileLog:
        names: list[str] = []
        digest = ""
        if log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
            for number, line in enumerate(lines if lines[-1] else lines[:-1]):
                try:
                    entry = json.loads(line)
                    name, found = entry["name"], entry["digest"]
                except (ValueError, KeyError, TypeError):
                    raise StateError(
                        f"{log.name}, line {number}: the log of files is damaged; restore the checkpoint."
                    ) from None
                digest = _chain(digest, name)
                if (
                    digest != found or line is lines[-1]
                ):  # the log is replaced as a whole: one that is cut off is damaged too
                    raise StateError(
                        f"{log.name}, line {number}: the log of files was changed; restore the checkpoint."
                    )
                names.append(name)
        return cls(folder, format_, log, names, digest)

    def look(self, limit: int | None = None, *, since: int = 0) -> int:
        """Look for new files and note them; how many are known, at most `limit` more than
        `since`."""
        known = set(self.names)
        fresh = whole_files(self.folder, self.format, but=known)
        if fresh:
            fresh.sort(key=lambda path: (path.stat().st_mtime_ns, path.name))
            self._note([path.name for path in fresh])
        return len(self.names) if limit is None else min(len(self.names), since + limit)

    def _note(self, names: list[str]) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for name in names:
            self.digest = _chain(self.digest, name)
            lines.append(json.dumps({"name": name, "digest": self.digest}))
        whole = "".join(f"{line}\n" for line in lines)
        kept = "".join(f"{json.dumps({'name': n, 'digest': d})}\n" for n, d in self._noted())
        temporary = self.log.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            file.write(kept + whole)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.log)
        self.names += names

    def _noted(self) -> Iterator[tuple[str, str]]:
        digest = ""
        for name in self.names:
            digest = _chain(digest, name)
            yield name, digest


def _chain(digest: str, name: str) -> str:
    return hashlib.sha256(f"{digest}\n{name}".encode()).hexdigest()[:16]


def whole_files(folder: Path, format_: str, *, but: Collection[str] = ()) -> list[Path]:
    """The files that can be read, in no order."""
    return [path for path in _listing(folder) if path.name not in but and _is_whole(path, format_)]


def _listing(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}.")
    names = [
        entry
        for entry in folder.iterdir()
        if not entry.name.startswith(("_", ".")) and not entry.name.endswith((".tmp", ".crc"))
    ]
    return [entry for entry in names if entry.is_file()]


def _is_whole(path: Path, format_: str) -> bool:
    mark = _ENDS.get(format_)
    try:
        size = path.stat().st_size
        if not size:
            return False
        with path.open("rb") as file:
            file.seek(-min(size, 8), os.SEEK_END)
            tail = file.read()
    except OSError:
        return False
    return tail.endswith(mark) if mark is not None else tail.endswith(b"\n")


def read_file(
    path: Path,
    format_: str,
    columns: list[str] | None,
    schema: pa.Schema | None,
    letters: DeadLetters | None = None,
) -> Iterator[pa.Table]:
    """The rows of a file in pieces; an unreadable file is an error that names it. One that was set
    aside has none.

    With `letters`, records of CSV and JSON lines that cannot be read are passed over and noted
    there.
    """
    if not path.exists() and path.with_name(f"_{path.name}").exists():
        return
    try:
        if format_ == "parquet":
            yield from _parquet(path, columns)
            return
        if format_ in ("arrow", "elements"):
            with pa.OSFile(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
        else:
            table = _text(path, format_, schema, letters)
    except (pa.ArrowException, OSError) as reason:
        raise InputError(
            f"the file {path.name} cannot be read as {format_}: {str(reason).rstrip('.')}. "
            f"Repair it, or rename it to _{path.name} to go on without it, and start again."
        ) from reason
    if columns is not None:
        missing = [name for name in columns if name not in table.schema.names]
        if missing:
            raise InputError(
                f"the file {path.name} has no column {missing[0]!r}; it has {', '.join(table.schema.names)}."
            )
        table = table.select(columns)
    for begin in range(0, max(len(table), 1), _CHUNK_ROWS):
        yield table.slice(begin, _CHUNK_ROWS)


def _text(
    path: Path, format_: str, schema: pa.Schema | None, letters: DeadLetters | None
) -> pa.Table:
    data = path.read_bytes()
    try:
        return parse_text(data, format_, schema)
    except pa.ArrowException:
        if letters is None or schema is None:
            raise
        return readable_records(data, format_, schema, letters, path.name)


def _parquet(path: Path, columns: list[str] | None) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        missing = [name for name in columns or () if name not in names]
        if missing:
            raise InputError(
                f"the file {path.name} has no column {missing[0]!r}; it has {', '.join(names)}."
            )
        held: list[pa.Table] = []
        for group in range(file.num_row_groups):
            held.append(file.read_row_group(group, columns=columns, use_threads=False))
            if sum(map(len, held)) >= _CHUNK_ROWS:
                yield pa.concat_tables(held)
                held = []
        if held or not file.num_row_groups:
            yield (
                pa.concat_tables(held)
                if held
                else file.schema_arrow.empty_table().select(columns or names)
            )

"""Reading files of events: Parquet, Arrow, CSV and JSON lines, as tables in pieces.

What a file holds is not trusted. Arrow files are checked in full before anything walks their
buffers, the checksums of Parquet pages are compared where a file has them, and text is measured
before it is parsed. A file that cannot be read is an `InputError` that names it. Start again when
it is repaired, or renamed to begin with `_`: then the query goes on without its rows. A file that
is missing is an error, so that no row is lost unseen. Of CSV and JSON lines, single records that
cannot be read may be passed over: they become dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from thalweg.errors import InputError, SchemaChangeError, list_names
from thalweg.io.dead_letters import DeadLetters
from thalweg.io.listing import FilePlace, Found
from thalweg.io.partitions import Partitions
from thalweg.io.sieve import readable_records
from thalweg.io.text import NULLS, parse_text, plain_text

__all__ = ["FileForm", "aside", "file_schema", "read_file"]

_CHUNK_ROWS = 1_000_000
_SAMPLE = 64 << 20
"""Bytes of text that are looked at for the types of columns."""
_DEEPEST_TYPE = 50
"""Levels of lists and structs in a column."""


@dataclass(frozen=True)
class FileForm:
    """How the files of a source are read. `columns` are the columns that the files have; None: as
    each file says."""

    format: str
    columns: pa.Schema | None = None
    nulls: tuple[str, ...] = NULLS
    partitions: Partitions = Partitions()


def read_file(
    place: FilePlace,
    name: str,
    form: FileForm,
    columns: Sequence[str] | None = None,
    *,
    found: Found | None = None,
    letters: DeadLetters | None = None,
) -> Iterator[pa.Table]:
    """The rows of a file in pieces; an unreadable file is an error that names it. One that was set
    aside has none.

    `found` is the file as it was when it was noted: what was appended to text since is not read.
    With `letters`, records of CSV and JSON lines that cannot be read are passed over and noted
    there.
    """
    if _is_set_aside(place, name):
        return
    shown = place.shown(name)
    try:
        size = _size(place, found)
        job = _Job(place.files, place.path_of(name), shown, form, columns, size, letters)
        for piece in _FORMATS[form.format](job):
            yield form.partitions.added(piece, name, columns)
    except (pa.ArrowException, OSError, ValueError, MemoryError, RecursionError) as reason:
        raise unreadable(shown, form.format, reason) from reason


def file_schema(place: FilePlace, name: str, form: FileForm) -> pa.Schema:
    """The columns of a file, from its own metadata or its first rows."""
    shown = place.shown(name)
    try:
        with place.files.open_input_file(place.path_of(name)) as source:
            if form.format == "parquet":
                return pq.ParquetFile(source).schema_arrow
            if form.format in ("arrow", "elements"):
                return pa.ipc.open_file(source).schema
            data = plain_text(source.read())
        if len(data) > _SAMPLE:
            data = data[: data.rfind(b"\n", 0, _SAMPLE) + 1] or data
        return parse_text(data, form.format, None, form.nulls).schema
    except (pa.ArrowException, OSError, ValueError) as reason:
        raise unreadable(shown, form.format, reason) from reason


def unreadable(shown: str, format_: str, reason: BaseException) -> InputError:
    """The error for a file that cannot be read."""
    message = str(reason).strip().split("\n")[0].rstrip(".") or type(reason).__name__
    return InputError(
        f"the file {shown} cannot be read as {format_}: {message}. "
        f"Repair it, or rename it to {aside(shown)} to go on without it, and start again."
    )


def aside(name: str) -> str:
    """The name under which a file is no input any more.

    >>> aside("day=1/a.csv")
    'day=1/_a.csv'
    """
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}_{file}"


def _is_set_aside(place: FilePlace, name: str) -> bool:
    if not name:
        return False
    here, there = place.files.get_file_info([place.path_of(name), place.path_of(aside(name))])
    return bool(here.type == pa.fs.FileType.NotFound and there.type == pa.fs.FileType.File)


def _size(place: FilePlace, found: Found | None) -> int | None:
    """How much of a file is read: what was there when it was found, if it was only appended to.
    One that was repaired since is read whole."""
    if found is None or not found.tail:
        return None
    now = place.files.get_file_info(place.path_of(found.name)).size
    if now < found.size or place.tail_of(found.name, found.size) != found.tail:
        return None
    return found.size


@dataclass(frozen=True)
class _Job:
    files: pa.fs.FileSystem
    path: str
    shown: str
    form: FileForm
    columns: Sequence[str] | None
    size: int | None
    letters: DeadLetters | None

    def columns_to_read(self, names: list[str]) -> list[str] | None:
        """The columns to read of a file with the columns `names`; None: all."""
        if self.columns is None:
            return None
        columns = [name for name in self.columns if name not in self.form.partitions.names]
        for name in columns:
            found = names.count(name)
            if found != 1:
                problem = f"the column {name!r} {found} times" if found else f"no column {name!r}"
                raise SchemaChangeError(
                    f"the file {self.shown} has {problem}; it has {list_names(names)}."
                )
        return columns


def _parquet(job: _Job) -> Iterator[pa.Table]:
    with (
        job.files.open_input_file(job.path) as source,
        pq.ParquetFile(source, page_checksum_verification=True) as file,
    ):
        schema = file.schema_arrow
        _require_flat(schema)
        columns = job.columns_to_read(schema.names)
        held: list[pa.RecordBatch] = []
        for batch in file.iter_batches(_CHUNK_ROWS, columns=columns, use_threads=False):
            batch.validate(full=True)
            held.append(batch)
            if sum(map(len, held)) >= _CHUNK_ROWS:
                yield _select(pa.Table.from_batches(held), columns)
                held = []
        if held:
            yield _select(pa.Table.from_batches(held), columns)
        elif not file.metadata.num_rows:
            yield _select(schema.empty_table(), columns)


def _arrow(job: _Job) -> Iterator[pa.Table]:
    with job.files.open_input_file(job.path) as source:
        reader = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(use_threads=False))
        _require_flat(reader.schema)
        columns = job.columns_to_read(reader.schema.names)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            batch.validate(full=True)
            table = _select(pa.Table.from_batches([batch], reader.schema), columns)
            for begin in range(0, max(len(table), 1), _CHUNK_ROWS):
                yield table.slice(begin, _CHUNK_ROWS)
        if not reader.num_record_batches:
            yield _select(reader.schema.empty_table(), columns)


def _text(job: _Job) -> Iterator[pa.Table]:
    with job.files.open_input_file(job.path) as source:
        data = plain_text(source.read(job.size))
    form = job.form
    schema = form.columns
    if schema is not None:
        schema = pa.schema([entry for entry in schema if entry.name not in form.partitions.names])
    try:
        if schema is not None and not data.strip():
            table = schema.empty_table()
        else:
            table = parse_text(data, form.format, schema, form.nulls)
    except pa.ArrowException:
        if job.letters is None or schema is None:
            raise
        table = readable_records(data, form.format, schema, job.letters, job.shown, form.nulls)
    table = _select(table, job.columns_to_read(table.schema.names))
    for begin in range(0, max(len(table), 1), _CHUNK_ROWS):
        yield table.slice(begin, _CHUNK_ROWS)


def _select(table: pa.Table, columns: list[str] | None) -> pa.Table:
    return table if columns is None else table.select(columns)


_FORMATS = {"parquet": _parquet, "arrow": _arrow, "elements": _arrow, "csv": _text, "json": _text}


def _require_flat(schema: pa.Schema) -> None:
    """Refuse types nested so deep that walking them could end the process."""
    level: list[pa.DataType] = list(schema.types)
    for _ in range(_DEEPEST_TYPE):
        level = [kind.field(at).type for kind in level for at in range(kind.num_fields)]
        if not level:
            return
    raise pa.ArrowInvalid(f"its columns are nested more than {_DEEPEST_TYPE} deep")

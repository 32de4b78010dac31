"""What is in a place before anything runs: the format of its files, their columns, and which column
is the time. Shared by `from_files` and the command line; every cause has its own sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import pyarrow as pa

from thalweg.errors import InputError, TypeMismatchError, UnknownColumnError
from thalweg.io.files import FileForm, file_schema, read_file
from thalweg.io.formats import (
    END_MARKS,
    TEXT_FORMATS,
    format_of,
    format_of_bytes,
    require_format,
    suffix_format,
)
from thalweg.io.listing import FilePlace, Found
from thalweg.io.partitions import Partitions, find_partitions
from thalweg.io.text import NULLS
from thalweg.io.written_times import time_type

__all__ = ["Discovered", "discover", "place_name", "require_time"]


@dataclass(frozen=True)
class Discovered:
    """The files of a place that are whole, how they are read, and the columns that rows have, those
    of folders included."""

    place: FilePlace
    form: FileForm
    schema: pa.Schema
    files: tuple[Found, ...]

    def read(self, columns: Sequence[str] | None = None) -> list[pa.Table]:
        """All rows of the files there are, oldest name first."""
        return [
            piece
            for found in sorted(self.files)
            for piece in read_file(self.place, found.name, self.form, columns)
        ]


def discover(
    text: str,
    *,
    format: str | None = None,  # noqa: A002 - the word that Spark's users know
    columns: pa.Schema | None = None,
    times: Sequence[str | None] = (),
    nulls: Sequence[str] = NULLS,
) -> Discovered:
    """Look at a file, a folder or a glob. `times` are the columns that will be read as times: text
    becomes timestamps there. Without `columns` those of the first file are taken; of CSV, the first
    that has rows."""
    place = FilePlace(text)
    listed = sorted(place.listing())
    if format is not None:
        require_format(format, text)
    chosen = format or _format(text, place, listed)
    fitting = [f for f in listed if suffix_format(place.shown(f.name)) in (None, chosen)]
    partitions = find_partitions(found.name for found in fitting)
    form = FileForm(chosen, columns, tuple(nulls), partitions)
    whole = tuple(found for found in fitting if found.size and _is_whole(place, found, chosen))
    if columns is None:
        if not whole:
            raise InputError(
                f"{_nothing(text, place, chosen, listed, fitting)} Give columns= to start without."
            )
        typed = _first_typed(text, place, whole, form)
        columns, partitions = _columns(place, typed, form, partitions, times)
        form = FileForm(
            chosen, columns if chosen in TEXT_FORMATS else None, tuple(nulls), partitions
        )
    return Discovered(place, form, columns, whole)


def _first_typed(text: str, place: FilePlace, whole: Sequence[Found], form: FileForm) -> Found:
    """The first file that says what types its columns have: CSV without rows does not."""
    if form.format != "csv":
        return whole[0]
    for found in whole:
        if not all(map(pa.types.is_null, file_schema(place, found.name, form).types)):
            return found
    if not any(len(piece) for found in whole for piece in read_file(place, found.name, form)):
        raise InputError(
            f"{text}: {place.shown(whole[0].name)} has a line of names and no rows, which does not "
            "say what types its columns have. Give columns= to start without rows."
        )
    return whole[0]


def _format(text: str, place: FilePlace, listed: list[Found]) -> str:
    found = format_of([place.shown(file.name) for file in listed], text)
    if found is not None or not listed:
        return found or "parquet"
    with place.files.open_input_stream(place.path_of(listed[0].name), compression=None) as stream:
        found = format_of_bytes(stream.read(64))
    if found is None:
        raise InputError(
            f"{text}: neither the name nor the first bytes of {place.shown(listed[0].name)} tell "
            "its format; say format=."
        )
    return found


def _nothing(
    text: str, place: FilePlace, format_: str, listed: list[Found], fitting: list[Found]
) -> str:
    """Why there is no file to read."""
    if fitting:
        shown = place.shown(fitting[0].name)
        why = "it is empty" if not fitting[0].size else "its end is missing, so it is half-written"
        return f"{text}: no {format_} file there is whole; {shown}: {why}."
    if listed:
        kinds = Counter(suffix_format(found.name) or "unknown" for found in listed)
        there = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        return f"{text}: there is no {format_} file; what is there: {there}."
    return (
        f"{text}: there are no files (names that begin with _ or . and temporary ones do not "
        "count)."
    )


def _is_whole(place: FilePlace, found: Found, format_: str) -> bool:
    mark = END_MARKS.get(format_)
    return mark is None or place.ends_with(found, mark)


def _columns(
    place: FilePlace,
    found: Found,
    form: FileForm,
    partitions: Partitions,
    times: Sequence[str | None],
) -> tuple[pa.Schema, Partitions]:
    """The columns of a file and of its folders; what the file has counts more."""
    schema = file_schema(place, found.name, form)
    shown = place.shown(found.name)
    _require_commas(schema, form, times, shown)
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise InputError(f"the file {shown} has the column {twice[0]!r} more than once.")
    if form.format in TEXT_FORMATS:
        schema = pa.schema([_as_read(place, found, form, entry, times) for entry in schema])
    kept = pa.schema([entry for entry in partitions.schema if entry.name not in schema.names])
    return pa.schema([*schema.remove_metadata(), *kept]), Partitions(kept)


def _require_commas(
    schema: pa.Schema, form: FileForm, times: Sequence[str | None], shown: str
) -> None:
    """Refuse CSV with another separator, which has one column and not the times in it."""
    if form.format != "csv" or len(schema) != 1 or set(times) & {None, *schema.names} == set(times):
        return
    for separator in ";\t|":
        if separator in schema.names[0]:
            raise InputError(
                f"the file {shown} separates its columns with {separator!r}; CSV is read with "
                "commas. Write it with commas, or read it yourself and give the frame."
            )


def _as_read(
    place: FilePlace, found: Found, form: FileForm, entry: pa.Field, times: Sequence[str | None]
) -> pa.Field:
    """A column of text with a type that later files fit too: times in microseconds, and nothing
    but nulls is text."""
    kind = entry.type
    if pa.types.is_timestamp(kind) and form.format == "json" and kind.tz is None:
        # Arrow reads a zone, and does not say that there was one
        kind = time_type(_texts(place, found, form, entry.name)) or pa.timestamp("us")
    elif pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    elif pa.types.is_null(kind):
        kind = pa.string()
    elif pa.types.is_string(kind) and entry.name in times:
        if time_type(_texts(place, found, form, entry.name)) is None:
            return entry
        kind = pa.timestamp("us", "UTC")
    return pa.field(entry.name, kind)


def _texts(place: FilePlace, found: Found, form: FileForm, name: str) -> pa.ChunkedArray:
    """A column of a file as it is written."""
    as_text = replace(form, columns=pa.schema([(name, pa.string())]))
    return pa.concat_tables(read_file(place, found.name, as_text, [name])).column(0)


def require_time(schema: pa.Schema, name: str | None, what: str) -> None:
    """Refuse a column that is not there, or is no time."""
    if name is None:
        return
    if name not in schema.names:
        raise UnknownColumnError(name, schema.names, what)
    kind = schema.field(name).type
    tests = (
        pa.types.is_timestamp,
        pa.types.is_date,
        pa.types.is_integer,
        pa.types.is_floating,
    )
    if not any(test(kind) for test in tests):
        raise TypeMismatchError(
            f"{what}: the column {name!r} is {kind}, which is no time; a time is a timestamp, a "
            "date, ISO 8601 text or whole ticks."
        )


def place_name(text: str) -> str:
    """What a source is called that is read from a place.

    >>> place_name("data/packets/"), place_name("data/a.csv.gz"), place_name("data/eu/*.csv")
    ('packets', 'a', 'eu')
    """
    parts = [part for part in PurePosixPath(text).parts if not any(c in part for c in "*?[")]
    name = parts[-1] if parts else "files"
    while suffix_format(name) is not None:
        name = PurePosixPath(name).stem
    return name

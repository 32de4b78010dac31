"""Records that come as text, CSV or JSON lines: what can be read becomes rows, what cannot becomes
a dead letter.

With `bad="fail"` the first record that cannot be read is an error, and nothing of the input is
taken. With `bad="skip"` it is passed over and kept, with its line, its text and the reason: a line
that is no CSV or JSON, a value that is not of its column's type, a time that is missing or outside
the range of the clock. All lines are parsed at once; only where that fails, halves are tried, and
their halves, until the lines that are to blame are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from thalweg.errors import InputError, PlanError, TimeRangeError, UnknownColumnError, did_you_mean
from thalweg.io.events import events
from thalweg.model.time import Duration, duration_us

__all__ = [
    "BAD",
    "LETTERS",
    "DeadLetters",
    "Records",
    "parse_text",
    "readable_records",
    "records",
    "require_bad",
    "sieve",
    "timed_events",
]

BAD = ("fail", "skip")
LETTERS = pa.schema(
    [("where", pa.string()), ("line", pa.int64()), ("text", pa.string()), ("reason", pa.string())]
)
"""A dead letter: where it was found, the number of its line or row there, what it says, and why it
cannot be read."""

T = TypeVar("T")


@dataclass(slots=True)
class DeadLetters:
    """Records that could not be read: how many, and each with the reason."""

    count: int = 0
    tables: list[pa.Table] = field(default_factory=list)

    def note(self, where: str, letters: list[tuple[int, str, str]]) -> None:
        """Letters as (line, text, reason)."""
        if letters:
            lines, texts, reasons = (list(column) for column in zip(*letters, strict=True))
            self.count += len(letters)
            self.tables.append(
                pa.table([[where] * len(letters), lines, texts, reasons], schema=LETTERS)
            )

    def take(self) -> pa.Table:
        """All letters since the last call."""
        tables, self.tables = self.tables, []
        return pa.concat_tables([LETTERS.empty_table(), *tables])


def sieve(size: int, attempt: Callable[[int, int], T]) -> tuple[list[T], list[tuple[int, str]]]:
    """What `attempt(begin, end)` gives for the stretches where it works, and the single places
    where it does not, with the reason.

    >>> sieve(3, lambda begin, end: pa.array(["1", "x", "3"][begin:end]).cast(pa.int64()).to_pylist())
    ([[1], [3]], [(1, "Failed to parse string: 'x' as a scalar of type int64")])
    """
    good: list[T] = []
    bad: list[tuple[int, str]] = []
    stack = [(0, size)]
    while stack:
        begin, end = stack.pop()
        if begin >= end:
            continue
        try:
            good.append(attempt(begin, end))
        except (pa.ArrowException, TimeRangeError) as reason:
            if end - begin == 1:
                bad.append((begin, str(reason).splitlines()[0]))
            else:
                middle = (begin + end) // 2
                stack += [
                    (middle, end),
                    (begin, middle),
                ]  # the first half is tried first: rows keep their order
    return good, bad


def parse_text(data: bytes, format_: str, schema: pa.Schema | None) -> pa.Table:
    """CSV (with a line of names) or JSON lines as a table; raises what Arrow raises."""
    if format_ == "csv":
        types = {f.name: f.type for f in schema} if schema is not None else None
        # Nothing between two commas is null, whatever else the file holds; two quotes are an empty
        # text.
        convert = pyarrow.csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        return pyarrow.csv.read_csv(pa.BufferReader(data), convert_options=convert)
    explicit = pyarrow.json.ParseOptions(explicit_schema=schema) if schema is not None else None
    return pyarrow.json.read_json(pa.BufferReader(data), parse_options=explicit)


def readable_records(
    data: bytes, format_: str, schema: pa.Schema, letters: DeadLetters, where: str
) -> pa.Table:
    """The records of a text that can be read, in order; the others become dead letters."""
    lines = [
        (number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()
    ]
    head = b""
    if format_ == "csv" and lines:
        head = lines.pop(0)[1] + b"\n"
        missing = [
            name for name in schema.names if name not in parse_text(head, "csv", None).schema.names
        ]
        if missing:
            raise InputError(f"{where}: there is no column {missing[0]!r} in its first line.")

    def attempt(begin: int, end: int) -> pa.Table:
        table = parse_text(
            head + b"\n".join(line for _, line in lines[begin:end]) + b"\n", format_, schema
        )
        return pa.table(
            [table.column(entry.name).cast(entry.type) for entry in schema], schema=schema
        )

    good, bad = sieve(len(lines), attempt)
    letters.note(
        where,
        [(lines[at][0], lines[at][1].decode("utf-8", "replace"), reason) for at, reason in bad],
    )
    return pa.concat_tables([schema.empty_table(), *good])


def timed_events(
    table: pa.Table, make: Callable[[pa.Table], T], letters: DeadLetters, where: str
) -> list[T]:
    """What `make` gives for the rows whose times it takes; the other rows become dead letters."""
    good, bad = sieve(len(table), lambda begin, end: make(table.slice(begin, end - begin)))
    letters.note(
        where, [(at, str(table.slice(at, 1).to_pylist()[0]), reason) for at, reason in bad]
    )
    return good


class Records:
    """A feed of rows from text, and the dead letters among it so far."""

    def __init__(self, pieces: Callable[[], Iterator[tuple[str, bytes]]], form: _Form) -> None:
        self._pieces = pieces
        self._form = form
        self.letters = DeadLetters()

    @property
    def dead(self) -> int:
        """How many records could not be read so far."""
        return self.letters.count

    def __iter__(self) -> Iterator[pa.Table]:
        for where, data in self._pieces():
            yield from self._form.tables(where, data, self.letters)


@dataclass(frozen=True)
class _Form:
    format: str
    columns: pa.Schema
    time: str
    end: str | None
    duration: int
    bad: str

    def tables(self, where: str, data: bytes, letters: DeadLetters) -> Iterator[pa.Table]:
        try:
            table = (
                parse_text(data, self.format, self.columns)
                if data.strip()
                else self.columns.empty_table()
            )
        except pa.ArrowException as reason:
            if self.bad == "fail":
                raise InputError(
                    f"{where} cannot be read as {self.format}: {reason}. bad='skip' passes over such records."
                ) from reason
            table = readable_records(data, self.format, self.columns, letters, where)
        table = table.select(self.columns.names)
        if self.bad == "fail":
            yield self._events(table)
        else:
            yield from timed_events(table, self._events, letters, where)

    def _events(self, table: pa.Table) -> pa.Table:
        return events(table, self.time, self.end, duration=self.duration)


def records(
    text: str | bytes | Path,
    columns: pa.Schema,
    *,
    time: str,
    end: str | None = None,
    duration: Duration = 1,
    format: str = "json",  # noqa: A002 - the word that Spark's users know
    bad: str = "fail",
) -> Records:
    """CSV or JSON lines as a feed of events: a text, or the path of a file. `columns` is the schema
    of the records, times included.

    >>> columns = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    >>> feed = records('{"ts": 3, "v": 1}\\n{"ts": 4, "v": "many"}\\n{"v": 5}\\n', columns, time="ts", bad="skip")
    >>> [table.to_pylist() for table in feed], feed.dead
    ([[{'_start': 3, '_end': 4, 'v': 1}]], 2)
    >>> feed.letters.take().select(["line", "text"]).to_pylist()[0]
    {'line': 2, 'text': '{"ts": 4, "v": "many"}'}
    """
    if format not in ("csv", "json"):
        raise PlanError(
            f"records: the format must be csv or json{did_you_mean(format, ('csv', 'json'))} Got {format!r}."
        )
    require_bad(bad, "records")
    for name in (time, end):
        if name is not None and name not in columns.names:
            raise UnknownColumnError(name, columns.names, "records")
    form = _Form(format, columns, time, end, duration_us(duration), bad)
    data = text.encode() if isinstance(text, str) else text

    def pieces() -> Iterator[tuple[str, bytes]]:
        yield ("text", data) if isinstance(data, bytes) else (data.name, data.read_bytes())

    return Records(pieces, form)


def require_bad(bad: str, what: str) -> None:
    """Refuse a policy for bad records that there is not."""
    if bad not in BAD:
        raise PlanError(
            f"{what}: bad must be one of {', '.join(BAD)}{did_you_mean(bad, BAD)} Got {bad!r}."
        )

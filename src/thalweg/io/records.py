"""Records that come as text, CSV or JSON lines: what can be read becomes rows, what cannot becomes
a dead letter.

With `bad="fail"` the first record that cannot be read is an error, and nothing of the input is
taken. With `bad="skip"` it is passed over and kept, with its line, its text and the reason: a line
that is no CSV or JSON, a value that is not of its column's type, a time that is missing or outside
the range of the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from thalweg.errors import InputError, PlanError, UnknownColumnError, did_you_mean
from thalweg.io.dead_letters import LETTERS, DeadLetters
from thalweg.io.events import events, without_bad_times
from thalweg.io.formats import TEXT_FORMATS
from thalweg.io.sieve import readable_records
from thalweg.io.text import NULLS, parse_text, plain_text
from thalweg.model.time import Duration, duration_us

__all__ = ["BAD", "LETTERS", "DeadLetters", "Records", "records", "require_bad", "rows_with_times"]

BAD = ("fail", "skip")


def rows_with_times(
    table: pa.Table,
    start: str,
    end: str | None,
    duration: int,
    dead_letters: DeadLetters,
    where: str,
) -> pa.Table:
    """The rows whose times can be read; the others become dead letters."""
    kept, bad = without_bad_times(table, start, end, duration=duration)
    if bad:
        texts = table.take(list(bad)).to_pylist()
        dead_letters.note(
            where,
            [
                (at, str(text), reason)
                for (at, reason), text in zip(bad.items(), texts, strict=True)
            ],
        )
    return kept


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
    nulls: tuple[str, ...]

    def tables(self, where: str, data: bytes, dead_letters: DeadLetters) -> Iterator[pa.Table]:
        try:
            data = plain_text(data)
            table = (
                parse_text(data, self.format, self.columns, self.nulls)
                if data.strip()
                else self.columns.empty_table()
            )
        except pa.ArrowException as reason:
            if self.bad == "fail":
                raise InputError(
                    f"{where} cannot be read as {self.format}: {reason}. bad='skip' passes over "
                    "such records."
                ) from reason
            table = readable_records(
                data, self.format, self.columns, dead_letters, where, self.nulls
            )
        missing = [name for name in self.columns.names if table.schema.names.count(name) != 1]
        if missing:
            times = table.schema.names.count(missing[0])
            value = (
                f"has the column {missing[0]!r} {times} times"
                if times
                else f"has no column {missing[0]!r}"
            )
            raise InputError(f"{where} {value}.")
        table = table.select(self.columns.names)
        if self.bad == "skip":
            table = rows_with_times(table, self.time, self.end, self.duration, dead_letters, where)
        yield events(table, self.time, self.end, duration=self.duration)


def records(
    text: str | bytes | Path,
    columns: pa.Schema,
    *,
    time: str,
    end: str | None = None,
    duration: Duration = 1,
    format: str = "json",  # noqa: A002 - the word that Spark's users know
    bad: str = "fail",
    nulls: Sequence[str] = NULLS,
) -> Records:
    """CSV or JSON lines as a feed of events: a text, or the path of a file. `columns` is the schema
    of the records, times included; `nulls` are the texts of CSV that stand for null.

    >>> columns = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    >>> lines = '{"ts": 3, "v": 1}\\n{"ts": 4, "v": "many"}\\n{"v": 5}\\n'
    >>> feed = records(lines, columns, time="ts", bad="skip")
    >>> [table.to_pylist() for table in feed], feed.dead
    ([[{'_start': 3, '_end': 4, 'v': 1}]], 2)
    >>> feed.letters.take().select(["line", "text"]).to_pylist()[0]
    {'line': 2, 'text': '{"ts": 4, "v": "many"}'}
    """
    if format not in TEXT_FORMATS:
        raise PlanError(
            f"records: the format must be csv or json{did_you_mean(format, TEXT_FORMATS)} Got "
            f"{format!r}."
        )
    require_bad(bad, "records")
    for name in (time, end):
        if name is not None and name not in columns.names:
            raise UnknownColumnError(name, columns.names, "records")
    form = _Form(format, columns, time, end, duration_us(duration), bad, tuple(nulls))
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

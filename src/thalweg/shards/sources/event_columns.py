"""From rows with times to chunks: the columns that hold times, the rows that are punctuation, and
the batch of inserts and the header with promises that a table of rows becomes."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import SchemaChangeError, TimeRangeError
from thalweg.expr import Expr, Frame
from thalweg.io.events import TimeColumns, events
from thalweg.io.feeds import batches_from
from thalweg.io.records import DeadLetters, rows_with_times
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.punctuation import ANY, Punctuation, Range
from thalweg.model.time import time_us
from thalweg.shards.exchange.header import Header

__all__ = ["EventColumns"]


@dataclass(frozen=True, slots=True)
class EventColumns(TimeColumns):
    """The columns that hold the times of rows, and which rows are punctuation.

    Rows for which `punctuation` is true are no events: each promises that nothing before its time
    will come any more, of its own values of the columns `per` if there are any.
    """

    punctuation: Expr | None = None
    per: tuple[str, ...] = ()
    ranges: tuple[tuple[str, str, str], ...] = ()
    """Of a row of punctuation: a column of the events, or their time, and the two columns that hold
    the range of its values, [low, high); null: without a limit."""

    def columns(self, schema: pa.Schema, used: Container[str] | None = None) -> list[str]:
        """The columns to read: those of times and punctuation, and the payload, or only its `used`
        columns."""
        needed = [
            self.start,
            *([self.end] if self.end else []),
            *(sorted(self.punctuation.columns()) if self.punctuation is not None else []),
            *self.per,
            *(name for span in self.ranges for name in span),
        ]
        payload = (name for name in schema.names if used is None or name in used)
        return list(dict.fromkeys([*needed, *payload]))

    def chunk(
        self,
        table: pa.Table,
        schema: pa.Schema,
        where: str,
        dead_letters: DeadLetters | None = None,
    ) -> tuple[Batch, Header]:
        """Rows as a batch of inserts, and a header with their progress. With `dead_letters`, rows
        without valid times go there."""
        if dead_letters is not None:
            table = rows_with_times(table, self.start, self.end, self.duration, dead_letters, where)
        promise, patterns = NO_PROGRESS, tuple[Punctuation, ...]()
        if self.punctuation is not None and len(table):
            rows = table.combine_chunks().to_batches()[0]
            is_punctuation = (
                self.punctuation.evaluate(Frame.of(rows)).cast(pa.bool_()).fill_null(False)
            )
            marks = table.filter(is_punctuation)
            if self.ranges:
                patterns = tuple(self._patterns(marks))
            else:
                promise = self._promise(marks, schema)
            table = table.filter(pc.invert(is_punctuation))
        batch = self.batch(table, schema, where)
        newest = int(batch.start.max()) if len(batch) else None
        header = Header(newest=newest, progress=promise, patterns=patterns, rows=len(batch))
        return batch, header

    def _patterns(self, marks: pa.Table) -> Iterator[Punctuation]:
        """Rows of punctuation about ranges, one by one: they are few. Their own time has no
        meaning."""
        for row in marks.to_pylist():
            time = Range()
            patterns: dict[str, Any] = {name: row[name] for name in self.per}
            for name, low, high in self.ranges:
                if row[low] is None and row[high] is None:
                    continue
                if name == self.start:
                    time = Range(
                        *(None if row[n] is None else time_us(row[n]) for n in (low, high))
                    )
                else:
                    patterns[name] = Range(row[low], row[high])
            if patterns or time != ANY:
                yield Punctuation(time, patterns)

    def _promise(self, marks: pa.Table, schema: pa.Schema) -> Progress:
        """The promises of all rows of punctuation together."""
        if not len(marks):
            return NO_PROGRESS
        times = events(marks.select([self.start]), self.start, keep_times=True).column("_start")
        if not self.per:
            return Progress(int(times.to_numpy().max()))
        values = [marks.column(name).cast(schema.field(name).type) for name in self.per]
        latest = (
            pa.table([*values, times], names=[*self.per, "_promise"])
            .group_by(list(self.per))
            .aggregate([("_promise", "max")])
        )
        groups = zip(*(latest.column(name).to_pylist() for name in self.per), strict=True)
        return Progress(
            NO_PROGRESS.cti,
            self.per,
            dict(zip(groups, latest.column("_promise_max").to_pylist(), strict=True)),
        )

    def batch(self, table: pa.Table, schema: pa.Schema, where: str) -> Batch:
        """Rows as a batch of inserts."""
        needed = [name for name in (self.start, self.end) if name is not None]
        names = [*needed, *(name for name in schema.names if name not in needed)]
        missing = [name for name in names if name not in table.schema.names]
        if missing:
            raise SchemaChangeError(
                f"{where}: there is no column {missing[0]!r}; the columns are "
                f"{', '.join(table.schema.names)}."
            )
        try:
            timed = events(
                table.select(names), self.start, self.end, duration=self.duration, keep_times=True
            )
        except TimeRangeError as reason:
            raise TimeRangeError(f"{where}: {reason}") from reason
        kept = timed.select(["_start", "_end", *schema.names])
        casts = [kept.column(name) for name in ("_start", "_end")]
        casts += [_as_declared(kept.column(entry.name), entry, where) for entry in schema]
        (batch,) = batches_from(
            pa.Table.from_arrays(casts, names=["_start", "_end", *schema.names]), schema, where
        )
        return batch


def _as_declared(column: pa.ChunkedArray, declared: pa.Field, where: str) -> pa.ChunkedArray:
    """A column cast to the declared type; refused unless that is another form of the same
    values."""
    if column.type == declared.type:
        return column
    try:
        if _is_text(column.type) != _is_text(declared.type) and not pa.types.is_null(column.type):
            raise pa.ArrowInvalid("text and what is no text do not mix")
        return column.cast(declared.type)
    except pa.ArrowException as reason:
        raise SchemaChangeError(
            f"{where}: the column {declared.name!r} is {column.type}, the source declared "
            f"{declared.type}: {str(reason).rstrip('.')}."
        ) from reason


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )

"""The header of a chunk: its content, its promises and its position in the source.

A header travels as JSON. Fields that have their default value are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from thalweg.model.batch import Batch
from thalweg.model.column_promises import ColumnPromises
from thalweg.model.packed_values import pack_values, unpack_values
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.punctuation import Punctuation
from thalweg.operators.merging.named_inputs import InputChange
from thalweg.progress import Sighting

__all__ = ["Header", "Message", "column_promises_of_json", "column_promises_to_json"]


class Message(StrEnum):
    """The content of a chunk. All but rows pass the fragments on their way to the output."""

    ROWS = "rows"
    """Elements and progress of an input; the origin is the input's name."""
    LATE = "late"
    """Late rows of a source, its origin; or only their number, where partial sums came late."""
    SKIPPED = "skipped"
    """Windows that a module failed on; the origin is the operator."""
    DEAD = "dead"
    """Records of a source, its origin, that could not be read."""
    REPORT = "report"
    """The report of a bucket of an earlier fragment."""
    SOURCE = "source"
    """In a host: the header of a chunk of a source, its origin, and the changes of its version, for
    all buckets of all stages."""
    ANSWER = "answer"
    """In a host: elements of the answer of a query, its origin."""


@dataclass(frozen=True, slots=True)
class Header:
    """Facts about a chunk, as of before any row of it was filtered out."""

    kind: Message = Message.ROWS
    partition: str = ""
    """The part of the source that the chunk comes from: each part has progress of its own."""
    newest: int | None = None
    """The largest sync time of its rows."""
    progress: Progress = NO_PROGRESS
    """Promises that follow it: for all rows, for single groups, and over columns. Others (for
    areas of groups, over columns of single groups) do not travel."""
    patterns: tuple[Punctuation, ...] = ()
    """General punctuation that follows it."""
    begin: int | None = None
    """The position in the source at which the chunk begins ..."""
    end: int | None = None
    """... and ends, in the source's own numbers, so that a gap or an overlap is found."""
    rows: int = 0
    unwanted: int | None = None
    """How many of its rows were left out because no reader needs them (see `io.unwanted`)."""
    steps: list[list[int]] = field(default_factory=list)
    """The last running maxima of its rows, for `late_by_rows` ..."""
    sample: list[Any] = field(default_factory=list)
    """... and a sample of its rows, for `estimated` (see `progress.summary`)."""
    change: InputChange | None = None
    """If the part is an input of a merge: whether it joins or leaves ..."""
    since: int | None = None
    """... and from which time on it is right."""
    clock: int | None = None
    """In a chunk of a ticker, which carries nothing else: the time of the clock ..."""
    asked: bool | None = None
    """... and whether it asks for a promise."""
    report: str = ""
    """The text of a report."""
    version: int | None = None
    """In a host: the version of its queries that the chunk was read for."""
    whole: int | None = None
    """In a host: the time from which the windows of a query that was added later are whole."""

    @classmethod
    def of_batch(
        cls, batch: Batch, *, partition: str = "", begin: int | None = None, end: int | None = None
    ) -> Header:
        """The header of a batch as its source gave it."""
        newest = int(batch.sync.max()) if len(batch) else None
        return cls(
            partition=partition,
            newest=newest,
            progress=batch.progress,
            begin=begin,
            end=end,
            rows=len(batch),
        )

    def with_sighting(self, sighting: Sighting | None) -> Header:
        """The header with the sighting of its rows."""
        if sighting is None:
            return self
        return replace(self, steps=sighting.steps, sample=sighting.sample)

    @property
    def sighting(self) -> Sighting | None:
        return None if self.newest is None else Sighting(self.newest, self.steps, self.sample)

    def to_json(self) -> str:
        fields: dict[str, Any] = {}
        for name, plain in _PLAIN.items():
            value = getattr(self, name)
            if value != plain:
                fields[name] = value
        if self.progress is not NO_PROGRESS:
            fields |= _progress_fields(self.progress)
        if self.patterns:
            fields["patterns"] = [pattern.to_text() for pattern in self.patterns]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Header:
        fields = json.loads(text)
        progress = _progress_of(fields)
        if "kind" in fields:
            fields["kind"] = Message(fields["kind"])
        if "change" in fields:
            fields["change"] = InputChange(fields["change"])
        patterns = tuple(map(Punctuation.from_text, fields.pop("patterns", ())))
        return cls(progress=progress, patterns=patterns, **fields)


_ENCODED = ("progress", "patterns")
_PLAIN = {
    entry.name: [] if entry.default is MISSING else entry.default
    for entry in fields(Header)
    if entry.name not in _ENCODED
}
"""By field that is written as it is: its default value."""


def _progress_fields(progress: Progress) -> dict[str, Any]:
    """The fields of a promise. Values of groups are packed, since JSON has no dates and the
    like."""
    found: dict[str, Any] = {}
    if progress.cti != NO_PROGRESS.cti:
        found["cti"] = progress.cti
    if progress.scope_columns:
        found["scope_columns"] = progress.scope_columns
    if progress.scoped:
        found["scoped"] = [
            [[pack_values([value]) for value in scope], time]
            for scope, time in progress.scoped.items()
        ]
    if progress.column_promises:
        found["column_promises"] = column_promises_to_json(progress.column_promises)
    return found


def _progress_of(fields: dict[str, Any]) -> Progress:
    """The promise among the fields of a header, which are removed from them."""
    cti, columns = fields.pop("cti", NO_PROGRESS.cti), fields.pop("scope_columns", ())
    scoped, column_promises = fields.pop("scoped", ()), fields.pop("column_promises", ())
    if cti == NO_PROGRESS.cti and not scoped and not column_promises:
        return NO_PROGRESS
    return Progress(
        cti,
        tuple(columns),
        {tuple(unpack_values(value)[0] for value in values): time for values, time in scoped},
        column_promises_of_json(column_promises),
    )


def column_promises_to_json(promises: ColumnPromises) -> list[list[list[Any]]]:
    return [[list(names), list(bounds)] for names, bounds in promises.items()]


def column_promises_of_json(promises: Iterable[list[list[Any]]]) -> ColumnPromises:
    return {tuple(names): tuple(bounds) for names, bounds in promises}
